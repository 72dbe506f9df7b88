/* SPDX-License-Identifier: Apache-2.0 */
#include "problem/layout.h"
#include "base/log.h"

#include <string.h>

int ca_multiply(size_t a, size_t b, size_t *product)
{
    if (b != 0 && a > SIZE_MAX / b)
        return 0;
    *product = a * b;
    return 1;
}

int ca_layout_is_order(const char *order)
{
    static const char axes[] = "bhsd";
    unsigned seen = 0;

    if (!order || strlen(order) != 4)
        return 0;
    for (int n = 0; n < 4; n++) {
        const char *axis = strchr(axes, order[n]);
        seen |= axis ? 1u << (axis - axes) : 0;
    }
    return seen == 15;
}

/* Gives an axis the step of what lies inside of it, and goes on to what lies outside. 0 if that is
 * more than a size_t holds: then it is SIZE_MAX. */
static int pack_axis(size_t *stride, size_t size, size_t *step)
{
    *stride = *step;
    if (ca_multiply(*step, size ? size : 1, step))
        return 1;
    *step = SIZE_MAX;
    return 0;
}

int ca_layout_pack(const char *order, const size_t sizes[4], clattn_layout *layout)
{
    static const char axes[] = "bhsd";
    size_t step = 1;
    int fits = 1;

    for (int n = 3; n >= 0; n--) {
        const size_t axis = (size_t)(strchr(axes, order[n]) - axes);
        fits &= pack_axis(&layout->stride[axis], sizes[axis], &step);
    }
    return fits;
}

clattn_status clattn_layout_packed(const char *order, const size_t sizes[4], clattn_layout *layout)
{
    if (layout)
        memset(layout, 0, sizeof *layout);
    if (!ca_layout_is_order(order) || !sizes || !layout)
        return ca_refuse(CLATTN_INVALID_ARGUMENT,
                         "order is no permutation of 'bhsd', or sizes or layout is null");
    if (ca_layout_pack(order, sizes, layout))
        return CLATTN_SUCCESS;
    memset(layout, 0, sizeof *layout);
    return ca_refuse(CLATTN_INVALID_ARGUMENT, "the product of sizes exceeds a size_t");
}

int ca_layout_spread(unsigned axes, const size_t sizes[4], clattn_layout *layout)
{
    size_t step = 1;
    int fits = 1;

    memset(layout, 0, sizeof *layout);
    for (size_t axis = 4; axis-- > 0;)
        if (axes & 1u << axis)
            fits &= pack_axis(&layout->stride[axis], sizes[axis], &step);
    return fits;
}

clattn_status clattn_layout_broadcast(const clattn_problem *problem, size_t rank,
                                      const size_t *shape, clattn_layout *layout)
{
    unsigned axes = 0;

    if (layout)
        memset(layout, 0, sizeof *layout);
    if (!problem || !layout || rank > 4 || (!shape && rank > 0))
        return ca_refuse(CLATTN_INVALID_ARGUMENT,
                         "problem, layout or shape is null, or rank is over 4");
    size_t sizes[4] = {problem->batch, problem->heads, problem->seq_q, problem->seq_kv};
    for (size_t n = 0; n < rank; n++) {
        const size_t axis = 4 - rank + n;
        if (axis == 3 && shape[n] == problem->mask_keys)
            sizes[axis] = shape[n];
        if (shape[n] != sizes[axis] && shape[n] != 1)
            return ca_refuse(CLATTN_INVALID_ARGUMENT,
                             "shape[%zu] is %zu but must be 1 or the problem's %zu", n, shape[n],
                             sizes[axis]);
        if (shape[n] != 1)
            axes |= 1u << axis;
    }
    if (ca_layout_spread(axes, sizes, layout))
        return CLATTN_SUCCESS;
    memset(layout, 0, sizeof *layout);
    return ca_refuse(CLATTN_INVALID_ARGUMENT, "the product of shape exceeds a size_t");
}

int ca_layout_span(const clattn_layout *layout, const size_t sizes[4], size_t *span)
{
    size_t last = 0;

    *span = 0;
    for (int n = 0; n < 4; n++)
        if (sizes[n] == 0)
            return 1;
    for (int n = 0; n < 4; n++) {
        size_t reach;
        if (!ca_multiply(layout->stride[n], sizes[n] - 1, &reach) || reach > CA_MAX_ELEMENTS - last)
            return 0;
        last += reach;
    }
    *span = last + 1;
    return 1;
}

clattn_layout ca_layout_explicit(const clattn_layout *layout, const size_t sizes[4])
{
    clattn_layout packed = *layout;

    if (!(layout->stride[0] | layout->stride[1] | layout->stride[2] | layout->stride[3]))
        ca_layout_pack("bhsd", sizes, &packed);
    return packed;
}

int ca_layout_in_pieces(const clattn_layout *layout, size_t along, size_t piece)
{
    for (size_t n = 0; n < 4; n++)
        if (n == along ? layout->stride[n] != 1 : layout->stride[n] % piece != 0)
            return 0;
    return 1;
}

int ca_layout_holds(const clattn_layout *layout, const size_t sizes[4], size_t n)
{
    size_t limit = SIZE_MAX; /* the axes with longer steps are done */

    for (int round = 0; round < 4; round++) {
        size_t step = 0, size = 1;
        for (int axis = 0; axis < 4; axis++)
            if (sizes[axis] > 1 && layout->stride[axis] > step && layout->stride[axis] < limit) {
                step = layout->stride[axis];
                size = sizes[axis];
            }
        if (step == 0)
            break;
        const size_t index = n / step;
        n -= (index < size ? index : size - 1) * step;
        limit = step;
    }
    return n == 0;
}

int ca_layout_injective(const clattn_layout *layout, const size_t sizes[4])
{
    size_t reach = 0; /* the largest index of the axes so far */
    unsigned done = 0;

    for (int n = 0; n < 4; n++)
        if (sizes[n] == 0)
            return 1;
    for (int round = 0; round < 4; round++) {
        int next = -1;
        for (int n = 0; n < 4; n++)
            if (!(done & 1u << n) && (next < 0 || layout->stride[n] < layout->stride[next]))
                next = n;
        done |= 1u << next;
        if (sizes[next] == 1)
            continue;
        if (layout->stride[next] <= reach)
            return 0;
        reach += layout->stride[next] * (sizes[next] - 1);
    }
    return 1;
}
