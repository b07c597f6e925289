/* The inside of a fiber, for fiber.c and crash.c only. */
#ifndef RUNTIME_FIBER_PRIVATE_H
#define RUNTIME_FIBER_PRIVATE_H

#include "runtime/fiber.h"
#include "runtime/fiber_switch.h"

enum fiber_state { FIBER_FINISHED, FIBER_RUNNABLE, FIBER_RUNNING, FIBER_PARKED };

struct fiber {
    unsigned magic;
    enum fiber_state state;
    bool woken; /* a wake came while it was running or runnable */
    bool held;  /* somebody uses the room */
    struct fiber_pool *pool;
    fiber_fn *function;
    void *argument;
    struct running running; /* whose code it runs, and for which request */
    struct task task;       /* goes on with it */
    struct fiber_context context;
    char *mapping;     /* the guard; the stack follows */
    char *stack;       /* lowest address; it ends below this struct */
    size_t stack_size; /* as it was asked for: with this struct and the room */
    struct fiber *next_idle;
    void *checker_thread;   /* ThreadSanitizer's, while alive */
    unsigned checker_stack; /* valgrind's */
};

#endif
