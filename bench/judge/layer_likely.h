/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a multi-head layer, or of a part of it, with bounds that are likely to hold instead of certain: for layers
 * so large that errors at their worst (layer.h), which go through several products, would excuse any result.
 *
 * The layer is computed twice, the second time with the rounding errors of the arithmetic put in at random. A result
 * may be off by ten times the root of the mean square that the two differ by, in its row and in the tensor. */
#ifndef CLATTN_JUDGE_LAYER_LIKELY_H
#define CLATTN_JUDGE_LAYER_LIKELY_H

#include "bench/judge/layer.h"

struct layer_answers {
    struct layer_answer {
        enum layer_tensor id;
        size_t place; /* Of the element in its tensor. */
        struct bounded want;
    } * list; /* Owned. */
    size_t count;
    bool made;
};

/* whole: all of y, or of backward of all gradients of what a layer reads and of its parameters. Else y, dx and the
 * gradients of context and values in the last batch, and the parameters' gradients of the first kv head in all
 * batches. The layer's attention has the operation. Sets `made`; false without memory. */
bool layer_answers_make(const clattn_multihead *layer, const struct layer_inputs *in,
                        enum precision precision, bool whole, struct layer_answers *answers);

#endif
