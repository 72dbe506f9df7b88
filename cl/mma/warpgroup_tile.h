/* SPDX-License-Identifier: Apache-2.0 */
/* Products of a warpgroup's rows, in registers or in a tile of local memory, with a whole tile there, by wgmma.
 *
 * Tiles are stored in blocks of 64 columns, with rows of 128 bytes. The row's number permutes the
 * eight pieces of 16 bytes in a row (row_at() in tile_layout.h), so that eight rows' pieces of a
 * column have no bank conflicts (PTX ISA, "Shared Memory Matrix Layout", 128-byte swizzle). A
 * descriptor gives the operand's address in local memory and the distance of its next eight rows
 * and 64 columns ("Matrix Descriptor Format"). Rows of the tile are keys in first products, terms
 * in second ones.
 *
 * NVIDIA's compiler of OpenCL C makes PTX for sm_90, and the assembler for that target refuses
 * wgmma. So these instructions are in comments, with the registers that the compiler gave their
 * operands, and the host turns them into instructions (src/program/ptx.h).
 *
 * With EMULATE each sub-group computes its part, and reads the tile at the descriptor's addresses.
 *
 * Tunables   SUB_GROUPS. Kernels say REST_OF_DIMS, if it is none of 0, 32 and 64. */
#pragma once
#include "mma/fragment_tile.h"

#if SUB_GROUPS % 4
#error "wgmma multiplies rows of four sub-groups"
#endif

/* The warpgroup's first row, for any of its sub-groups (16 rows from first_row on): a word that the
 * compiler knows to be the same in all lanes, so that descriptors of rows are made once a
 * sub-group. */
INLINE int warpgroup_rows(const int first_row)
{
    int first = SUB_GROUPS == 4 ? 0 : first_row / 64 * 64;

#if !EMULATE && SUB_GROUPS > 4
    __asm volatile("shfl.sync.idx.b32 %0, %0, 0, 31, 0xffffffff;" : "+r"(first));
#endif
    return first;
}

/* address_of_tile() returns the address that wgmma's descriptors encode. */
#if !EMULATE
static inline uint address_of_tile(const __local ushort *tile)
{
    return shared_address(tile);
}

/* Reads or writes sums only here, while no product runs. */
INLINE void sums_here(float *sums, const int count)
{
    UNROLL
    for (int n = 0; n < count; n++)
        __asm volatile("" : "+f"(sums[n]) : : "memory");
}

/* Completes operands before products begin. If a compiler computes one among the products, ptxas
 * inserts a wait for the products before it (C7519, "warpgroup.arrive is injected"). */
INLINE void operands_here(uint operands[][QUERY_WORDS], const int count)
{
    UNROLL
    for (int n = 0; n < count; n++)
        __asm volatile(""
                       : "+r"(operands[n][0]), "+r"(operands[n][1]), "+r"(operands[n][2]),
                         "+r"(operands[n][3])
                       :
                       : "memory");
}

/* Computes the inputs of two sums before the wait for products: ptxas 13.0 would do the wait first,
 * since it moves the wait past arithmetic, but not past a store. */
INLINE void weights_here(const float *sums)
{
    __asm volatile("{.shared .align 8 .b8 before[8]; st.volatile.shared.v2.f32 [before], {%0, %1};}"
                   :
                   : "f"(sums[0]), "f"(sums[1])
                   : "memory");
}

INLINE void products_begin(void)
{
    __asm volatile(SM_90A "wgmma.fence.sync.aligned;" : : : "memory");
}

INLINE void products_under_way(void)
{
    __asm volatile(SM_90A "wgmma.commit_group.sync.aligned;" : : : "memory");
}

/* Waits for all groups of products but the latest 0, 1 or 2 (constant). */
INLINE void products_wait(const int latest)
{
    if (latest == 0)
        __asm volatile(SM_90A "wgmma.wait_group.sync.aligned 0;" : : : "memory");
    else if (latest == 1)
        __asm volatile(SM_90A "wgmma.wait_group.sync.aligned 1;" : : : "memory");
    else
        __asm volatile(SM_90A "wgmma.wait_group.sync.aligned 2;" : : : "memory");
}

/* Keeps operands that a loop does not change in registers: ptxas 13.0 overwrites their registers after the first products
 * (doc/design/drivers.md). It adds to one word of each operand the highest bit of a 64-bit clock by XOR. The bit is 0, but
 * ptxas cannot know that. */
INLINE void keep_operands(uint operands[][QUERY_WORDS], const int count)
{
    uint zero;

    __asm volatile("mov.u32 %0, %%clock_hi; shr.u32 %0, %0, 31;" : "=r"(zero));
    UNROLL
    for (int n = 0; n < count; n++)
        __asm volatile("xor.b32 %0, %0, %1;" : "+r"(operands[n][0]) : "r"(zero));
}
#else
INLINE void sums_here(float *sums, const int count)
{
}

INLINE void operands_here(uint operands[][QUERY_WORDS], const int count)
{
}

INLINE void weights_here(const float *sums)
{
}

INLINE void products_begin(void)
{
}

INLINE void products_under_way(void)
{
}

INLINE void products_wait(const int latest)
{
}

INLINE void keep_operands(uint operands[][QUERY_WORDS], const int count)
{
}

static inline uint address_of_tile(const __local ushort *tile)
{
    return 0;
}
#endif

/* The descriptor of the part that begins `bytes` bytes after the tile's first element, in a tile of
 * `rows` rows. It is the tile's own plus a constant: local memory ends before a carry. */
static inline ulong tile_descriptor(const __local ushort *tile, const int rows, const int bytes)
{
    const uint address = address_of_tile(tile);
    const uint of_tile = (address / 16 & 0x3fff) | (uint)(rows * 128 / 16) << 16;

    return (of_tile + (uint)bytes / 16) | (ulong)(8 * 128 / 16 | 1u << 30) << 32;
}

#if EMULATE
/* The first byte of term k of key or dim n in a tile at address 0; rows are terms or not. */
static inline uint descriptor_byte(const ulong descriptor, const bool rows_are_terms, const int k,
                                   const int n)
{
    const uint begin = (uint)descriptor & 0x3fff, column = (uint)(descriptor >> 16) & 0x3fff,
               eight_rows = (uint)(descriptor >> 32) & 0x3fff;
    const uint at = rows_are_terms ? 16 * (begin + n / 64 * column + k / 8 * eight_rows) +
                                         k % 8 * 128 + n % 64 * 2
                                   : 16 * (begin + n / 8 * eight_rows) + n % 8 * 128 + k * 2;

    return at ^ (at >> 7 & 7) << 4;
}

/* Computes the sums of a sub-group's 16 queries and `others` keys or dims. */
INLINE void multiply_tile(float *sums, const int others, const uint *query,
                          const __local ushort *tile, const ulong descriptor,
                          const bool rows_are_terms, const bool accumulate, const int lane,
                          __local float *exchange)
{
    for (int e = 0; e < QUERY_ELEMENTS; e++)
        exchange[query_row(lane, e) * FRAGMENT_DEPTH + query_depth(lane, e)] =
            element_value((ushort)(query[e / 2] >> e % 2 * 16));
    LOCAL_BARRIER(); /* the operands are complete */
    for (int x = 0; x < others / 2; x++) {
        const __local float *terms =
            exchange + lane_query(lane, sum_query(x % FRAGMENT_SUMS)) * FRAGMENT_DEPTH;
        const int n = x / FRAGMENT_SUMS * FRAGMENT_OTHERS + sum_other(lane, x % FRAGMENT_SUMS);
        float sum = accumulate ? sums[x] : 0.0f;
        for (int k = 0; k < FRAGMENT_DEPTH; k++)
            sum = fma(terms[k],
                      element_value(tile[descriptor_byte(descriptor, rows_are_terms, k, n) / 2]),
                      sum);
        sums[x] = sum;
    }
    LOCAL_BARRIER(); /* the operands may be overwritten */
}

/* Like multiply_tile(), with the rows' operands in local memory, along the columns of a tile. */
INLINE void multiply_warpgroup_tiles(float *sums, const int others, const __local ushort *rows,
                                     const ulong row_descriptor, const __local ushort *tile,
                                     const ulong descriptor, const bool rows_are_terms,
                                     const bool accumulate, const int lane, __local float *exchange)
{
    for (int x = 0; x < others / 2; x++) {
        float sum = accumulate ? sums[x] : 0.0f;
        const int row = THIS_THREAD / FRAGMENT_LANES % 4 * FRAGMENT_QUERIES +
                        lane_query(lane, sum_query(x % FRAGMENT_SUMS));
        const int n = x / FRAGMENT_SUMS * FRAGMENT_OTHERS + sum_other(lane, x % FRAGMENT_SUMS);
        for (int k = 0; k < FRAGMENT_DEPTH; k++)
            sum = fma(element_value(rows[descriptor_byte(row_descriptor, false, k, row) / 2]),
                      element_value(tile[descriptor_byte(descriptor, rows_are_terms, k, n) / 2]),
                      sum);
        sums[x] = sum;
    }
}
#else
/* Sums n .. n + 7 as operands of inline assembler, and the names of operands t0 .. t9. */
#define EIGHT(n)                                                                                   \
    "+f"(sums[n]), "+f"(sums[(n) + 1]), "+f"(sums[(n) + 2]), "+f"(sums[(n) + 3]),                  \
        "+f"(sums[(n) + 4]), "+f"(sums[(n) + 5]), "+f"(sums[(n) + 6]), "+f"(sums[(n) + 7])
#define TEN(t)                                                                                     \
    "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9"

/* So many sums, and their names. The expansion contains the commas: NVIDIA's compiler refuses variadic macros. */
#define SUMS_16 EIGHT(0), EIGHT(8)
#define SUMS_32 SUMS_16, EIGHT(16), EIGHT(24)
#define SUMS_64 SUMS_32, EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)
#define SUMS_128                                                                                   \
    SUMS_64, EIGHT(64), EIGHT(72), EIGHT(80), EIGHT(88), EIGHT(96), EIGHT(104), EIGHT(112),        \
        EIGHT(120)
#define NAMES_16 TEN("") ", %10, %11, %12, %13, %14, %15"
#define NAMES_32 TEN("") ", " TEN("1") ", " TEN("2") ", %30, %31"
#define NAMES_64                                                                                   \
    TEN("")                                                                                        \
    ", " TEN("1") ", " TEN("2") ", " TEN("3") ", " TEN("4") ", " TEN("5") ", %60, %61, %62, %63"
#define NAMES_128                                                                                  \
    TEN("")                                                                                        \
    ", " TEN("1") ", " TEN("2") ", " TEN("3") ", " TEN("4") ", " TEN("5") ", " TEN("6") ", " TEN(  \
        "7") ", " TEN("8") ", " TEN("9") ", " TEN("10") ", " TEN("11") ", %120, %121, %122, "      \
                                                                       "%123, %124, %125, %126, "  \
                                                                       "%127"

/* Adds rows times a tile of `others` rows or columns to sums, or starts sums with that. Strings name the operands
 * after the sums: `rows`, the tile's descriptor and whether to add. transposed: of the operands in local memory, 1 if
 * their rows are terms. */
#define WGMMA(others, names, rows, tile, adds, transposed, sums_of, rows_of)                       \
    __asm volatile(SM_90A "{.reg .pred adds; setp.ne.b32 adds, " adds                              \
                          ", 0; wgmma.mma_async.sync.aligned.m64n" #others                         \
                          "k16.f32." MMA_SYNC_TYPE "." MMA_SYNC_TYPE " {" names "}, " rows         \
                          ", " tile ", adds, 1, 1, " transposed ";}"                               \
                   : sums_of                                                                       \
                   : rows_of, "l"(descriptor), "r"((int)accumulate)                                \
                   : "memory")
/* Rows in registers. */
#define QUERY "r"(query[0]), "r"(query[1]), "r"(query[2]), "r"(query[3])

/* sums (+)= products of the warpgroup's 64 rows and `others` rows or columns, 32, 64, 128 or 256, of another tile. */
INLINE void multiply_warpgroup_tiles(float *sums, const int others, const __local ushort *rows,
                                     const ulong row_descriptor, const __local ushort *tile,
                                     const ulong descriptor, const bool rows_are_terms,
                                     const bool accumulate, const int lane, __local float *exchange)
{
    if (others == 256 && rows_are_terms)
        WGMMA(256, NAMES_128, "%128", "%129", "%130", "0, 1", SUMS_128, "l"(row_descriptor));
    else if (others == 256)
        WGMMA(256, NAMES_128, "%128", "%129", "%130", "0, 0", SUMS_128, "l"(row_descriptor));
    else if (others == 128 && rows_are_terms)
        WGMMA(128, NAMES_64, "%64", "%65", "%66", "0, 1", SUMS_64, "l"(row_descriptor));
    else if (others == 128)
        WGMMA(128, NAMES_64, "%64", "%65", "%66", "0, 0", SUMS_64, "l"(row_descriptor));
    else if (others == 64 && rows_are_terms)
        WGMMA(64, NAMES_32, "%32", "%33", "%34", "0, 1", SUMS_32, "l"(row_descriptor));
    else if (others == 64)
        WGMMA(64, NAMES_32, "%32", "%33", "%34", "0, 0", SUMS_32, "l"(row_descriptor));
    else
        WGMMA(32, NAMES_16, "%16", "%17", "%18", "0, 0", SUMS_16, "l"(row_descriptor));
}

/* sums of the warpgroup's 64 queries and `others` keys or dims: 32, 64, 128, or REST_OF_DIMS, what is left of a tile's
 * columns after multiples of 128. Only a program that needs it has an instruction of another size, since each takes
 * compile time. */
INLINE void multiply_tile(float *sums, const int others, const uint *query,
                          const __local ushort *tile, const ulong descriptor,
                          const bool rows_are_terms, const bool accumulate, const int lane,
                          __local float *exchange)
{
#if REST_OF_DIMS == 16
#define SUMS_OF_REST EIGHT(0)
    if (others == 16) {
        WGMMA(16, "%0, %1, %2, %3, %4, %5, %6, %7", "{%8, %9, %10, %11}", "%12", "%13", "1",
              SUMS_OF_REST, QUERY);
        return;
    }
#elif REST_OF_DIMS == 48
#define SUMS_OF_REST SUMS_16, EIGHT(16)
    if (others == 48) {
        WGMMA(48, TEN("") ", " TEN("1") ", %20, %21, %22, %23", "{%24, %25, %26, %27}", "%28",
              "%29", "1", SUMS_OF_REST, QUERY);
        return;
    }
#elif REST_OF_DIMS == 80
#define SUMS_OF_REST SUMS_32, EIGHT(32)
    if (others == 80) {
        WGMMA(80, TEN("") ", " TEN("1") ", " TEN("2") ", " TEN("3"), "{%40, %41, %42, %43}", "%44",
              "%45", "1", SUMS_OF_REST, QUERY);
        return;
    }
#elif REST_OF_DIMS == 96
#define SUMS_OF_REST SUMS_32, EIGHT(32), EIGHT(40)
    if (others == 96) {
        WGMMA(96,
              TEN("") ", " TEN("1") ", " TEN("2") ", " TEN(
                  "3") ", %40, %41, %42, %43, %44, %45, %46, %47",
              "{%48, %49, %50, %51}", "%52", "%53", "1", SUMS_OF_REST, QUERY);
        return;
    }
#elif REST_OF_DIMS == 112
#define SUMS_OF_REST SUMS_32, EIGHT(32), EIGHT(40), EIGHT(48)
    if (others == 112) {
        WGMMA(112,
              TEN("") ", " TEN("1") ", " TEN("2") ", " TEN("3") ", " TEN(
                  "4") ", %50, %51, %52, %53, %54, %55",
              "{%56, %57, %58, %59}", "%60", "%61", "1", SUMS_OF_REST, QUERY);
        return;
    }
#endif
    if (others == 128 && rows_are_terms)
        WGMMA(128, NAMES_64, "{%64, %65, %66, %67}", "%68", "%69", "1", SUMS_64, QUERY);
    else if (others == 128)
        WGMMA(128, NAMES_64, "{%64, %65, %66, %67}", "%68", "%69", "0", SUMS_64, QUERY);
    else if (others == 64 && rows_are_terms)
        WGMMA(64, NAMES_32, "{%32, %33, %34, %35}", "%36", "%37", "1", SUMS_32, QUERY);
    else if (others == 64)
        WGMMA(64, NAMES_32, "{%32, %33, %34, %35}", "%36", "%37", "0", SUMS_32, QUERY);
    else
        WGMMA(32, NAMES_16, "{%16, %17, %18, %19}", "%20", "%21", "0", SUMS_16, QUERY);
}
#endif

/* sums = the rows' operands times a tile of `others` rows, along their columns; += if `adds`.
 * Asynchronous until products_wait(). A loop with constant operands calls keep_operands() after
 * that. */
INLINE void begin_rows_of_tile(uint operands[][QUERY_WORDS], const int columns,
                               const __local ushort *tile, const int others, const bool adds,
                               float *sums, const int lane, __local float *exchange)
{
    sums_here(sums, others / 2);
    operands_here(operands, columns / FRAGMENT_DEPTH);
    products_begin();
    UNROLL
    for (int column = 0; column < columns; column += FRAGMENT_DEPTH)
        multiply_tile(sums, others, operands[column / FRAGMENT_DEPTH], tile,
                      tile_descriptor(tile, others, column / 64 * others * 128 + column % 64 * 2),
                      false, adds || column > 0, lane, exchange);
    products_under_way();
}

/* Adds operands of `parts` parts times a tile of tile_rows x dims to sums. Asynchronous until
 * products_wait(). */
INLINE void begin_sums_of_tile(uint operands[][QUERY_WORDS], const int parts, const int tile_rows,
                               const __local ushort *tile, const int dims, float *sums,
                               const int lane, __local float *exchange)
{
    sums_here(sums, dims / 2);
    operands_here(operands, tile_rows / FRAGMENT_DEPTH * parts);
    products_begin();
    UNROLL
    for (int n = 0; n < tile_rows / FRAGMENT_DEPTH * parts; n++) {
        UNROLL
        for (int d = 0; d < dims; d += 128) /* one product has 128 dims, or the rest */
            multiply_tile(
                sums + d / FRAGMENT_OTHERS * FRAGMENT_SUMS, dims - d < 128 ? dims - d : 128,
                operands[n], tile,
                tile_descriptor(tile, tile_rows,
                                d / 64 * tile_rows * 128 + n / parts * FRAGMENT_DEPTH * 128),
                true, true, lane, exchange);
    }
    products_under_way();
}

INLINE void add_rows_of_tile(uint operands[][QUERY_WORDS], const int parts, const int tile_rows,
                             const __local ushort *tile, const int dims, float *sums,
                             const int lane, __local float *exchange)
{
    begin_sums_of_tile(operands, parts, tile_rows, tile, dims, sums, lane, exchange);
    products_wait(0);
    sums_here(sums, dims / 2);
}

/* Computes the products of begin_tile_products(), between products_begin() and
 * products_under_way(). */
INLINE void ask_tile_products(const __local ushort *rows, const int first, const int all_rows,
                              const int columns, const __local ushort *tile, const int others,
                              const bool adds, float *sums, const int lane, __local float *exchange)
{
    UNROLL
    for (int column = 0; column < columns; column += FRAGMENT_DEPTH)
        multiply_warpgroup_tiles(
            sums, others, rows,
            tile_descriptor(rows, all_rows,
                            (column / 64 * all_rows + first) * 128 + column % 64 * 2),
            tile, tile_descriptor(tile, others, column / 64 * others * 128 + column % 64 * 2),
            false, adds || column > 0, lane, exchange);
}

/* sums = 64 rows of a tile of all_rows, from `first` on, times a tile of `others` rows, along the
 * columns of both; += if `adds`. Asynchronous until products_wait(). */
INLINE void begin_tile_products(const __local ushort *rows, const int first, const int all_rows,
                                const int columns, const __local ushort *tile, const int others,
                                const bool adds, float *sums, const int lane,
                                __local float *exchange)
{
    sums_here(sums, others / 2);
    products_begin();
    ask_tile_products(rows, first, all_rows, columns, tile, others, adds, sums, lane, exchange);
    products_under_way();
}

/* Multiplies all pairs of `parts` parts that count, the small ones first, as the function above
 * does. row_part and part are the distances of a tile's parts, in elements. */
INLINE void begin_part_products(const int parts, const __local ushort *rows, const int row_part,
                                const int first, const int all_rows, const int columns,
                                const __local ushort *tile, const int part, const int others,
                                float *sums, const int lane, __local float *exchange)
{
    sums_here(sums, others / 2);
    products_begin();
    UNROLL
    for (int both = parts - 1; both >= 0; both--)
        UNROLL
    for (int n = 0; n <= both; n++)
        UNROLL
    for (int column = 0; column < columns; column += FRAGMENT_DEPTH)
        multiply_warpgroup_tiles(
            sums, others, rows,
            tile_descriptor(rows, all_rows,
                            n * row_part * 2 + (column / 64 * all_rows + first) * 128 +
                                column % 64 * 2),
            tile,
            tile_descriptor(tile, others,
                            (both - n) * part * 2 + column / 64 * others * 128 + column % 64 * 2),
            false, both < parts - 1 || n > 0 || column > 0, lane, exchange);
    products_under_way();
}

/* Adds weights in parts times the parts of a tile of tile_rows x dims to sums. Asynchronous until
 * products_wait(). */
INLINE void begin_part_sums(uint operands[][QUERY_WORDS], const int tile_rows,
                            const __local ushort *tile, const int part, const int dims, float *sums,
                            const int lane, __local float *exchange)
{
    const int slabs = tile_rows / FRAGMENT_DEPTH;

    sums_here(sums, dims / 2);
    operands_here(operands, OPERAND_PARTS * slabs);
    products_begin();
    UNROLL
    for (int both = OPERAND_PARTS - 1; both >= 0; both--)
        UNROLL
    for (int n = 0; n <= both; n++)
        UNROLL
    for (int slab = 0; slab < slabs; slab++)
        multiply_tile(
            sums, dims, operands[n * slabs + slab], tile,
            tile_descriptor(tile, tile_rows, (both - n) * part * 2 + slab * FRAGMENT_DEPTH * 128),
            true, true, lane, exchange);
    products_under_way();
}

/* sums += 64 rows of a tile of all_rows x tile_rows, from `first` on, times a tile of tile_rows x
 * columns. Asynchronous until products_wait(). */
INLINE void begin_tile_sums(const __local ushort *rows, const int first, const int all_rows,
                            const int tile_rows, const __local ushort *tile, const int columns,
                            float *sums, const int lane, __local float *exchange)
{
    sums_here(sums, columns / 2);
    products_begin();
    UNROLL
    for (int row = 0; row < tile_rows; row += FRAGMENT_DEPTH)
        multiply_warpgroup_tiles(
            sums, columns, rows,
            tile_descriptor(rows, all_rows, (row / 64 * all_rows + first) * 128 + row % 64 * 2),
            tile, tile_descriptor(tile, tile_rows, row * 128), true, true, lane, exchange);
    products_under_way();
}
