/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cases/view.h"
#include "bench/judge/values.h"

#include <string.h>

void view_find_extent(struct view *view)
{
    view->extent = 1;
    for (int n = 0; n < 4; n++)
        view->extent += view->size[n] > 0 ? (view->size[n] - 1) * view->stride[n] : 0;
    for (int n = 0; n < 4; n++)
        view->extent = view->size[n] > 0 ? view->extent : 0;
}

struct view view_make(clattn_dtype dtype, const size_t size[4], const clattn_layout *layout)
{
    struct view view = {.dtype = dtype, .element = value_bytes(dtype)};
    bool packed = true;
    size_t step = 1;

    memcpy(view.size, size, sizeof view.size);
    memcpy(view.stride, layout->stride, sizeof view.stride);
    for (int n = 0; n < 4; n++)
        packed = packed && layout->stride[n] == 0;
    for (int n = 3; n >= 0; n--) {
        if (packed)
            view.stride[n] = step;
        step *= size[n];
    }
    view_find_extent(&view);
    return view;
}

size_t view_place(const struct view *view, size_t b, size_t h, size_t s, size_t d)
{
    return b * view->stride[0] + h * view->stride[1] + s * view->stride[2] + d * view->stride[3];
}

double view_elements_bytes(const struct view *view, double elements)
{
    return elements / (view->cache == CLATTN_CACHE_PLAIN ? 1 : VALUE_BLOCK) * (double)view->element;
}

size_t view_extent_bytes(const struct view *view)
{
    return view->extent / (view->cache == CLATTN_CACHE_PLAIN ? 1 : VALUE_BLOCK) * view->element;
}
