/* SPDX-License-Identifier: Apache-2.0 */
/* The self-check: OpenCL compilers miscompile, so a program computes a small, hostile problem and
 * is compared with double precision on the host before its first use. */
#ifndef CA_TRUST_H
#define CA_TRUST_H

#include "program/program_build.h"

/* Checks ragged sizes, every option of the problem, rows that see nothing, NaN and huge values behind
 * masks, guard bands. */
ca_self_check ca_trust_check;

/* The same for the program of sums of weights, which is given the lse that forward would have written. */
ca_self_check ca_trust_check_weight_sums;

#endif
