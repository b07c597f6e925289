/*
 * Crash handlers (declared in fiber.h): one line that names the step, its plugin and its request, then whatever would have happened
 * without us.
 *
 * Everything below `report` runs inside a signal handler on the thread's alternate stack: it formats into a fixed buffer and
 * calls write only. The handler then puts the previous action back (the default one; a sanitizer's in its builds) and
 * returns: a fault happens again at the same instruction, so that a core file or the sanitizer's report shows it.
 */
#include "fiber_private.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { SIGNAL_STACK_SIZE = 128 * 1024, FAR_BELOW = 16 << 20 };

static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGABRT, "SIGABRT"}, {SIGILL, "SIGILL"}, {SIGFPE, "SIGFPE"},
};

enum { SIGNALS = sizeof signals / sizeof *signals };

static struct sigaction previous[SIGNALS];
static bool installed;
static void (*_Atomic first)(void);

static _Thread_local void *signal_stack;
static _Thread_local stack_t previous_stack;

struct line {
    char text[1024];
    size_t size;
};

/* Control characters of a name that came from outside must not forge another line. */
static void put(struct line *line, const char *text)
{
    for (; *text && line->size < sizeof line->text - 1; text++)
        line->text[line->size++] = (unsigned char)*text < ' ' ? '?' : *text;
}

static void put_number(struct line *line, size_t number)
{
    char digits[24];
    size_t at = sizeof digits - 1;

    digits[at] = '\0';
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    put(line, digits + at);
}

static void put_owner(struct line *line, const struct owner *owner)
{
    if (!owner) {
        put(line, "no step's code");
        return;
    }
    put(line, "step \"");
    put(line, owner->step);
    put(line, "\" of plugin ");
    put(line, owner->plugin);
}

static void put_subject(struct line *line, const char *subject)
{
    if (!subject)
        return;
    put(line, " (request ");
    put(line, subject);
    put(line, ")");
}

static void put_overflow(struct line *line, const struct fiber *fiber)
{
    put_owner(line, fiber->running.owner);
    put(line, " overflowed its ");
    put_number(line, fiber->stack_size / 1024);
    put(line, " KiB stack: raise runtime.fiber_stack");
    put_subject(line, fiber->running.subject);
}

static void put_crash(struct line *line, const char *signal, struct running running)
{
    put(line, "crashed with ");
    put(line, signal);
    if (running.owner || running.subject) {
        put(line, " in ");
        put_owner(line, running.owner);
    }
    put_subject(line, running.subject);
}

static uintptr_t stack_pointer_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.sp;
#else
    (void)context;
    return UINTPTR_MAX;
#endif
}

/* A fault in the guard, or with the stack pointer already past the stack's end (a frame larger than the guard). */
static bool overflowed(const struct fiber *fiber, const siginfo_t *info, const ucontext_t *context)
{
    uintptr_t low = (uintptr_t)fiber->stack, fault = (uintptr_t)info->si_addr, pointer = stack_pointer_of(context);

    if ((info->si_signo != SIGSEGV && info->si_signo != SIGBUS) || info->si_code <= 0)
        return false;
    return (fault < low && fault >= low - FIBER_GUARD_SIZE) || (pointer < low && pointer >= low - FAR_BELOW);
}

static void report(size_t which, const siginfo_t *info, const ucontext_t *context)
{
    const struct fiber *fiber = fiber_current();
    struct line line = {.size = 0};
    size_t sent = 0;

    if (fiber && overflowed(fiber, info, context))
        put_overflow(&line, fiber);
    else
        put_crash(&line, signals[which].name, running_now());
    line.text[line.size++] = '\n';
    while (sent < line.size) {
        ssize_t size = write(STDERR_FILENO, line.text + sent, line.size - sent);

        if (size < 0 && errno != EINTR)
            return;
        sent += size > 0 ? (size_t)size : 0;
    }
}

static void crashed(int number, siginfo_t *info, void *context)
{
    void (*before)(void) = atomic_load(&first);

    for (size_t i = 0; i < SIGNALS; i++) {
        if (signals[i].number != number)
            continue;
        sigaction(number, &previous[i], NULL);
        if (before)
            before();
        report(i, info, context);
    }
    if (info->si_code <= 0) /* sent, not caused: it would not come again by itself */
        raise(number);
}

void fiber_crash_first(void (*function)(void)) { atomic_store(&first, function); }

void fiber_crash_install(void)
{
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    if (installed)
        return;
    installed = true;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < SIGNALS; i++) {
        sigaction(signals[i].number, &action, &previous[i]);
        if (!(previous[i].sa_flags & SA_SIGINFO) && previous[i].sa_handler == SIG_IGN)
            previous[i].sa_handler = SIG_DFL; /* nobody ignores a crash */
    }
}

bool fiber_crash_thread(void)
{
    stack_t stack = {.ss_size = SIGNAL_STACK_SIZE};

    if (signal_stack)
        return true;
    stack.ss_sp = mmap(NULL, SIGNAL_STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp == MAP_FAILED)
        return false;
    if (sigaltstack(&stack, &previous_stack) != 0) {
        munmap(stack.ss_sp, SIGNAL_STACK_SIZE);
        return false;
    }
    signal_stack = stack.ss_sp;
    return true;
}

void fiber_crash_thread_end(void)
{
    if (!signal_stack)
        return;
    sigaltstack(&previous_stack, NULL); /* a sanitizer frees its own at the thread's end */
    munmap(signal_stack, SIGNAL_STACK_SIZE);
    signal_stack = NULL;
}
