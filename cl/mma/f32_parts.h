/* SPDX-License-Identifier: Apache-2.0 */
/* Products of f32 by matrix instructions of bf16: x = x0 + x1 + x2, each part the bf16 nearest to what the parts before
 * it left, 24 bits in all. A product x y is the sum of x_i y_j with i + j <= 2, the smallest first: six products
 * of bf16, which are exact, with sums in f32. What is left out is below 2^-24 of |x| |y|.
 *
 * Stage      A kernel of the program makes the parts once a call (split_lines()). They lie in the workspace as three
 *            planes, one for each part; a plane has lines of whole pieces of 8 elements, with zeros past a line's last
 *            element and in lines past the tensor's last.
 * Flags      A part of an Inf or NaN is the element itself, and the other two are 0. Products of them, such as
 *            Inf * 0, are not those of the f32. So each line has a flag that tells whether it has such an element, or
 *            one from 2^63 on, with which products of parts may be infinite and of both signs.
 * Small      Parts below 2^-133 are 0: elements below 2^-109 keep fewer bits.
 *
 * The program has DTYPE f32; its operands in local memory and in registers are those of bf16. */
#pragma once
#include "families/f32_part_sizes.h"
#include "mma/fragment.h"

/* A tensor's parts in the workspace. */
struct parts {
    __global int *flags; /* of the lines */
    __global ushort *planes;
    long lines, elements; /* the lines of a plane, and the elements of a line */
};

/* Returns the parts that begin `bytes` bytes after the workspace's start, which is rounded up to PARTS_ALIGNMENT. */
INLINE struct parts parts_at(__global float *workspace, const long bytes, const long lines,
                             const long elements)
{
    __global uchar *const first =
        (__global uchar *)workspace + (-(size_t)workspace & (PARTS_ALIGNMENT - 1)) + bytes;

    return (struct parts){(__global int *)first,
                          (__global ushort *)(first + PART_FLAGS_BYTES(lines)), lines, elements};
}

/* The pairs of parts of a product, in the order of their sums. */
enum { PART_PAIRS = 6 };
INLINE int first_part(const int pair)
{
    return 0x001012 >> 4 * pair & 3; /* 2 1 0 1 0 0 */
}
INLINE int second_part(const int pair)
{
    return 0x010210 >> 4 * pair & 3; /* 0 1 2 0 1 0 */
}

/* ---- the stage ------------------------------------------------------------------------------- */

/* A tensor whose lines are counted by three axes, and the elements of a line by two; outer axes come first. */
struct lines {
    const __global float *from;
    long line_sizes[3], line_steps[3];
    long sizes[2], steps[2];
};

INLINE long line_place(const struct lines *t, const uint line)
{
    const uint inner = (uint)t->line_sizes[2], middle = (uint)t->line_sizes[1];
    const uint outer = line / inner;

    return outer / middle * t->line_steps[0] + outer % middle * t->line_steps[1] +
           line % inner * t->line_steps[2];
}

/* Returns whether eight neighbours in a line are two aligned vectors in memory. */
INLINE bool has_vectors(const struct lines *t)
{
    const long steps = t->line_steps[0] | t->line_steps[1] | t->line_steps[2] |
                       (t->sizes[0] > 1 ? t->steps[0] | t->sizes[1] : 0);

    return t->steps[1] == 1 && (t->sizes[0] == 1 || t->sizes[1] % 8 == 0) && steps % 4 == 0 &&
           ((size_t)t->from & 15) == 0;
}

/* Loads eight elements of the line at `from`, zeros past its last. */
INLINE void load_eight(float x[8], const struct lines *t, const __global float *from,
                       const uint first, const bool vectors)
{
    const uint inner = (uint)t->sizes[1], all = (uint)t->sizes[0] * inner;

    if (vectors && first + 8 <= all) {
        const __global float4 *p =
            (const __global float4 *)(from + first / inner * t->steps[0] + first % inner);
        vstore4(p[0], 0, x);
        vstore4(p[1], 1, x);
        return;
    }
    UNROLL
    for (uint n = 0; n < 8; n++) {
        const uint d = first + n;
        if (d < all)
            x[n] = from[t->sizes[0] == 1 ? d * t->steps[1]
                                         : d / inner * t->steps[0] + d % inner * t->steps[1]];
        else
            x[n] = 0.0f;
    }
}

/* Computes the first parts of two elements, which may be too large to be rounded, or not finite;
 * leaves the remainders in them. */
INLINE uint take_large_pair(float *x, float *y)
{
    const bool x_is_finite = *x * 0.0f == 0.0f, y_is_finite = *y * 0.0f == 0.0f;
    const ushort x0 = x_is_finite ? (ushort)(as_uint(*x) >> 16) : bf16_round(*x);
    const ushort y0 = y_is_finite ? (ushort)(as_uint(*y) >> 16) : bf16_round(*y);

    *x = x_is_finite ? *x - bf16_load(x0) : 0.0f;
    *y = y_is_finite ? *y - bf16_load(y0) : 0.0f;
    return x0 | (uint)y0 << 16;
}

/* Splits eight elements and stores the parts at `at` in each plane. Returns whether an element is
 * flagged. */
INLINE bool split_eight(float x[8], const struct parts *to, const long at)
{
    uint most = 0, words[4];

    UNROLL
    for (int n = 0; n < 8; n++)
        most = max(most, as_uint(x[n]) & 0x7fffffffu);
    const bool flagged = most >= 0x5f000000u; /* 2^63 */
    UNROLL
    for (int part = 0; part < 3; part++) {
        UNROLL
        for (int n = 0; n < 4; n++)
            words[n] = part == 0 && flagged ? take_large_pair(&x[2 * n], &x[2 * n + 1])
                                            : take_pair(&x[2 * n], &x[2 * n + 1]);
        *(__global uint4 *)(to->planes + part * to->lines * to->elements + at) =
            (uint4)(words[0], words[1], words[2], words[3]);
    }
    return flagged;
}

/* The work-items that share a line of this many pieces. Those with the same pieces of several lines
 * are neighbours if the lines are neighbours in memory. */
INLINE uint items_of_line(const uint pieces, const bool by_line)
{
    uint items = by_line ? 32 : PART_ITEMS; /* 8 lines fill a sector */

    while (items > 1 && items / 2 >= pieces)
        items /= 2;
    return items;
}

/* Splits a tensor, with all groups of dimension 0, into parts. The tensor has fewer than 2^32
 * lines, and elements in a line. `flags` has PART_ITEMS words for the group. */
INLINE void split_lines(const struct lines *t, const struct parts *to, __local int *flags)
{
    const uint pieces = (uint)(to->elements / 8), thread = THIS_THREAD;
    const bool by_line = t->steps[1] != 1 && t->line_steps[2] == 1, vectors = has_vectors(t);
    const uint items = items_of_line(pieces, by_line), at_once = PART_ITEMS / items;
    const uint own = by_line ? thread % at_once : thread / items;
    const uint first = by_line ? thread / at_once : thread % items;
    const long lines = t->line_sizes[0] * t->line_sizes[1] * t->line_sizes[2];

    for (long begin = (long)get_group_id(0) * at_once; begin < to->lines;
         begin += (long)get_num_groups(0) * at_once) {
        const long line = begin + own;
        const bool exists = line < lines;
        const __global float *const from = t->from + (exists ? line_place(t, (uint)line) : 0);
        bool flagged = false;
        flags[thread] = 0;
        LOCAL_BARRIER();
        for (uint piece = first; piece < pieces && line < to->lines; piece += items) {
            float x[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
            if (exists)
                load_eight(x, t, from, piece * 8, vectors);
            flagged |= split_eight(x, to, line * to->elements + piece * 8);
        }
        if (flagged)
            atomic_or(&flags[own], 1);
        LOCAL_BARRIER();
        if (thread < at_once && begin + thread < to->lines)
            to->flags[begin + thread] = flags[thread];
        LOCAL_BARRIER(); /* the flags may be overwritten */
    }
}

/* Returns whether this work-item's share of the lines from `first` on has a flagged line, if
 * `threads` work-items share them. */
INLINE bool has_flagged_lines(const struct parts *p, const long first, const long count,
                              const int threads)
{
    int any = 0;

    for (long n = THIS_THREAD; n < count; n += threads)
        any |= p->flags[first + n];
    return any != 0;
}
