/* SPDX-License-Identifier: Apache-2.0 */
/* A loop of at most one turn that divides and stores to an array. Where it makes code for AVX-512, Intel's
 * runtime for CPUs divides behind the loop, by the counter as it is there: the next number's quotient.
 * With -DBOUND the loop's condition has the bound as a constant. */
#ifdef BOUND
#define GOES_ON(t, count) ((t) < 1 && (t) < (count))
#else
#define GOES_ON(t, count) ((t) < (count))
#endif

struct place {
    long outer, inner, row;
    bool lies;
};

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void probe(__global int *right)
{
    const long first = get_global_id(0), size = get_num_groups(0) / 4; /* 1 */
    const int count = (int)clamp(22 - first, 0L, 1L);                  /* 1 */
    struct place places[1];

    for (int t = 0; GOES_ON(t, count); t++) {
        const long outer = (first + t) / size;
        struct place place = {outer, first + t - outer * size, 0, false};
        place.row = right[4 + outer] + place.inner; /* 0 */
        place.lies = place.row >= 0 && place.row < 13;
        places[t] = place;
    }
    for (int t = 0; GOES_ON(t, count); t++) {
        const struct place place = places[t];
        if (place.lies)
            right[first] = place.outer == first && place.inner == 0 && place.row == 0;
    }
}
