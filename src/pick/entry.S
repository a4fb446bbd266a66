/* An exported name: a jump through its entry of the table. Until that is filled it leads behind the
 * jump, from where the table is filled and the call goes on with the arguments it came with. x86-64. */
    .section .note.GNU-stack, "", @progbits
    .text
    .hidden tug_pick_fill

    .type first_call, @function
first_call: /* the index is on the stack, which is aligned again with it */
    .cfi_startproc
    .cfi_def_cfa_offset 16
    pushq %rax
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    .cfi_adjust_cfa_offset 56
    subq $136, %rsp
    .cfi_adjust_cfa_offset 136
    movups %xmm0, (%rsp)
    movups %xmm1, 16(%rsp)
    movups %xmm2, 32(%rsp)
    movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp)
    movups %xmm5, 80(%rsp)
    movups %xmm6, 96(%rsp)
    movups %xmm7, 112(%rsp)
    call tug_pick_fill
    movups (%rsp), %xmm0
    movups 16(%rsp), %xmm1
    movups 32(%rsp), %xmm2
    movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4
    movups 80(%rsp), %xmm5
    movups 96(%rsp), %xmm6
    movups 112(%rsp), %xmm7
    addq $136, %rsp
    .cfi_adjust_cfa_offset -136
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rax
    .cfi_adjust_cfa_offset -56
    popq %r11
    .cfi_adjust_cfa_offset -8
    leaq tug_pick_table(%rip), %r10
    jmp *(%r10, %r11, 8)
    .cfi_endproc
    .size first_call, . - first_call

#define ENTRY(name, index)                                                                         \
    .globl name;                                                                                   \
    .type name, @function;                                                                         \
    .p2align 4;                                                                                    \
    name: endbr64;                                                                                 \
    jmp *tug_pick_table + 8 * index(%rip);                                                         \
    .Lfirst_##index: endbr64;                                                                      \
    pushq $index;                                                                                  \
    jmp first_call;                                                                                \
    .size name, . - name
