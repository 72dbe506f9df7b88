/* SPDX-License-Identifier: Apache-2.0 */
/* An instruction of inline assembler without operands. With POCL_WORK_GROUP_METHOD=loops, loopvec, cbs or
 * workitemloops PoCL 6.0 asks each call for its third operand, and ends the process if there is none. With -DTHREE
 * there are three, which are not used. */
#ifdef THREE
#define INSTRUCTION() __asm__ volatile("" : : "i"(0), "i"(0), "i"(0) : "memory")
#else
#define INSTRUCTION() __asm__ volatile("" : : : "memory")
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe(__global int *right)
{
    INSTRUCTION();
    right[get_global_id(0)] = 1;
}
