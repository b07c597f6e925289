/* See outcome.h. */
#include "pipeline/outcome.h"

static const struct {
    int32_t status;
    const char *words;
} OUTCOMES[] = {
    [LEG_COMPLETE] = {0, ""},
    [LEG_UNRESOLVED] = {503, "its name has no address"},
    [LEG_REFUSED] = {503, "it refused the connection"},
    [LEG_CONNECT_TIMEOUT] = {504, "no connection in time (gateway.connect_timeout)"},
    [LEG_HEAD_TIMEOUT] = {504, "no answer in time (gateway.timeout, gateway.response_timeout)"},
    [LEG_IDLE_TIMEOUT] = {504, "it fell silent in the middle of its answer (gateway.idle_timeout)"},
    [LEG_TOTAL_TIMEOUT] = {504,
                           "the whole call took too long (gateway.total_timeout, or the time that its step allows)"},
    [LEG_NO_ANSWER] = {502, "it closed the connection without an answer"},
    [LEG_BROKEN] = {502, "its answer broke off or is not HTTP"},
    [LEG_TLS] = {502, "the TLS handshake failed"},
    [LEG_INTERNAL] = {500, "the call could not be made"},
};

int32_t leg_outcome_status(enum leg_outcome outcome) { return OUTCOMES[outcome].status; }

const char *leg_outcome_words(enum leg_outcome outcome) { return OUTCOMES[outcome].words; }
