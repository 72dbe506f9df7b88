/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of the arrays of chosen_gradients, for the host. */
#define LOCAL_BYTES 0 /* work-items share no memory */
