/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a layer, and counts its floating-point operations. */
#include "base/structs.h"
#include "multihead/multihead.h"
#include "problem/layout.h"

#include <string.h>

void clattn_multihead_init(clattn_multihead *layer)
{
    memset(layer, 0, sizeof *layer);
    layer->struct_size = sizeof *layer;
    clattn_problem_init(&layer->attention);
    layer->model = layer->context_model = layer->values_model = layer->output = 1;
}

struct ca_columns ca_layer_columns(const clattn_multihead *layer)
{
    const clattn_problem *p = &layer->attention;
    struct ca_columns columns = {p->heads * p->dim_qk, p->kv_heads * p->dim_qk,
                                 p->kv_heads * p->dim_v, 0};

    columns.all = columns.q + columns.k + columns.v;
    return columns;
}

size_t ca_layer_rows(const clattn_multihead *layer, int of_keys)
{
    return layer->attention.batch * (of_keys ? layer->attention.seq_kv : layer->attention.seq_q);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static clattn_status check_enums(const clattn_multihead *layer, char *reason, size_t bytes)
{
    const struct {
        const char *name;
        int value, last;
    } enums[] = {
        {"operation", (int)layer->attention.operation, CLATTN_BACKWARD},
        {"source", (int)layer->source, CLATTN_SEPARATE},
        {"order", (int)layer->order, CLATTN_IN_OUT},
        {"weights", (int)layer->weights, CLATTN_WEIGHTS_MEAN},
    };

    for (size_t n = 0; n < sizeof enums / sizeof *enums; n++) {
        if (enums[n].value < 0 || enums[n].value > enums[n].last) {
            ca_reason(reason, bytes, "%s is %d but must be from 0 to %d", enums[n].name,
                      enums[n].value, enums[n].last);
            return CLATTN_INVALID_PROBLEM;
        }
    }
    return CLATTN_SUCCESS;
}

static int any_layout(const clattn_problem *p)
{
    struct ca_tensor tensors[CA_WORKSPACE];
    clattn_problem copy = *p;

    ca_problem_tensors(p, tensors);
    for (unsigned n = 0; n < CA_WORKSPACE; n++) {
        const clattn_layout *layout = ca_tensor_layout(&copy, &tensors[n]);
        for (int axis = 0; layout && axis < 4; axis++)
            if (layout->stride[axis] != 0)
                return 1;
    }
    return 0;
}

static clattn_status check_rules(const clattn_multihead *layer, char *reason, size_t bytes)
{
    const clattn_problem *p = &layer->attention;
    const struct {
        const char *sentence;
        int broken;
    } rules[] = {
        {"layouts of q, k, v, o and their gradients must be zeros in a layer", any_layout(p)},
        {"lse must be 0 in a layer: training keeps it", p->lse != 0},
        {"key_sums must be 0 in a layer: its caller has no cache of keys", p->key_sums != 0},
        {"topk must be 0 in a layer: its caller chooses no keys", p->topk != 0},
        {"int8 must be 0 in a layer: its products are of standard precision", p->int8 != 0},
        {"dlse must be 0 in a layer: its caller has no lse", p->dlse != 0},
        {"k_cache, v_cache and o_f32 must be 0 in a layer: it makes k, v and o itself",
         p->k_cache || p->v_cache || p->o_f32},
        {"scores must be none in a layer: weights= hands them out",
         p->scores != CLATTN_SCORES_NONE},
        {"total_q and total_kv must be 0 in a layer: its batches are padded",
         p->total_q != 0 || p->total_kv != 0},
        {"weights are an output of forward only",
         layer->weights != CLATTN_WEIGHTS_NONE && p->operation != CLATTN_FORWARD},
        {"seq_kv must be seq_q in self-attention",
         layer->source == CLATTN_SELF && p->seq_kv != p->seq_q},
        {"context_model must be model in self-attention",
         layer->source == CLATTN_SELF && layer->context_model != layer->model},
        {"values_model must be context_model unless values are separate",
         layer->source != CLATTN_SEPARATE && layer->values_model != layer->context_model},
        {"packed weights need the same model, context_model and values_model",
         layer->packed &&
             (layer->context_model != layer->model || layer->values_model != layer->model)},
    };

    for (size_t n = 0; n < sizeof rules / sizeof *rules; n++) {
        if (rules[n].broken) {
            ca_reason(reason, bytes, "%s", rules[n].sentence);
            return CLATTN_INVALID_PROBLEM;
        }
    }
    return CLATTN_SUCCESS;
}

static clattn_status check_sizes(const clattn_multihead *layer, char *reason, size_t bytes)
{
    const clattn_problem *p = &layer->attention;
    const int mean = layer->weights == CLATTN_WEIGHTS_MEAN;
    const struct {
        const char *name;
        size_t a, b; /* a product */
        size_t least;
    } sizes[] = {
        {"model", layer->model, 1, 1},
        {"context_model", layer->context_model, 1, 1},
        {"values_model", layer->values_model, 1, 1},
        {"output", layer->output, 1, 1},
        {"batch * seq_q", p->batch, p->seq_q, 0},
        {"batch * seq_kv", p->batch, p->seq_kv, 0},
        {"heads * dim_qk", p->heads, p->dim_qk, 1},
        {"kv_heads * dim_v", p->kv_heads, p->dim_v, 1},
        {"heads * dim_v", p->heads, p->dim_v, 1},
        {"seq_q * seq_kv", mean ? p->seq_q : 0, p->seq_kv, 0},
    };

    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        size_t product;
        if (!ca_multiply(sizes[n].a, sizes[n].b, &product) || product < sizes[n].least ||
            product > CA_MAX_SIZE) {
            ca_reason(reason, bytes, "%s must be from %zu to %zu", sizes[n].name, sizes[n].least,
                      CA_MAX_SIZE);
            return CLATTN_INVALID_PROBLEM;
        }
    }
    return CLATTN_SUCCESS;
}

/* Checks the steps: the only errors left are tensors whose extents are too large. */
static clattn_status check_steps(const clattn_multihead *layer, char *reason, size_t bytes)
{
    char why[CA_REASON_BYTES];
    struct ca_steps steps;

    ca_layer_steps(layer, &steps);
    for (size_t n = 0; n < steps.count; n++) {
        const clattn_status status = clattn_problem_check(&steps.list[n].problem, why, sizeof why);
        if (status != CLATTN_SUCCESS) {
            ca_reason(reason, bytes, "in step '%s' of the layer %s", steps.list[n].name, why);
            return status;
        }
    }
    return CLATTN_SUCCESS;
}

static clattn_status check(const clattn_multihead *layer, char *reason, size_t reason_bytes)
{
    clattn_status status;

    ca_reason(reason, reason_bytes, "%s", "");
    if (!layer || layer->struct_size != sizeof *layer) {
        ca_reason(reason, reason_bytes,
                  "layer is null or its struct_size is not that of this library");
        return CLATTN_INVALID_ARGUMENT;
    }
    const size_t room = sizeof layer->reserved / sizeof *layer->reserved;
    const size_t used = ca_reserved_used(layer->reserved, room);
    if (used < room) {
        ca_reason(reason, reason_bytes,
                  "layer->reserved[%zu] is not 0: it asks for what clattn %s does not know", used,
                  CLATTN_VERSION_STRING);
        return CLATTN_INVALID_ARGUMENT;
    }
    if (layer->attention.struct_size == sizeof layer->attention &&
        (status = check_enums(layer, reason, reason_bytes)) != CLATTN_SUCCESS)
        return status;
    if ((status = clattn_problem_check(&layer->attention, reason, reason_bytes)) !=
            CLATTN_SUCCESS ||
        (status = check_rules(layer, reason, reason_bytes)) != CLATTN_SUCCESS ||
        (status = check_sizes(layer, reason, reason_bytes)) != CLATTN_SUCCESS)
        return status;
    return check_steps(layer, reason, reason_bytes);
}

clattn_status clattn_multihead_check(const clattn_multihead *layer, char *reason,
                                     size_t reason_bytes)
{
    char why[CA_LOG_BYTES];

    return ca_give_reason(check(layer, why, sizeof why), why, reason, reason_bytes);
}

/* ---- operations ------------------------------------------------------------------------------ */

double clattn_multihead_flops(const clattn_multihead *layer)
{
    if (clattn_multihead_check(layer, NULL, 0) != CLATTN_SUCCESS)
        return 0.0;
    const clattn_problem *p = &layer->attention;
    const struct ca_columns columns = ca_layer_columns(layer);
    const double queries = (double)ca_layer_rows(layer, 0), keys = (double)ca_layer_rows(layer, 1);
    const double merged = (double)p->heads * (double)p->dim_v;
    const double projections = 2.0 * (queries * (double)layer->model * (double)columns.q +
                                      keys * ((double)layer->context_model * (double)columns.k +
                                              (double)layer->values_model * (double)columns.v) +
                                      queries * merged * (double)layer->output);

    /* In backward each product has two products: the gradients of both factors. */
    return clattn_problem_flops(p) + (p->operation == CLATTN_BACKWARD ? 2.0 : 1.0) * projections;
}
