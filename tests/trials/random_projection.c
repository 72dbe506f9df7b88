/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/trials/random_projection.h"
#include "families/registry.h"

#include <criterion/criterion.h>
#include <string.h>

/* Some of the tunables changed at random. */
static void draw_tunables(struct rng *r, struct projection_kind *k,
                          const clattn_device_info *device)
{
    const struct ca_family *family = k->family;
    clattn_problem sample = k->base; /* long enough for every way of sharing the work */
    size_t suggested[CA_MAX_TUNABLES];

    sample.projection.rows = sample.projection.y_dim = 512;
    sample.projection.x_dim = 4096;
    /* without steps, which the shapes draw: what needs steps of a kind is not drawn */
    const struct ca_problem made = {sample, sample};
    ca_family_suggest(family, &made, device, suggested);
    for (int attempt = 0; attempt < 100; attempt++) {
        size_t values[CA_MAX_TUNABLES];
        memcpy(values, suggested, sizeof values);
        for (size_t n = 0; n < family->num_tunables; n++)
            if (rng_one_in(r, 2))
                values[n] = family->tunables[n]
                                .candidates[rng_below(r, family->tunables[n].num_candidates)];
        if (family->reject(&made, device, values))
            continue;
        ca_tunables_print(family->tunables, family->num_tunables, values, k->tunables,
                          sizeof k->tunables);
        return;
    }
    cr_assert(0, "%s rejects all", family->full_name);
}

/* Returns whether the family takes the options, or there is no family. */
static int takes(const struct ca_family *family, const clattn_problem *base,
                 const clattn_device_info *device)
{
    const struct ca_problem drawn = {*base, *base}; /* layouts are drawn with the shapes */

    return !family || !family->unsupported(&drawn, device);
}

struct projection_kind random_projection_kind(struct rng *r, const struct ca_family *family,
                                              const clattn_device_info *device)
{
    static const int x_axes[] = {3, 3, 2, -1}, w_axes[] = {3, 3, 1, 1, -1},
                     y_axes[] = {3, 3, 3, -1};
    struct projection_kind k = {.family = family};

    clattn_projection_problem *const p = &k.base.projection;
    clattn_problem_init_operation(&k.base, CLATTN_PROJECTION);
    p->dtype = (clattn_dtype)rng_below(r, 3);
    p->bias = rng_one_in(r, 2);
    p->bias_dtype = p->bias ? (clattn_dtype)rng_below(r, 3) : CLATTN_F32;
    p->accumulate = rng_one_in(r, 3);
    k.x_axis = x_axes[rng_below(r, 4)];
    k.w_axis = w_axes[rng_below(r, 5)];
    k.y_axis = y_axes[rng_below(r, 4)];
    for (int n = 0; n < 100 && !takes(family, &k.base, device); n++)
        p->dtype = (clattn_dtype)rng_below(r, 3);
    if (family && takes(family, &k.base, device))
        draw_tunables(r, &k, device);
    return k;
}

/* Any order of the other axes, gaps after some of them; in inputs some broadcast. */
static clattn_layout draw_layout(struct rng *r, const size_t sizes[4], int innermost, int input)
{
    clattn_layout layout;
    int order[4] = {0, 1, 2, 3};
    size_t step = innermost < 0 ? 2 + rng_below(r, 2) : 1;

    for (size_t n = 3; n > 0; n--) {
        const size_t other = rng_below(r, n + 1);
        const int axis = order[n];
        order[n] = order[other];
        order[other] = axis;
    }
    for (int n = 0; n < 3 && innermost >= 0; n++)
        if (order[n] == innermost) {
            order[n] = order[3];
            order[3] = innermost;
        }
    const int gaps = rng_one_in(r, 2);
    for (int n = 3; n >= 0; n--) {
        layout.stride[order[n]] = step;
        step *= sizes[order[n]] ? sizes[order[n]] : 1;
        step += gaps ? rng_below(r, 8) : 0;
        if (input && n < 3 && rng_one_in(r, 12))
            layout.stride[order[n]] = 0;
    }
    return layout;
}

static size_t draw_size(struct rng *r)
{
    return RNG_PICK(r, 1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 100,
                    128, 130, 150, 192, 256, 300, 520);
}

clattn_problem random_projection_shape(struct rng *r, const struct projection_kind *k)
{
    clattn_problem made = k->base;
    clattn_projection_problem *p = &made.projection;

    do {
        p->batch = RNG_PICK(r, 1, 1, 1, 2, 3);
        p->y_heads = RNG_PICK(r, 1, 1, 2, 3, 5);
        p->x_heads = RNG_PICK(r, 1, 1, 2, 3, 4);
        p->rows = draw_size(r);
        p->x_dim = rng_one_in(r, 12) ? 1030 : draw_size(r);
        p->y_dim = draw_size(r);
    } while (clattn_problem_flops(&made) > 3e6);
    if (rng_one_in(r, 20))
        p->rows = 0;
    p->x = draw_layout(r, (size_t[]){p->batch, p->x_heads, p->rows, p->x_dim}, k->x_axis, 1);
    p->w = draw_layout(r, (size_t[]){p->x_heads, p->x_dim, p->y_heads, p->y_dim}, k->w_axis, 1);
    p->y = draw_layout(r, (size_t[]){p->batch, p->y_heads, p->rows, p->y_dim}, k->y_axis, 0);
    return made;
}
