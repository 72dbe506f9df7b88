/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix instructions of GPUs, and the fragments of matrices that the lanes of a sub-group hold of them:
 * what the headers of cl/mma/ say, for the host. */
#ifndef CA_FRAGMENTS_H
#define CA_FRAGMENTS_H

#include "problem/problem.h"

#include <clattn/device.h>
#include <stddef.h>

/* The values of the tunable INSTRUCTION. */
enum { CA_MMA_SYNC = 1, CA_WMMA, CA_MFMA_32, CA_MFMA_16, CA_DPAS_8, CA_DPAS_16, CA_WGMMA };

/* The members have the names of the macros in cl/mma/fragment.h. */
struct ca_fragment {
    size_t lanes, queries, others, depth, others_at_once;
    int packed_values;
    size_t registers; /* the 32-bit registers that a work-item may keep throughout */
    size_t replicas, row_padding;
    /* The greatest register pressure without spills (ca_fragment_spills()). The second is that of problems for which
     * ca_keeps_more() is true. */
    size_t most_pressure[2];
};

const struct ca_fragment *ca_fragment_of(size_t instruction);

/* Returns the instruction that suits the device by its facts; 0 if none is known. Building the
 * program and its self-check decide whether it works. */
size_t ca_instruction_of(const clattn_device_info *dev);

/* Returns whether the device has the instruction, or another of the same unit. */
int ca_has_instruction(const clattn_device_info *dev, size_t instruction);

/* Returns whether the device's instruction multiplies bytes as well, two in the place of an element, and faster than elements:
 * that of CDNA 2 takes half as many, and that of RDNA 3 has the rate of f16. Emulated ones do where some device's does. */
int ca_fragment_multiplies_bytes(const clattn_device_info *dev, size_t instruction);

/* Returns whether the device has wgmma, which sm_90 alone has; later architectures have others. */
int ca_has_wgmma(const clattn_device_info *dev);

/* The registers of a work-item if a multiprocessor has `groups` resident groups of `work_items`. */
size_t ca_wgmma_registers(size_t work_items, size_t groups);

/* The registers of a work-item that computes, if a producer gives registers of its own to
 * `sub_groups` computing sub-groups (setmaxnreg in cl/mma/warpgroup_producer.h). */
size_t ca_wgmma_computing_registers(size_t sub_groups);

/* Returns whether a multiprocessor's local memory holds `groups` groups of local_bytes each. */
int ca_wgmma_holds(size_t local_bytes, size_t groups);

/* Returns whether compilers were seen to spill registers of a work-item with this many scores,
 * outputs and held words of queries. */
int ca_fragment_spills(const struct ca_fragment *f, const struct ca_problem *p, size_t scores,
                       size_t outputs, size_t queries);

/* The parts of 16 bits that an element of the operands is multiplied in: OPERAND_PARTS of fragment_sizes.h. */
size_t ca_operand_parts(const struct ca_problem *p);

/* Returns whether keys and values are quantized. */
int ca_both_quantized(const struct ca_problem *p);

/* Returns why no attention by matrix instructions can compute the problem; NULL if one may. */
const char *ca_mma_refusal(const struct ca_problem *p);
/* Does so for forward attention that multiplies floats in parts of bf16. */
const char *ca_mma_parts_refusal(const struct ca_problem *p);
/* The same for gradients. */
const char *ca_mma_gradient_refusal(const struct ca_problem *p);

/* Returns whether gradients need only the weight of a score and softcap's derivative (WEIGHTS_FIRST in cl/mma). */
int ca_has_plain_scores(const struct ca_problem *p);

/* Returns whether local memory has room for the extra data of one tile only: addresses of paged
 * rows, factors of quantized ones, dropout's bits. */
int ca_mma_one_stage(const struct ca_problem *p);

/* The compiler options for these instructions if a work-item needs `registers` registers; 0: any
 * number. Intel's compiler allots half of the registers unless asked for more. */
const char *ca_fragment_options(size_t instruction, int emulate, size_t registers);

#endif
