/* Time and bounds; see harness.h. */
#include "harness.h"

#include <time.h>

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void pause_ms(int64_t ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&time, &time) != 0)
        ;
}

bool sanitized(void)
{
    const char *said = getenv("SANITIZED");

#ifdef E2E_SANITIZED
    if (!said)
        return true;
#endif
    return said && *said && strcmp(said, "0") != 0;
}

int64_t promptly_ms(void) { return sanitized() ? 1000 : 100; }
