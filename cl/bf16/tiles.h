/* SPDX-License-Identifier: Apache-2.0 */
/* Products of tiles on a processor's matrix unit (Intel's AMX): c += a b, with tiles
 * as bf16/pair_tiles.h says.
 *
 *   configure_tiles(), release_tiles()   before the first product of a work-item, and after its last
 *   multiply_operand_tiles()             a product of up to 2 x 2 tiles
 *   multiply_all_tiles(), multiply_all_parts()   one of any number of tiles; of matrices in parts (struct parts)
 *   STORE_SUMS(x, p)                     rounds a row of c, in which no subnormals are, to bf16, nearest even
 *   STORE_SUMS_PAIR(x, y, p)             the same for two rows; the second continues the first
 *   TILES_FROM_BUFFERS, IN_BUFFER(p)     1: tiles can be loaded from a buffer; its address for that
 *
 * With precision=int8 tiles of a have signed bytes and those of b unsigned ones, four in a word that are neighbours along the
 * depth (cpu/key_bytes.h). Sums are integers in the registers of floats; the instruction is TDPBSUD.
 *
 * The instruction for bf16 is TDPBF16PS (Intel, Software Developer's Manual, volume 2): the products of first and of
 * second values are summed up apart, each by fused multiply-adds, then both sums are added, and that to c;
 * all are rounded to nearest even, subnormal operands and results are 0. It is written as assembler, since
 * clang's builtins need a function that is compiled for a processor with it, and PoCL may take the
 * processor for an older one. No compiler uses the tile registers for itself. With EMULATE the instruction
 * is computed step by step, to the bit.
 *
 * Linux grants a process the registers on request; the library requests them before such a kernel
 * runs (src/device/processor.c).
 *
 * Tunables   EMULATE; SIMD_WIDTH, which is 16. */
#pragma once
#include "bf16/pair_tiles.h"
#include "bf16/pairs.h"
#include "cpu/simd_storage.h"

#if SIMD_WIDTH != 16
#error "a row of a tile is a vector of 16"
#endif

#if EMULATE
/* Registers 0 to 3 hold tiles of c, row by row; 4 and 5 hold tiles of a, 6 and 7 tiles of b. */
#define TILE_REGISTERS lanes tile_registers[8][TILE];
#define ZERO_TILE(t) zero_emulated(tile_registers[t])
#define LOAD_TILE(t, p, row) load_emulated(tile_registers[t], (p), (row))
#define STORE_TILE(t, p, row) store_emulated(tile_registers[t], (p), (row))
#define MULTIPLY_TILE(bytes, c, a, b)                                                              \
    multiply_emulated((bytes), tile_registers[c], tile_registers[a], tile_registers[b])

NOINLINE void zero_emulated(lanes *t)
{
    for (int r = 0; r < TILE; r++)
        t[r] = 0.0f;
}

NOINLINE void load_emulated(lanes *t, const void *p, const long row)
{
    for (int r = 0; r < TILE; r++)
        t[r] = VECTOR(as_float)(VECTOR(vload)(0, (const uint *)((const uchar *)p + r * row)));
}

NOINLINE void store_emulated(const lanes *t, void *p, const long row)
{
    for (int r = 0; r < TILE; r++)
        VECTOR(vstore)(t[r], 0, (float *)((uchar *)p + r * row));
}

NOINLINE void multiply_pairs_emulated(lanes *c, const lanes *a, const lanes *b)
{
    for (int r = 0; r < TILE; r++) {
        const float *words = (const float *)(a + r);
        lanes first = 0.0f, second = 0.0f;
        for (int k = 0; k < TILE; k++) {
            const lanes x = words[k];
            first = without_subnormals(
                fma(without_subnormals(first_of(x)), without_subnormals(first_of(b[k])), first));
            second = without_subnormals(
                fma(without_subnormals(second_of(x)), without_subnormals(second_of(b[k])), second));
        }
        c[r] = without_subnormals(without_subnormals(c[r]) + without_subnormals(first + second));
    }
}

NOINLINE void multiply_bytes_emulated(lanes *c, const lanes *a, const lanes *b)
{
    for (int r = 0; r < TILE; r++) {
        const int *words = (const int *)(a + r);
        ints sum = VECTOR(as_int)(c[r]);
        for (int k = 0; k < TILE; k++) {
            for (int n = 0; n < 4; n++)
                sum += (words[k] << (24 - 8 * n) >> 24) * (VECTOR(as_int)(b[k]) >> 8 * n & 255);
        }
        c[r] = VECTOR(as_float)(sum);
    }
}

INLINE void multiply_emulated(const bool bytes, lanes *c, const lanes *a, const lanes *b)
{
    if (bytes)
        multiply_bytes_emulated(c, a, b);
    else
        multiply_pairs_emulated(c, a, b);
}
#else
/* With POCL_WORK_GROUP_METHOD set to loops, PoCL 6.0 reads the first three operands of each call,
 * and of each instruction. It ends the process if there are fewer (tests/drivers/few_operands.cl).
 * These extra operands cost nothing. */
#define UNUSED "i"(0), "i"(0), "i"(0)
#define TILE_REGISTERS
#define ZERO_TILE(t) __asm__ volatile("tilezero %%tmm" #t : : UNUSED : "memory")
#define LOAD_TILE(t, p, row)                                                                       \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t                                               \
                     :                                                                             \
                     : "r"(p), "r"((long)(row)), UNUSED                                            \
                     : "memory")
#define STORE_TILE(t, p, row)                                                                      \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)"                                           \
                     :                                                                             \
                     : "r"(p), "r"((long)(row)), UNUSED                                            \
                     : "memory")
#define MULTIPLY_TILE(bytes, c, a, b)                                                              \
    {                                                                                              \
        if (bytes)                                                                                 \
            __asm__ volatile("tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : UNUSED : "memory");  \
        else                                                                                       \
            __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c                        \
                             :                                                                     \
                             : UNUSED                                                              \
                             : "memory");                                                          \
    }

/* The operand of LDTILECFG: 8 tiles of 16 rows of 64 bytes. */
struct tile_configuration {
    uchar palette, start_row, reserved[14];
    ushort row_bytes[16];
    uchar rows[16];
};

NOINLINE void configure_tiles(void)
{
    struct tile_configuration configuration = {.palette = 1};

    for (int t = 0; t < 8; t++) {
        configuration.row_bytes[t] = TILE * sizeof(uint);
        configuration.rows[t] = TILE;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(configuration), UNUSED : "memory");
}

INLINE void release_tiles(void)
{
    __asm__ volatile("tilerelease" : : UNUSED : "memory");
}
#endif

#if EMULATE
#define STORE_SUMS(x, p) store_lanes(DTYPE_BF16, x, p)
#define STORE_SUMS_PAIR(x, y, p)                                                                   \
    {                                                                                              \
        STORE_SUMS(x, p);                                                                          \
        STORE_SUMS(y, (p) + SIMD_WIDTH);                                                           \
    }
#else
INLINE void store_tile_sums(const lanes x, __global ushort *p)
{
    ushorts y;

    __asm__("vcvtneps2bf16 %1, %t0" : "=v"(y) : "v"(x), UNUSED);
    store_ushorts(y, p);
}
#define STORE_SUMS(x, p) store_tile_sums((x), (p))

INLINE void store_sums_pair(const lanes x, const lanes y, __global ushort *p)
{
    pair_words words;

    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(words) : "v"(x), "v"(y), UNUSED);
    ((__global struct unaligned_pairs *)p)->x = words;
}
#define STORE_SUMS_PAIR(x, y, p) store_sums_pair((x), (y), (p))
#endif

/* With clang as the processor's compiler, as in PoCL, all of OpenCL's address spaces are one. */
#ifdef __x86_64__
#define TILES_FROM_BUFFERS 1
#define IN_BUFFER(p) ((const uint *)(size_t)(p))
#else
#define TILES_FROM_BUFFERS 0
#endif

/* c = (zero ? 0 : c) + a b for `rows` times `columns` tiles (constants, 1 or 2), over `steps` tiles
 * of the depth. a_row, b_row and c_row are steps between rows in bytes; b_next and c_next lead to
 * the second tile of columns. */
INLINE void multiply_tiles_of(const int rows, const int columns, const bool zero, const int steps,
                              const struct parts parts, const uint *a, const long a_row,
                              const lanes *b, const long b_row, const long b_next, lanes *c,
                              const long c_row, const long c_next)
{
    const uchar *a_tile = (const uchar *)a, *b_tile = (const uchar *)b;
    uchar *c_tile = (uchar *)c;
    TILE_REGISTERS

    if (zero) {
        ZERO_TILE(0);
        if (columns > 1)
            ZERO_TILE(1);
        if (rows > 1)
            ZERO_TILE(2);
        if (rows > 1 && columns > 1)
            ZERO_TILE(3);
    } else {
        LOAD_TILE(0, c_tile, c_row);
        if (columns > 1)
            LOAD_TILE(1, c_tile + c_next, c_row);
        if (rows > 1)
            LOAD_TILE(2, c_tile + TILE * c_row, c_row);
        if (rows > 1 && columns > 1)
            LOAD_TILE(3, c_tile + TILE * c_row + c_next, c_row);
    }
    for (int n = 0; n < steps; n++) {
        int loaded = -1; /* the part of b in registers, which parts of a take turns with */
        UNROLL
        for (int i = parts.of_a - 1; i >= 0; i--) {
            const uchar *a_part = a_tile + i * parts.a;
            const int parts_of_b = parts.orders - i < parts.of_b ? parts.orders - i : parts.of_b;
            UNROLL
            for (int turn = 0; turn < parts_of_b; turn++) {
                const int j = (parts.of_a - 1 - i) % 2 ? turn : parts_of_b - 1 - turn;
                const uchar *b_part = b_tile + j * parts.b;
                if (loaded != j)
                    LOAD_TILE(6, b_part, b_row);
                if (turn == 0)
                    LOAD_TILE(4, a_part, a_row);
                MULTIPLY_TILE(parts.bytes, 0, 4, 6);
                if (columns > 1) {
                    if (loaded != j)
                        LOAD_TILE(7, b_part + b_next, b_row);
                    MULTIPLY_TILE(parts.bytes, 1, 4, 7);
                }
                if (rows > 1) {
                    if (turn == 0)
                        LOAD_TILE(5, a_part + TILE * a_row, a_row);
                    MULTIPLY_TILE(parts.bytes, 2, 5, 6);
                    if (columns > 1)
                        MULTIPLY_TILE(parts.bytes, 3, 5, 7);
                }
                loaded = j;
            }
        }
        a_tile += TILE * sizeof(uint);
        b_tile += TILE * b_row;
    }
    STORE_TILE(0, c_tile, c_row);
    if (columns > 1)
        STORE_TILE(1, c_tile + c_next, c_row);
    if (rows > 1)
        STORE_TILE(2, c_tile + TILE * c_row, c_row);
    if (rows > 1 && columns > 1)
        STORE_TILE(3, c_tile + TILE * c_row + c_next, c_row);
}

/* Does so with adjacent tiles of b and of c. */
INLINE void multiply_operand_tiles(const int rows, const int columns, const bool zero,
                                   const int steps, const struct parts parts, const uint *a,
                                   const long a_row, const lanes *b, const long b_row, lanes *c,
                                   const long c_row)
{
    const long next = TILE * sizeof(float);

    multiply_tiles_of(rows, columns, zero, steps, parts, a, a_row, b, b_row, next, c, c_row, next);
}

/* Does so for any number of tiles; columns counts vectors. Where a number is even, compilers see that no single tile is
 * left. */
INLINE void multiply_all_parts(const int rows, const int columns, const bool zero, const int steps,
                               const struct parts parts, const uint *a, const long a_row,
                               const lanes *b, const long b_row, lanes *c, const long c_row)
{
    for (int r = 0; r < rows; r += 2) {
        const uint *a_tile = a + r * TILE * (a_row / (long)sizeof(uint));
        lanes *c_tile = c + r * TILE * (c_row / (long)sizeof(lanes));
        int v = 0;
        for (; v + 2 <= columns; v += 2) {
            if (rows % 2 == 0 || r + 2 <= rows)
                multiply_operand_tiles(2, 2, zero, steps, parts, a_tile, a_row, b + v, b_row,
                                       c_tile + v, c_row);
            else
                multiply_operand_tiles(1, 2, zero, steps, parts, a_tile, a_row, b + v, b_row,
                                       c_tile + v, c_row);
        }
        if (columns % 2 && v < columns) {
            if (rows % 2 == 0 || r + 2 <= rows)
                multiply_operand_tiles(2, 1, zero, steps, parts, a_tile, a_row, b + v, b_row,
                                       c_tile + v, c_row);
            else
                multiply_operand_tiles(1, 1, zero, steps, parts, a_tile, a_row, b + v, b_row,
                                       c_tile + v, c_row);
        }
    }
}

INLINE void multiply_all_tiles(const int rows, const int columns, const bool zero, const int steps,
                               const uint *a, const long a_row, const lanes *b, const long b_row,
                               lanes *c, const long c_row)
{
    multiply_all_parts(rows, columns, zero, steps, one_part(), a, a_row, b, b_row, c, c_row);
}
