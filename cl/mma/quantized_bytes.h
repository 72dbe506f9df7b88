/* SPDX-License-Identifier: Apache-2.0 */
/* Quantized keys and values arrive as bytes: tiles of rows as they are stored are copied to local
 * memory in the background. Tiles of elements are decoded from them (fragment_tile.h) while the
 * next bytes arrive.
 *
 * Two codes become elements by a permutation of bytes and usually a multiply-add
 * (cl/formats/NAME.h). An integer is put into the significand of a power of two, 2^10 for f16 and
 * 2^7 for bf16, and that power is subtracted again. In f16 the multiply-add also applies the power
 * of two that elements of values contain; elements of keys contain none, since their products are
 * in f32.
 *
 * Kernels have DECLARE_BYTES(). */
#pragma once
#include "families/sizes.h"
#include "mma/quantized_rows.h"
#include "mma/key_places.h"

/* The size of the pieces that divide all rows, and all blocks of dims, alike. */
#define PIECE_OF(bytes) ((bytes) % 16 == 0 ? 16 : (bytes) % 8 == 0 ? 8 : (bytes) % 4 == 0 ? 4 : 2)

/* Returns whether every row of the cache begins at a multiple of `piece` bytes, and a row's offset
 * fits 32 bits. The steps, in values, are of a page (or batch) and of a row. */
#define PIECES_ALIGNED(cache, p, page_step, row_step, piece)                                       \
    ((((size_t)(p) | (size_t)((page_step) / BLOCK_VALUES * BLOCK_BYTES(cache)) |                   \
       (size_t)((row_step) / BLOCK_VALUES * BLOCK_BYTES(cache))) &                                 \
      ((piece)-1)) == 0 &&                                                                         \
     (row_step) < 1L << 30)

/* Copies `rows` rows of row_bytes bytes, in the background unless pieces have 2 bytes, to rows that begin
 * every to_step bytes; rows up to tile_rows become 0. places: 0, or the offsets of rows in bytes. aligned:
 * pieces are, and rows less than 2 GiB apart. `threads` threads copy, of which this is number `first`. */
INLINE void copy_bytes(const int cache, __local uchar *to, const int to_step, const int tile_rows,
                       const __global uchar *matrix, const long row_step,
                       const __local long *places, const int rows, const int row_bytes,
                       const bool aligned, const int threads, int first)
{
    const int piece = PIECE_OF(row_bytes), pieces = row_bytes / piece;
    const long row_bytes_on = row_step / BLOCK_VALUES * BLOCK_BYTES(cache); /* the row stride */
    const int all = tile_rows * row_bytes, whole = all / (threads * 16) * (threads * 16);

    INDEX_HERE(first);
    if (!(EMULATE && OWN_KEYS) && !places && rows == tile_rows && to_step == row_bytes &&
        row_bytes_on == row_bytes && ((size_t)matrix & 15) == 0) { /* the rows are contiguous */
        const __global uchar *from = matrix + first * 16;
        __local uchar *const here = to + first * 16;
        UNROLL
        for (int n = 0; n < whole; n += threads * 16)
            copy_piece(here + n, from + n, 16, 16);
        if (whole + first * 16 < all)
            copy_piece(here + whole, from + whole, 16, min(all - whole - first * 16, 16));
        return;
    }
    const int last = EMULATE ? max(rows - 1, 0) : rows - 1; /* copy_own() may have no rows there */
    int row = first / (uint)pieces, column = first % (uint)pieces;
#pragma unroll 1
    for (int n = first * piece; n < all; n += threads * piece) {
        const __global uchar *from =
            matrix + column * piece +
            (places ? places[min(row, last)] : min(row, last) * (long)(int)row_bytes_on);
        if (piece > 2 && aligned) {
            copy_piece(to + row * to_step + column * piece, from, piece, row < rows ? piece : 0);
        } else {
            from += places ? 0 : min(row, last) * (row_bytes_on - (int)row_bytes_on);
            UNROLL
            for (int e = 0; e < piece; e += 2)
                *(__local ushort *)(to + row * to_step + column * piece + e) =
                    row < rows ? *(const __global ushort *)(from + e) : (ushort)0;
        }
        row += threads / pieces;
        column += threads % pieces;
        if (column >= pieces) {
            column -= pieces;
            row++;
        }
    }
}

static inline uint word_of_codes(const int format, const uint word)
{
    CA_BLOCK_FORMATS(RETURN_OF, word(DTYPE == DTYPE_F16, word))
    return 0;
}

static inline uint2 factor_and_addend(const int format, const uint x, const uint less)
{
    CA_BLOCK_FORMATS(RETURN_OF, pair(DTYPE == DTYPE_F16, x, less))
    return 0;
}

static inline uint pair_of_codes(const int format, const uint x, const uint power, const uint less)
{
    const uint2 pair = factor_and_addend(format, x, less);

    return fma_pair(pair.x, power, pair.y);
}

/* Decodes bytes n and n + 1 of a word to two elements. */
INLINE uint elements_of_bytes(const int cache, const uint word, const int n, const uint power,
                              const uint less)
{
    return pair_of_codes(cache,
                         permute_bytes(word, element_form_of(cache).fill, n == 0 ? 0x4140 : 0x4342),
                         power, less);
}

/* Elements of a format without a scale may be Inf or NaN. If `finite`, these become 0, and *nonfinite is set. */
INLINE uint4 finite_elements_of(const int cache, const uint4 x, const bool finite, int *nonfinite)
{
    if (!finite || layout_of(cache).scale >= 0)
        return x;
    return (uint4)(finite_pair(x.x, nonfinite), finite_pair(x.y, nonfinite),
                   finite_pair(x.z, nonfinite), finite_pair(x.w, nonfinite));
}

/* Loads eight elements; the first byte lies `at` 16-bit words after the start of x. */
INLINE uint4 elements8_of_bytes(const int cache, const uint *x, const int at, const uint power,
                                const uint less)
{
#define PAIR_OF_BYTES(n)                                                                           \
    elements_of_bytes(cache, x[(at + (n)) / 2], (at + (n)) % 2 * 2, power, less)
    return (uint4)(PAIR_OF_BYTES(0), PAIR_OF_BYTES(1), PAIR_OF_BYTES(2), PAIR_OF_BYTES(3));
#undef PAIR_OF_BYTES
}

/* The scale of a block in local memory, which begins `at` bytes after the start of a row; 1 if there is none. */
INLINE float block_scale_at(const int cache, const __local uchar *row, const int at)
{
    const int scale = layout_of(cache).scale;

    return scale < 0 ? 1.0f : vload_half(0, (const __local half *)(row + at + scale));
}

/* The fifth bits of a block in local memory, which begins `at` bytes after the start of a row; 0 if there are none. */
INLINE uint fifth_bits_at(const int cache, const __local uchar *row, const int at)
{
    const __local ushort *const words = (const __local ushort *)(row + at + layout_of(cache).fifth);

    return layout_of(cache).fifth ? words[0] | (uint)words[1] << 16 : 0;
}

/* The fifth bits of the four codes in a word, each in its byte, from bit `before` on; it is -2 where the word's first
 * two codes are others. */
INLINE uint spread_fifth(const uint bits, const int before)
{
    const uint four = before < 0 ? bits << -before & 15 : bits >> before & 15;

    return (four * 0x00204081u & 0x01010101u) << 4;
}

/* Decodes one half of a block, number `side`, to local memory: 16 values from `to` on if codes have 8
 * bits; else 8 values, and 8 more 16 elements behind `to`. moved: 1 if the codes begin in the middle
 * of a word, 0 if not, as constants; 2 if that is known at run time only. finite and nonfinite: as of
 * finite_elements_of(). */
INLINE void convert_half(const int cache, __local ushort *to, const __local uchar *block,
                         const int at, const int side, const int moved, const uint power,
                         const uint less, const bool finite, int *nonfinite)
{
    const int words = bits_of_codes(cache) / 2, from = at + codes_at(cache) + side * words * 4;
    const int shift = moved < 2 ? moved * 2 : from & 2;
    const __local uint *const w = (const __local uint *)(block + (from - shift));
    uint x[5] = {0}, high[3];
    int first = moved;

    UNROLL
    for (int n = 0; n < words; n++)
        x[n] = w[n];
    x[words] = x[words - 1];
    if (moved)
        x[words] = w[words - 1 + shift / 2];
    if (moved == 2) {
        UNROLL
        for (int n = 0; n < words; n++)
            x[n] = permute_bytes(x[n], x[n + 1], shift ? 0x5432 : 0x3210);
        first = 0;
    }
    if (bits_of_codes(cache) == 8) {
        UNROLL
        for (int n = 0; n < 5; n++)
            x[n] = word_of_codes(cache, x[n]);
        *(__local uint4 *)to = finite_elements_of(
            cache, elements8_of_bytes(cache, x, first, power, less), finite, nonfinite);
        *(__local uint4 *)(to + 8) = finite_elements_of(
            cache, elements8_of_bytes(cache, x, first + 4, power, less), finite, nonfinite);
    } else {
        const uint fifth = fifth_bits_at(cache, block, at) >> 8 * side;
        UNROLL
        for (int n = 0; n < 3; n++) {
            const int before = 4 * n - 2 * first; /* codes, two of them of others in a first word */
            high[n] =
                word_of_codes(cache, (x[n] >> 4 & 0x0f0f0f0fu) | spread_fifth(fifth >> 16, before));
            x[n] = word_of_codes(cache, (x[n] & 0x0f0f0f0fu) | spread_fifth(fifth, before));
        }
        *(__local uint4 *)to = elements8_of_bytes(cache, x, first, power, less);
        *(__local uint4 *)(to + 16) = elements8_of_bytes(cache, high, first, power, less);
    }
}

/* Like fill_quantized_rows(), but from a tile of bytes. Elements beyond the last row and column are
 * any integers with a factor of 0. scaled: the elements contain a power of two. */
INLINE int convert_rows(const int cache, __local ushort *tile, const int stride,
                        const int tile_rows, const int columns, __local float *factors,
                        const __local uchar *bytes, const int rows, const int dim,
                        const bool scaled, const bool finite, const struct row_scales of_rows)
{
    /* Two work-items decode a block of a row; groups of them decode blocks that follow each
     * other. */
    const int blocks = columns / BLOCK_VALUES, groups = MAX(THREADS / (2 * tile_rows), 1);
    const int each = DIVIDE_UP(blocks, groups), at_once = THREADS / (2 * groups);
    const int row_bytes = dim / BLOCK_VALUES * BLOCK_BYTES(cache);
    const struct element_form form = element_form_of(cache);
    const bool steady = row_bytes % 4 == 0 && (groups == 1 || each % 2 == 0);
    int nonfinite = 0;
    uint first = THIS_THREAD;

    INDEX_HERE(first);
    const int group = first / (2 * at_once), side = first % 2, n = first / 2 % at_once;
    /* Rows of eight neighbouring work-items have no bank conflicts. */
    const int row0 = bits_of_codes(cache) == 8 ? (n & ~6) | (n & 2) << 1 | (n & 4) >> 1
                                               : (n & ~7) | (n & 3) << 1 | (n & 4) >> 2;
    UNROLL
    for (int b = 0; b < each; b++)
        UNROLL
    for (int r = 0; r < tile_rows; r += at_once) {
        const int block = group * each + b, row = row0 + r;
        if (each * groups > blocks && block >= blocks)
            continue;
        const int stored = columns > dim ? min(block, dim / BLOCK_VALUES - 1) : block;
        const int at = row * row_bytes + stored * BLOCK_BYTES(cache);
        const bool inside = row < rows && block * BLOCK_VALUES < dim;
        const float scale =
            block_scale_at(cache, bytes, at) * (inside ? scale_of_row(of_rows, row) : 1.0f);
        float factor = inside ? scale : 0.0f;
        uint power = form.power, less = form.less;
        if (DTYPE == DTYPE_F16 && scaled) {
            const float x = power_of_scale(cache, scale, form.least_power);
            factor *= as_float((254u << 23) - as_uint(x));
            power = pack_pair(x * form.unit, x * form.unit);
            less = fma_pair(power, less, 0);
        }
        if (finite && (as_uint(scale) & 0x7f800000u) == 0x7f800000u && inside) {
            factor = 0.0f;
            nonfinite = 1;
        }
        if (side == 0)
            factors[block * tile_rows + row] = factor;
        convert_half(cache,
                     tile + row * stride + block * BLOCK_VALUES +
                         side * (bits_of_codes(cache) == 8 ? 16 : 8),
                     bytes, at, side,
                     steady && columns <= dim ? (codes_at(cache) + b * BLOCK_BYTES(cache)) % 4 / 2
                                              : 2,
                     power, less, finite && inside, &nonfinite);
    }
    return nonfinite;
}

/* ---- a kernel's tiles ------------------------------------------------------------------------ */

#if !K_CACHE || !V_CACHE || !HAS_COPIES
#error "only quantized keys and values arrive as bytes, where they are copied in the background"
#endif
/* Local memory of a tile's keys and values. */
#define DECLARE_BYTES()                                                                            \
    __local uint4 k_pieces[K_PIECES];                                                              \
    __local uint4 v_pieces[V_PIECES];                                                              \
    __local uchar *const k_bytes = (__local uchar *)k_pieces;                                      \
    __local uchar *const v_bytes = (__local uchar *)v_pieces

/* Copies the bytes of a tile's rows. m has the addresses of K and V, with the marks of
 * MARK_ALIGNED(); number is the tile's number modulo 2. */
#define COPY_KEYS(m, keys, number)                                                                 \
    copy_bytes(K_CACHE, k_bytes, K_ROW_BYTES, BLOCK_N,                                             \
               k_place((m).k, from_key((keys).j0, args->shape->k_stride)),                         \
               args->shape->k_stride[2], places_of(places, number, 0), (keys).count, K_ROW_BYTES,  \
               (m).k_aligned, THREADS, get_local_id(0))
#define COPY_VALUES(m, keys, number)                                                               \
    copy_bytes(V_CACHE, v_bytes, V_ROW_BYTES, BLOCK_N,                                             \
               v_place((m).v, from_key((keys).j0, args->shape->v_stride)),                         \
               args->shape->v_stride[2], places_of(places, number, 1), (keys).count, V_ROW_BYTES,  \
               (m).v_aligned, THREADS, get_local_id(0))
#define CONVERT_KEYS(tile, factors, keys, b, kv_head)                                              \
    convert_rows(K_CACHE, tile, K_STRIDE, BLOCK_N, PART_COLUMNS, factors, k_bytes, (keys).count,   \
                 DIM_QK, false, false, k_scales_from(args, b, kv_head, (keys).j0))
#define CONVERT_VALUES(tile, factors, keys, b, kv_head, finite, nonfinite)                         \
    if (convert_rows(V_CACHE, tile, V_STRIDE, BLOCK_N, DIMS, factors, v_bytes, (keys).count,       \
                     DIM_V, true, finite, v_scales_from(args, b, kv_head, (keys).j0)))             \
    atomic_or(nonfinite, 1)
/* Marks whether pieces of rows can be copied. */
#define MARK_ALIGNED(m)                                                                            \
    do {                                                                                           \
        (m).k_aligned = PIECES_ALIGNED(K_CACHE, (m).k, PAGE_SIZE ? args->shape->k_stride[0] : 0,   \
                                       args->shape->k_stride[2], PIECE_OF(K_ROW_BYTES));           \
        (m).v_aligned = PIECES_ALIGNED(V_CACHE, (m).v, PAGE_SIZE ? args->shape->v_stride[0] : 0,   \
                                       args->shape->v_stride[2], PIECE_OF(V_ROW_BYTES));           \
    } while (0)
