/* The program's flags; see options.h and README.md. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const phase_names[PHASES] = {"render", "prefill", "decode", "probe", "encode", "other"};

const char *phase_name(enum phase phase) { return phase_names[phase]; }

bool phase_named(struct text name, enum phase *phase)
{
    for (int i = 0; i < PHASES; i++)
        if (text_is_nocase(name, phase_names[i])) {
            *phase = (enum phase)i;
            return true;
        }
    return false;
}

static const char usage[] =
    "usage: worker-sim --port P [--port P2 ...] [flags]     (port 0: any; README.md tells more)\n"
    "  --model M | --any-model        the model served; any name is taken by default\n"
    "  --tokens N                     length of an answer (16)\n"
    "  --event-interval MS            time between the events of a stream (0)\n"
    "  --delay PHASE=MS               before answering; PHASE: render prefill decode probe encode other\n"
    "  --close-idle MS                close connections idle for that long (never)\n"
    "  --render-template A|B          (A)\n"
    "  --decode-template A|B          also prefill's (A)\n"
    "  --kv auto|nixl|shared|off      the handshake that prefill takes (auto)\n"
    "  --probe-412 P                  how often a probe is answered 412 (1)\n"
    "  --fault PHASE=SPEC             for all requests of the phase\n"
    "  --fault-rate PHASE=SPEC@P      with a probability\n"
    "  --seed N                       (0)\n"
    "  --created SECONDS              fixed `created` in answers (now)\n"
    "  --max-model-len N              longest prompt (4194304)\n"
    "  --record FILE                  every request as a line of JSON\n"
    "  --cached PHASE=N               what answers call cached (all of it on a hit of decode, otherwise 0)\n"
    "  --created-cache PHASE=N        what answers call newly cached (0)\n"
    "  --force-include-usage          streams end with their usage unasked\n"
    "  --force-continuous-usage       and have it on every chunk\n"
    "  --usage-null-chunks            content chunks have \"usage\":null once usage was asked for\n"
    "  --no-usage                     an old worker: no usage anywhere\n"
    "  --early-zero-usage             Messages: message_start tells 0 tokens\n"
    "  --no-cache-details             usage tells nothing about caches\n";

static _Noreturn void refuse(const char *flag, const char *value)
{
    fprintf(stderr, "worker-sim: %s: cannot use `%s`\n%s", flag, value ? value : "", usage);
    exit(2);
}

static uint64_t read_number(const char *flag, const char *value, uint64_t most)
{
    uint64_t number;
    if (!text_uint((struct text){value, strlen(value)}, &number) || number > most)
        refuse(flag, value);
    return number;
}

static int64_t read_time(const char *flag, const char *value)
{
    int64_t nanos;
    if (!fault_time((struct text){value, strlen(value)}, &nanos))
        refuse(flag, value);
    return nanos;
}

static double read_share(const char *flag, const char *value)
{
    char *end;
    double share = strtod(value, &end);
    if (*end || end == value || !(share >= 0 && share <= 1))
        refuse(flag, value);
    return share;
}

static enum template read_template(const char *flag, const char *value)
{
    if (strcmp(value, "A") != 0 && strcmp(value, "B") != 0)
        refuse(flag, value);
    return *value == 'A' ? TEMPLATE_A : TEMPLATE_B;
}

/* PHASE=rest; returns the rest. */
static const char *read_phase(const char *flag, const char *value, enum phase *phase)
{
    const char *equals = strchr(value, '=');
    if (!equals || !phase_named((struct text){value, (size_t)(equals - value)}, phase))
        refuse(flag, value);
    return equals + 1;
}

static void check_spec(const char *flag, struct text spec)
{
    struct fault fault;
    struct text bad = {"", 0};
    fault_init(&fault);
    bool good = fault_add(&fault, spec, &bad);
    fault_free(&fault);
    if (!good) {
        char item[256];
        snprintf(item, sizeof item, "%.*s", (int)bad.len, bad.at);
        refuse(flag, item);
    }
}

static void read_rate(struct options *o, const char *flag, const char *value)
{
    if (o->rate_count == RATES_AT_MOST)
        refuse(flag, value);
    struct fault_rate *rate = &o->rates[o->rate_count++];
    rate->spec = read_phase(flag, value, &rate->phase);
    const char *share = strrchr(rate->spec, '@');
    if (!share)
        refuse(flag, value);
    rate->len = (size_t)(share - rate->spec);
    rate->probability = read_share(flag, share + 1);
    check_spec(flag, (struct text){rate->spec, rate->len});
}

enum flag {
    PORT = 1,
    MODEL,
    ANY_MODEL,
    TOKENS,
    EVENT_INTERVAL,
    DELAY,
    CLOSE_IDLE,
    RENDER_TEMPLATE,
    DECODE_TEMPLATE,
    KV,
    PROBE_412,
    FAULT,
    FAULT_RATE,
    SEED,
    CREATED,
    MAX_MODEL_LEN,
    RECORD,
    CACHED,
    CREATED_CACHE,
    FORCE_USAGE,
    FORCE_CONTINUOUS,
    NULL_CHUNKS,
    NO_USAGE,
    EARLY_ZERO,
    NO_DETAILS,
    HELP
};

static const struct option flags[] = {
    {"port", required_argument, NULL, PORT},
    {"model", required_argument, NULL, MODEL},
    {"any-model", no_argument, NULL, ANY_MODEL},
    {"tokens", required_argument, NULL, TOKENS},
    {"event-interval", required_argument, NULL, EVENT_INTERVAL},
    {"delay", required_argument, NULL, DELAY},
    {"close-idle", required_argument, NULL, CLOSE_IDLE},
    {"render-template", required_argument, NULL, RENDER_TEMPLATE},
    {"decode-template", required_argument, NULL, DECODE_TEMPLATE},
    {"kv", required_argument, NULL, KV},
    {"probe-412", required_argument, NULL, PROBE_412},
    {"fault", required_argument, NULL, FAULT},
    {"fault-rate", required_argument, NULL, FAULT_RATE},
    {"seed", required_argument, NULL, SEED},
    {"created", required_argument, NULL, CREATED},
    {"max-model-len", required_argument, NULL, MAX_MODEL_LEN},
    {"record", required_argument, NULL, RECORD},
    {"cached", required_argument, NULL, CACHED},
    {"created-cache", required_argument, NULL, CREATED_CACHE},
    {"force-include-usage", no_argument, NULL, FORCE_USAGE},
    {"force-continuous-usage", no_argument, NULL, FORCE_CONTINUOUS},
    {"usage-null-chunks", no_argument, NULL, NULL_CHUNKS},
    {"no-usage", no_argument, NULL, NO_USAGE},
    {"early-zero-usage", no_argument, NULL, EARLY_ZERO},
    {"no-cache-details", no_argument, NULL, NO_DETAILS},
    {"help", no_argument, NULL, HELP},
    {0},
};

static enum kv_mode read_kv(const char *flag, const char *value)
{
    static const char *const names[] = {"auto", "nixl", "shared", "off"};
    for (int i = 0; i < 4; i++)
        if (strcmp(value, names[i]) == 0)
            return (enum kv_mode)i;
    refuse(flag, value);
}

static void read_flag(struct options *o, int flag, const char *name, const char *value)
{
    enum phase phase;
    const char *rest;
    switch (flag) {
    case PORT:
        if (o->port_count == PORTS_AT_MOST)
            refuse(name, value);
        o->ports[o->port_count++] = (uint16_t)read_number(name, value, 65535);
        break;
    case MODEL:
        o->model = value;
        break;
    case ANY_MODEL:
        o->model = NULL;
        break;
    case TOKENS:
        o->tokens = read_number(name, value, 1u << 30);
        break;
    case EVENT_INTERVAL:
        o->event_interval = read_time(name, value);
        break;
    case DELAY:
        rest = read_phase(name, value, &phase);
        o->delays[phase] = read_time(name, rest);
        break;
    case CLOSE_IDLE:
        o->close_idle = read_time(name, value);
        break;
    case RENDER_TEMPLATE:
        o->render_template = read_template(name, value);
        break;
    case DECODE_TEMPLATE:
        o->decode_template = read_template(name, value);
        break;
    case KV:
        o->kv = read_kv(name, value);
        break;
    case PROBE_412:
        o->probe_412 = read_share(name, value);
        break;
    case FAULT:
        rest = read_phase(name, value, &phase);
        check_spec(name, (struct text){rest, strlen(rest)});
        o->faults[phase] = rest;
        break;
    case FAULT_RATE:
        read_rate(o, name, value);
        break;
    case SEED:
        o->seed = read_number(name, value, UINT64_MAX);
        break;
    case CREATED:
        o->created = (int64_t)read_number(name, value, INT64_MAX);
        break;
    case MAX_MODEL_LEN:
        o->max_model_len = read_number(name, value, 1u << 30);
        break;
    case RECORD:
        o->record = value;
        break;
    case CACHED:
        rest = read_phase(name, value, &phase);
        o->cached[phase] = (int64_t)read_number(name, rest, INT64_MAX);
        break;
    case CREATED_CACHE:
        rest = read_phase(name, value, &phase);
        o->created_cache[phase] = (int64_t)read_number(name, rest, INT64_MAX);
        break;
    case FORCE_USAGE:
        o->traits.force_usage = true;
        break;
    case FORCE_CONTINUOUS:
        o->traits.force_continuous = true;
        break;
    case NULL_CHUNKS:
        o->traits.null_chunks = true;
        break;
    case NO_USAGE:
        o->traits.no_usage = true;
        break;
    case EARLY_ZERO:
        o->traits.early_zero = true;
        break;
    case NO_DETAILS:
        o->traits.no_details = true;
        break;
    default:
        fputs(usage, flag == HELP ? stdout : stderr);
        exit(flag == HELP ? 0 : 2);
    }
}

struct options options_read(int argc, char **argv)
{
    struct options o = {.tokens = 16, .max_model_len = 4194304, .created = -1, .close_idle = -1, .probe_412 = 1};
    int index = 0, flag;
    for (int i = 0; i < PHASES; i++)
        o.cached[i] = o.created_cache[i] = -1;
    while ((flag = getopt_long(argc, argv, "", flags, &index)) != -1)
        read_flag(&o, flag, flag == '?' ? "" : flags[index].name, optarg);
    if (optind < argc)
        refuse("argument", argv[optind]);
    if (!o.port_count)
        refuse("--port", NULL);
    return o;
}
