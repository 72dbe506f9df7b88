/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a layer: all of a small one, else a part (bench/judge/layer.h). */
#include "bench/cases/case_layer.h"
#include "bench/judge/values.h"
#include "bench/verify/sample.h"

#include <stdlib.h>

#define WHOLE_FLOPS 4e8 /* Up to here all of a layer is computed. */

static enum output output_of(enum layer_tensor id)
{
    return id == LAYER_Y ? OUTPUT_Y : (enum output)(id - LAYER_DX + OUTPUT_DX);
}

static struct layer_inputs inputs_of(const struct attention_case *attention)
{
    struct layer_inputs in = {.options = sample_inputs(attention)};

    for (enum input n = INPUT_X; n <= INPUT_DY; n++)
        in.stored[layer_tensor_of(n)] = attention->in[n].data;
    in.stored[LAYER_BIAS] = attention->in[INPUT_BIAS].data;
    in.stored[LAYER_SLOPES] = attention->in[INPUT_SLOPES].data;
    in.stored[LAYER_SINKS] = attention->in[INPUT_SINKS].data;
    return in;
}

bool check_layer(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why)
{
    const struct layer_inputs in = inputs_of(attention);
    struct layer_answers own = {.list = NULL};
    const enum precision kept =
        precision == PRECISION_PEER ? PRECISION_SINGLE : precision; /* alike */
    struct layer_answers *answers = attention->answers != NULL ? &attention->answers[kept] : &own;
    const bool ok = answers->made ||
                    layer_answers_make(&attention->job.layer, &in, precision,
                                       job_flops(&attention->job) <= WHOLE_FLOPS, answers) ||
                    message_set(why, "no memory for the right results of a layer");

    for (size_t n = 0; ok && n < answers->count; n++) {
        const struct layer_answer *answer = &answers->list[n];
        const void *got = results->out[output_of(answer->id)];
        if (got != NULL)
            worst_add(worst,
                      value_get(layer_dtype(&attention->job.layer, answer->id), got, answer->place),
                      answer->want.value, answer->want.bound);
    }
    free(own.list);
    return ok;
}
