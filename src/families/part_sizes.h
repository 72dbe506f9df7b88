/* SPDX-License-Identifier: Apache-2.0 */
/* How many parts in bf16 operands have, for kernels, and for the host in functions behind families/names.h;
 * families/operand_sizes.h comes before. */

/* Where the scale and the offset of a format begin; of other numbers -1 and 0. */
#define CA_BLOCK_SCALE(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest,  \
                       error, format)                                                              \
    (format) == number ? scale:
#define CA_SCALE_AT(format) (CA_BLOCK_FORMATS(CA_BLOCK_SCALE, format) - 1)
#define CA_BLOCK_OFFSET(ID, number, name, bits, scale, offset, fifth, codes, bytes, fits, largest, \
                        error, format)                                                             \
    (format) == number ? offset:
#define CA_OFFSET_AT(format) (CA_BLOCK_FORMATS(CA_BLOCK_OFFSET, format) 0)

/* Operands of tiles that are no bf16 are the sum of their parts (cl/bf16/parts.h). Two are exact for f16; three for blocks with
 * scales, of which values take two: these are off by up to 2^-15. Numbers in a format of bytes are bf16. Weights have as many
 * parts as queries. A product leaves out less than 2^-21 of it, of weights 2^-15. */
SIZE(Q_PARTS, (OPERAND_TILES && DTYPE == DTYPE_F16 ? 2 : 1))
SIZE(K_PARTS, (OPERAND_BYTES                ? 1
               : !OPERAND_TILES || !K_CACHE ? Q_PARTS
               : CA_SCALE_AT(K_CACHE) < 0   ? 1
                                            : 3))
SIZE(V_PARTS, (!OPERAND_TILES || !V_CACHE ? Q_PARTS : CA_SCALE_AT(V_CACHE) < 0 ? 1 : 2))
SIZE(IN_PARTS, (Q_PARTS * K_PARTS * V_PARTS > 1))
SIZE(QK_ORDERS, MIN(Q_PARTS + K_PARTS - 1, 3))
SIZE(PV_ORDERS, MIN(Q_PARTS + V_PARTS - 1, 2))
