/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL's own prefetch(), or the compiler's with -DBUILTIN. */
__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void probe(__global int *right)
{
#ifdef BUILTIN
    __builtin_prefetch((const void *)(size_t)right, 0, 2);
#else
    prefetch(right, (size_t)1);
#endif
    right[get_global_id(0)] = 1;
}
