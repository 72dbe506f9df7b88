/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the arrays of chosen_gradients, for the kernels and the host. */
#define LOCAL_BYTES (ITEMS * 4) /* a sum of each work-item */
