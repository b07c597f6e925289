/* See fiber_switch.h. System V ABI. The frame below is the same on both stacks, so one set of unwind rules holds throughout. */
#include "fiber_switch.h"

#if defined(__x86_64__) && !defined(COORD_UCONTEXT)

    .text

/* void fiber_context_switch(struct fiber_context *from [rdi], struct fiber_context *to [rsi]) */
    .globl fiber_context_switch
    .hidden fiber_context_switch
    .type fiber_context_switch, @function
    .balign 16
fiber_context_switch:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    stmxcsr (%rsp)
    fnstcw 4(%rsp)

    movq %rsp, (%rdi)
    movq (%rsi), %rsp

    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size fiber_context_switch, . - fiber_context_switch

/* Where a new context goes first: r12 is the entry, r13 its argument, the stack is aligned. Nothing lies above it. */
    .globl fiber_context_start
    .hidden fiber_context_start
    .type fiber_context_start, @function
    .balign 16
fiber_context_start:
    .cfi_startproc
    .cfi_undefined %rip
    movq %r13, %rdi
    call *%r12
    ud2
    .cfi_endproc
    .size fiber_context_start, . - fiber_context_start

/* GNU_PROPERTY_X86_FEATURE_1_AND: IBT, not SHSTK. */
    .section .note.gnu.property, "a"
    .balign 8
    .long 4
    .long 16
    .long 5
    .asciz "GNU"
    .long 0xc0000002
    .long 4
    .long 1
    .long 0

#endif

    .section .note.GNU-stack, "", %progbits
