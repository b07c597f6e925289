/*
 * What the tests of worker-sim share, on top of the harness of tests/e2e: one worker-sim a test, questions on raw sockets,
 * members of answers by JSON pointer. What it starts must end with status 0 and without a sanitizer's report.
 */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include "harness.h"

#define COMPLETIONS_PATH "/v1/completions"
#define RESPONSES_PATH "/v1/responses"
#define MESSAGES_PATH "/v1/messages"
#define GENERATE_PATH "/inference/v1/generate"

#define PREFILL "EPP-Profile: prefill\r\n"
#define DECODE "EPP-Profile: decode\r\n"
#define PROBE DECODE "Prefer: if-available\r\n"
#define FAULT(spec) DECODE "X-Sim-Fault-decode: " spec "\r\n"

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hello there\"}]"
#define CHAT_BODY(more) "{\"model\":\"m\"," HELLO more "}"
#define NIXL                                                                                                           \
    "{\"do_remote_decode\":true,\"do_remote_prefill\":false,\"remote_engine_id\":null,\"remote_block_ids\":null,"      \
    "\"remote_host\":null,\"remote_port\":null}"
#define SHARED "{\"do_remote_decode\":true,\"do_remote_prefill\":false}"
#define FETCH_SHARED "{\"do_remote_decode\":false,\"do_remote_prefill\":true}"

#define SIM(...) deploy_sim((const char *const[]){__VA_ARGS__, NULL})
/* Ends it before the test does, to start another. */
void end_sim(void);
int sim_end(void **state);
#define SIM_TEST(name) cmocka_unit_test_teardown(name, sim_end)

/* POST of a body made by the format; the answer has been read as far as it goes. */
struct client *ask(const char *path, const char *fields, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same, ended by a status. */
struct client *ask_well(const char *path, const char *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct client *look(const char *method, const char *path);

/* A member of a JSON text by its pointer; fails the test if it is not there. Strings are valid for a few calls. */
int64_t number_in(const char *json, const char *pointer);
const char *string_in(const char *json, const char *pointer);
bool has_in(const char *json, const char *pointer);
/* "null", "object", "array", … or "absent" */
const char *kind_in(const char *json, const char *pointer);
#define number_of(client, pointer) number_in((client)->answer.body.data, pointer)
#define string_of(client, pointer) string_in((client)->answer.body.data, pointer)
/* The raw text of a top-level member, copied; valid for a few calls. */
const char *raw_of(const struct client *client, const char *member);

/* The events of a stream: their number, and the data of the n-th (negative: from the end), valid for a few calls. */
size_t event_count(const struct client *client);
const char *event_data(const struct client *client, int n);

/* Descriptor of a prefill answer as decode presents it: the two flags turned, all else the same bytes. */
const char *turned(const struct client *prefill);
/* The body with that member `kv_transfer_params` added; valid for a few calls. */
const char *with_kv(const char *body, const char *kv);
/* A string with one part replaced; fails if it is not there. Valid for a few calls. */
const char *replaced(const char *text, const char *part, const char *by);

#endif
