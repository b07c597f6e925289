/* See fiber_switch.h. The first frame of a new stack, and the portable switch. */
#include "fiber_switch.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#if defined(COORD_UCONTEXT)

static void must(int result) { assert(result == 0); }

/* makecontext passes ints only. */
static void start(unsigned high, unsigned low)
{
    void **boot = (void **)(((uintptr_t)high << 16 << 16) | low);
    fiber_entry_fn *entry;

    memcpy(&entry, &boot[0], sizeof entry);
    entry(boot[1]);
}

void fiber_context_make(struct fiber_context *context, void *stack, size_t size, fiber_entry_fn *entry, void *argument)
{
    void **boot = (void **)((char *)stack + size) - 2; /* the stack's two uppermost words */

    memcpy(&boot[0], &entry, sizeof entry);
    boot[1] = argument;
    must(getcontext(&context->machine));
    context->machine.uc_stack.ss_sp = stack;
    context->machine.uc_stack.ss_size = size - 64;
    context->machine.uc_link = NULL;
    makecontext(&context->machine, (void (*)(void))start, 2, (unsigned)((uintptr_t)boot >> 16 >> 16),
                (unsigned)((uintptr_t)boot & 0xffffffffU));
}

void fiber_context_switch(struct fiber_context *from, struct fiber_context *to)
{
    must(swapcontext(&from->machine, &to->machine));
}

#else

void fiber_context_start(void); /* assembly; not a C function */

/* What fiber_context_switch pops, lowest address first. */
#if defined(__x86_64__)
struct frame {
    uint32_t mxcsr;
    uint32_t x87_control;
    void *r15, *r14;
    void *argument, *entry; /* r13, r12 */
    void *rbx, *rbp;
    void (*return_address)(void);
    void *above[2]; /* unwinders that look above the first frame stay inside the mapping */
};
#else
struct frame {
    void *x29;
    void (*return_address)(void);
    void *entry, *argument; /* x19, x20 */
    void *x21_to_x28[8];
    double d8_to_d15[8];
};
#endif

void fiber_context_make(struct fiber_context *context, void *stack, size_t size, fiber_entry_fn *entry, void *argument)
{
    struct frame frame = {.argument = argument, .return_address = fiber_context_start};
    char *place = (char *)stack + size - sizeof frame;

#if defined(__x86_64__)
    /* The modes of whoever makes the fiber, as a new thread would inherit them. */
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(frame.mxcsr), "=m"(frame.x87_control));
#endif
    memcpy(&frame.entry, &entry, sizeof entry);
    memcpy(place, &frame, sizeof frame);
    context->stack_pointer = place;
}

#endif
