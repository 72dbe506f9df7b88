/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix instructions of GPUs, and the fragments of matrices that the lanes of a sub-group hold of them:
 * what the headers of cl/mma/ say, for the host. */
#ifndef CA_FRAGMENTS_H
#define CA_FRAGMENTS_H

#include <clattn/device.h>
#include <clattn/problem.h>
#include <stddef.h>

/* Tunable INSTRUCTION. */
enum { CA_MMA_SYNC = 1, CA_WMMA, CA_MFMA_32, CA_MFMA_16, CA_DPAS_8, CA_DPAS_16, CA_WGMMA };

/* As the headers of cl/mma/fragment.h say. */
struct ca_fragment {
    size_t lanes, queries, others, depth, others_at_once;
    int packed_values;
    size_t registers; /* of 32 bits, that a work-item may keep throughout */
    size_t replicas, row_padding;
    /* Before registers are spilled (ca_fragment_spills()): without what ca_keeps_more(), and with it. */
    size_t most_pressure[2];
};

const struct ca_fragment *ca_fragment_of(size_t instruction);

/* The instruction that suits the device, as far as its facts tell; 0 if it is not known to have
 * any. Whether it works, building the program and its self-check decide. */
size_t ca_instruction_of(const clattn_device_info *dev);

/* Whether the device has it, or another of the same unit. */
int ca_has_instruction(const clattn_device_info *dev, size_t instruction);

/* Whether it has wgmma: one architecture alone, sm_90; those that came later have others. */
int ca_has_wgmma(const clattn_device_info *dev);

/* The registers of a work-item of which so many, in so many groups, are resident on one of its multiprocessors. */
size_t ca_wgmma_registers(size_t work_items, size_t groups);

/* ... of one that computes where a producer besides gives its own to so many sub-groups (setmaxnreg in
 * cl/mma/warpgroup_producer.h). */
size_t ca_wgmma_computing_registers(size_t sub_groups);

/* Whether its local memory holds so many groups of so many bytes each. */
int ca_wgmma_holds(size_t local_bytes, size_t groups);

/* Whether compilers were seen to spill registers of a work-item with so many scores, outputs and, where these
 * are held, words of queries. */
int ca_fragment_spills(const struct ca_fragment *f, const clattn_problem *p, size_t scores,
                       size_t outputs, size_t queries);

/* Whether keys and values are quantized. */
int ca_both_quantized(const clattn_problem *p);

/* Why no attention by matrix instructions can compute the problem; NULL if one may. */
const char *ca_mma_refusal(const clattn_problem *p);
/* ... of gradients. */
const char *ca_mma_gradient_refusal(const clattn_problem *p);

/* Whether what a tile of keys needs besides K and V, places of rows in pages, factors of quantized ones or what
 * dropout keeps, has room in local memory for one tile alone. */
int ca_mma_one_stage(const clattn_problem *p);

/* What compilers are told for these instructions, of which a work-item has so many registers, 0: any. Intel's: it gets half
 * as many unless asked. */
const char *ca_fragment_options(size_t instruction, int emulate, size_t registers);

#endif
