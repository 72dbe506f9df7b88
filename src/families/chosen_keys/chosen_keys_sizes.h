/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the arrays of chosen_keys, for the kernels and, with the names of families/names.h, for the host. */
#define LOCAL_BYTES (ITEMS == 1 ? 0 : (ITEMS + 1) * 4) /* how many keys each work-item has found */
