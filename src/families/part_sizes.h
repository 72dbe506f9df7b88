/* SPDX-License-Identifier: Apache-2.0 */
/* The number of bf16 parts of each operand, for kernels, and for the host in functions behind families/names.h. Include
 * families/operand_sizes.h before it. */

/* Where the scale and the offset of a format begin; of other numbers -1 and 0. */
#define CA_BLOCK_SCALE(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest,  \
                       error, format)                                                              \
    (format) == number ? scale:
#define CA_SCALE_AT(format) (CA_BLOCK_FORMATS(CA_BLOCK_SCALE, format) - 1)
#define CA_BLOCK_OFFSET(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest, \
                        error, format)                                                             \
    (format) == number ? offset:
#define CA_OFFSET_AT(format) (CA_BLOCK_FORMATS(CA_BLOCK_OFFSET, format) 0)

/* For AMX tiles an operand that is not bf16 is the sum of its parts (cl/bf16/parts.h). Two parts are exact for f16, and three
 * for blocks with scales; V in such blocks has only two, with an error of up to 2^-15. Formats of bytes without scales are
 * exact in bf16. Weights have as many parts as queries. The terms that a product leaves out are below 2^-21 of it for scores,
 * and below 2^-15 for weights. */
SIZE(Q_PARTS, (OPERAND_TILES && DTYPE == DTYPE_F16 ? 2 : 1))
SIZE(K_PARTS, (OPERAND_BYTES                ? 1
               : !OPERAND_TILES || !K_CACHE ? Q_PARTS
               : CA_SCALE_AT(K_CACHE) < 0   ? 1
                                            : 3))
SIZE(V_PARTS, (!OPERAND_TILES || !V_CACHE ? Q_PARTS : CA_SCALE_AT(V_CACHE) < 0 ? 1 : 2))
SIZE(IN_PARTS, (Q_PARTS * K_PARTS * V_PARTS > 1))
SIZE(QK_ORDERS, MIN(Q_PARTS + K_PARTS - 1, 3))
SIZE(PV_ORDERS, MIN(Q_PARTS + V_PARTS - 1, 2))
