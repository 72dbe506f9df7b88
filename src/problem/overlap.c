/* SPDX-License-Identifier: Apache-2.0 */
/* Two tensors share a byte if there are an element of each whose positions differ by less than one of
 * them is wide:
 *
 *     lo <= begin + sum over the axes of both of step * x <= hi       x an index, negative for b
 *
 * Axes with the same step are one term, of the difference of the two indices. A term whose step does
 * not exceed the width of lo..hi only makes lo..hi wider, which is all that happens for tensors that
 * are packed. What is left is searched, the longest step first: the others reach so far that few x
 * are possible, two or three where one step is a multiple of what the smaller ones reach over. */
#include "problem/overlap.h"

enum { MOST_TERMS = 8, MOST_TRIALS = 4096 };

struct term {
    int64_t step, least, most; /* a term step * x with x from least to most; step > 0 */
};

struct search {
    struct term terms[MOST_TERMS]; /* sorted by step, the largest first */
    size_t count;
    int64_t lo, hi;
    /* least and greatest sum of the terms from n on */
    int64_t reach_lo[MOST_TERMS + 1], reach_hi[MOST_TERMS + 1];
    int64_t divisor[MOST_TERMS + 1]; /* greatest common divisor of the steps from n on */
    size_t trials;
};

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Adds an axis of `size` steps, of a if sign is 1, of b if it is -1. */
static void add_axis(struct search *s, size_t step, size_t size, int sign)
{
    const int64_t far = (int64_t)size - 1;
    size_t n = 0;

    if (step == 0 || size == 1)
        return;
    while (n < s->count && s->terms[n].step > (int64_t)step)
        n++;
    if (n == s->count || s->terms[n].step != (int64_t)step) {
        for (size_t m = s->count++; m > n; m--)
            s->terms[m] = s->terms[m - 1];
        s->terms[n] = (struct term){(int64_t)step, 0, 0};
    }
    s->terms[n].least -= sign < 0 ? far : 0;
    s->terms[n].most += sign > 0 ? far : 0;
}

static void add_tensor(struct search *s, const struct ca_places *places, int sign)
{
    const size_t block = places->cache == CLATTN_CACHE_PLAIN ? 1 : CA_BLOCK;

    for (int n = 0; n < 4; n++) {
        const size_t stride = places->layout.stride[n];
        if (n == 3 && block > 1) /* blocks are neighbours */
            add_axis(s, places->element_bytes, places->sizes[n] / block, sign);
        else
            add_axis(s, stride / block * places->element_bytes, places->sizes[n], sign);
    }
}

/* Terms that make lo..hi wider and no more, the shortest step first. */
static void absorb(struct search *s)
{
    while (s->count > 0 && s->terms[s->count - 1].step <= s->hi - s->lo + 1) {
        const struct term t = s->terms[--s->count];
        s->lo -= t.step * t.most;
        s->hi -= t.step * t.least;
    }
}

static void measure(struct search *s)
{
    for (size_t n = s->count; n-- > 0;) {
        const struct term t = s->terms[n];
        s->reach_lo[n] = s->reach_lo[n + 1] + t.step * t.least;
        s->reach_hi[n] = s->reach_hi[n + 1] + t.step * t.most;
        s->divisor[n] = common_divisor(s->divisor[n + 1], t.step);
    }
}

/* Returns whether begin and the terms from n on can make a number from lo to hi. */
static enum ca_overlap find(struct search *s, size_t n, int64_t begin)
{
    if (n == s->count)
        return begin >= s->lo && begin <= s->hi ? CA_SHARED : CA_APART;
    const struct term t = s->terms[n];
    const int64_t divisor = s->divisor[n];
    if (begin + floor_divide(s->hi - begin, divisor) * divisor < s->lo)
        return CA_APART;
    const int64_t first = -floor_divide(s->reach_hi[n + 1] + begin - s->lo, t.step);
    const int64_t last = floor_divide(s->hi - s->reach_lo[n + 1] - begin, t.step);
    for (int64_t x = first > t.least ? first : t.least; x <= last && x <= t.most; x++) {
        if (++s->trials > MOST_TRIALS)
            return CA_UNDECIDED;
        const enum ca_overlap found = find(s, n + 1, begin + t.step * x);
        if (found != CA_APART)
            return found;
    }
    return CA_APART;
}

enum ca_overlap ca_places_overlap(const struct ca_places *a, const struct ca_places *b)
{
    struct search s = {.lo = 1 - (int64_t)a->element_bytes, .hi = (int64_t)b->element_bytes - 1};

    add_tensor(&s, a, 1);
    add_tensor(&s, b, -1);
    measure(&s);
    /* Tensors whose starts are further apart than both reach do not overlap. */
    const uint64_t distance = a->begin > b->begin ? a->begin - b->begin : b->begin - a->begin;
    if (distance > (uint64_t)(s.reach_hi[0] - s.reach_lo[0] + s.hi - s.lo))
        return CA_APART;
    absorb(&s);
    s.reach_lo[s.count] = s.reach_hi[s.count] = s.divisor[s.count] = 0;
    measure(&s);
    const int64_t begin = a->begin > b->begin ? (int64_t)distance : -(int64_t)distance;
    return find(&s, 0, begin);
}
