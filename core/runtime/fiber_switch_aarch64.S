/*
 * See fiber_switch.h. AAPCS64. The frame below is the same on both stacks, so one set of unwind rules holds throughout.
 * 72 to 79 are d8 to d15 in DWARF's numbers: assemblers disagree about their names there.
 */
#include "fiber_switch.h"

#if defined(__aarch64__) && !defined(COORD_UCONTEXT)

    .text

/* void fiber_context_switch(struct fiber_context *from [x0], struct fiber_context *to [x1]) */
    .globl fiber_context_switch
    .hidden fiber_context_switch
    .type fiber_context_switch, %function
    .balign 16
fiber_context_switch:
    .cfi_startproc
    hint #34 /* bti c */
    sub sp, sp, #160
    .cfi_def_cfa_offset 160
    stp x29, x30, [sp, #0]
    .cfi_offset x29, -160
    .cfi_offset x30, -152
    stp x19, x20, [sp, #16]
    .cfi_offset x19, -144
    .cfi_offset x20, -136
    stp x21, x22, [sp, #32]
    .cfi_offset x21, -128
    .cfi_offset x22, -120
    stp x23, x24, [sp, #48]
    .cfi_offset x23, -112
    .cfi_offset x24, -104
    stp x25, x26, [sp, #64]
    .cfi_offset x25, -96
    .cfi_offset x26, -88
    stp x27, x28, [sp, #80]
    .cfi_offset x27, -80
    .cfi_offset x28, -72
    stp d8, d9, [sp, #96]
    .cfi_offset 72, -64
    .cfi_offset 73, -56
    stp d10, d11, [sp, #112]
    .cfi_offset 74, -48
    .cfi_offset 75, -40
    stp d12, d13, [sp, #128]
    .cfi_offset 76, -32
    .cfi_offset 77, -24
    stp d14, d15, [sp, #144]
    .cfi_offset 78, -16
    .cfi_offset 79, -8

    mov x9, sp
    str x9, [x0]
    ldr x9, [x1]
    mov sp, x9

    ldp x29, x30, [sp, #0]
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    .cfi_restore x19
    .cfi_restore x20
    .cfi_restore x21
    .cfi_restore x22
    .cfi_restore x23
    .cfi_restore x24
    .cfi_restore x25
    .cfi_restore x26
    .cfi_restore x27
    .cfi_restore x28
    .cfi_restore 72
    .cfi_restore 73
    .cfi_restore 74
    .cfi_restore 75
    .cfi_restore 76
    .cfi_restore 77
    .cfi_restore 78
    .cfi_restore 79
    ret
    .cfi_endproc
    .size fiber_context_switch, . - fiber_context_switch

/* Where a new context goes first: x19 is the entry, x20 its argument. Nothing lies above it. */
    .globl fiber_context_start
    .hidden fiber_context_start
    .type fiber_context_start, %function
    .balign 16
fiber_context_start:
    .cfi_startproc
    .cfi_undefined x30
    hint #36 /* bti j */
    mov x0, x20
    mov x29, #0
    blr x19
    brk #1
    .cfi_endproc
    .size fiber_context_start, . - fiber_context_start

/* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI. Return addresses are not signed here, so not PAC. */
    .section .note.gnu.property, "a"
    .balign 8
    .word 4
    .word 16
    .word 5
    .asciz "GNU"
    .word 0xc0000000
    .word 4
    .word 1
    .word 0

#endif

    .section .note.GNU-stack, "", %progbits
