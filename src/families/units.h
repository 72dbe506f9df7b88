/* SPDX-License-Identifier: Apache-2.0 */
/* Units of multiplication, which compute the products of a kernel. A family has one or several;
 * each is a struct ca_family of the family's name, and in texts it is the tunable UNIT. For
 * kernels, which are built with -DUNIT, and the host. */
#pragma once

#define UNIT_VECTOR 1    /* a processor's vectors of floats */
#define UNIT_PAIRS 2     /* a processor's vectors of pairs of bf16 (cl/bf16/pairs.h) */
#define UNIT_AMX 3       /* a processor's tiles of AMX (cl/bf16/tiles.h) */
#define UNIT_ITEM 4      /* work-items, each with a register tile */
#define UNIT_MMA 5       /* sub-groups with matrix instructions (cl/mma/fragment.h) */
#define UNIT_WARPGROUP 6 /* warpgroups of NVIDIA's Hopper (cl/mma/warpgroup_tile.h) */
#define UNIT_BYTES 7     /* products of bytes (cl/cpu/key_bytes.h, cl/gpu/byte_rows.h) */

/* The units' words in texts. */
#define CA_UNITS(UNIT)                                                                             \
    UNIT(VECTOR, "vector")                                                                         \
    UNIT(PAIRS, "pairs")                                                                           \
    UNIT(AMX, "amx")                                                                               \
    UNIT(ITEM, "item")                                                                             \
    UNIT(MMA, "mma")                                                                               \
    UNIT(WARPGROUP, "warpgroup")                                                                   \
    UNIT(BYTES, "bytes")

/* Tests: a CPU's operands are pairs of bf16; a matrix unit multiplies tiles of pairs; those of Q K^T are four bytes. */
#define OPERAND_PAIRS (UNIT == UNIT_PAIRS || UNIT == UNIT_AMX)
#define OPERAND_TILES (UNIT == UNIT_AMX)
#define OPERAND_BYTES (UNIT == UNIT_BYTES || (UNIT == UNIT_AMX && HAS_INT8))
