/*
 * Exchanging stacks: the only part of fibers that depends on the machine.
 *
 * A context is where a stack was left. The assembly ones hold nothing but a stack pointer, because everything else is on the
 * stack itself. Saved: the callee-saved registers and the floating-point modes that a C function may rely on (x86-64:
 * MXCSR and x87 control word; aarch64: d8–d15). The signal mask is not part of it.
 * Shadow stacks (x86 CET SHSTK, aarch64 GCS) are not kept: the object files do not claim support, so the linker and the
 * kernel leave them off. Branch tracking (IBT, BTI) is supported.
 * Which one: assembly on x86-64 and aarch64, else or with -DCOORD_UCONTEXT swapcontext, ten times slower for its system calls.
 * Thread: a context is left and entered on one thread.
 */
#ifndef RUNTIME_FIBER_SWITCH_H
#define RUNTIME_FIBER_SWITCH_H

#if !defined(COORD_UCONTEXT) && !(defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)))
#define COORD_UCONTEXT
#endif

#ifndef __ASSEMBLER__
#include <stddef.h>

#ifdef COORD_UCONTEXT
#include <ucontext.h>
struct fiber_context {
    ucontext_t machine;
};
#else
struct fiber_context {
    void *stack_pointer;
};
#endif

typedef void fiber_entry_fn(void *argument); /* never returns */

/* Prepares `context` so that entering it calls `entry(argument)` on the stack [stack, stack + size). */
void fiber_context_make(struct fiber_context *context, void *stack, size_t size, fiber_entry_fn *entry, void *argument);

/* Leaves the running stack in `from` and goes on where `to` was left. Returns when somebody switches to `from`. */
void fiber_context_switch(struct fiber_context *from, struct fiber_context *to);

#endif
#endif
