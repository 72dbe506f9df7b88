/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer/peer_data.h"
#include "bench/peer/peer_options.h"
#include "bench/peer/peer_tensors.h"
#include "os/environment.h"
#include "os/file.h"
#include "os/temporary.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const dtype_names[] = {
    [CLATTN_F32] = "f32", [CLATTN_F16] = "f16", [CLATTN_BF16] = "bf16"};

/* ---- the problem ----------------------------------------------------------------------------- */

static json_t *diagonal_json(const clattn_problem *p)
{
    if (p->diagonal == CLATTN_OFFSET)
        return json_integer(p->diagonal_offset);
    return json_string(p->diagonal == CLATTN_TOP_LEFT ? "tl" : "br");
}

static json_t *size_json(size_t size)
{
    return json_integer((json_int_t)size);
}

/* The name of the format in which k, v or o is stored. */
static const char *stored_name(const clattn_problem *p, enum ca_argument argument)
{
    const clattn_cache cache = ca_problem_cache(p, argument);

    return cache != CLATTN_CACHE_PLAIN ? ca_format_of(cache)->name
                                       : dtype_names[ca_problem_dtype(p, argument)];
}

/* The name of a function of the library; "" if there is none. */
static json_t *function_json(const clattn_function *function)
{
    return json_string(function != NULL ? clattn_function_name(function) : "");
}

/* The scale and the options of serving and block lists are always there, with their defaults. A projection's sizes have the
 * names of those of attention: "heads" are those of y, "kv_heads" those of x. */
json_t *peer_data_fields(const struct job *job)
{
    static const char *const sources[] = {"self", "cross", "separate"};
    const clattn_problem *p = &job->problem;
    const clattn_projection_problem *y = &p->projection;
    const clattn_multihead *l = &job->layer;
    const enum job_kind kind = job_kind(job);
    const bool is_projection = kind == JOB_PROJECTION, is_layer = job->is_layer;
    const bool attends = is_layer || kind == JOB_FORWARD || kind == JOB_BACKWARD;
    const double scale = isnan(p->scale) ? 1.0 / sqrt((double)p->dim_qk) : (double)p->scale;
    const struct {
        bool given;
        const char *name;
        json_t *value;
    } list[] = {
        {true, "operation", json_string(job_kind_name(kind))},
        {true, "dtype", json_string(dtype_names[ca_problem_own_dtype(p)])},
        {true, "batch", size_json(is_projection ? y->batch : p->batch)},
        {true, "heads", size_json(is_projection ? y->y_heads : p->heads)},
        {true, "kv_heads", size_json(is_projection ? y->x_heads : p->kv_heads)},
        {true, "seq_q", size_json(is_projection ? y->rows : p->seq_q)},
        {true, "seq_kv", size_json(is_projection ? 1 : p->seq_kv)},
        {true, "dim_qk", size_json(is_projection ? y->x_dim : p->dim_qk)},
        {true, "dim_v", size_json(is_projection ? y->y_dim : p->dim_v)},
        {true, "scale", json_real(attends ? scale : 1.0)},
        {true, "softcap", json_real((double)p->softcap)},
        {true, "causal", json_boolean(p->causal != 0)},
        {true, "diagonal", diagonal_json(p)},
        {true, "window_left", json_integer((json_int_t)p->window_left)},
        {true, "window_right", json_integer((json_int_t)p->window_right)},
        {true, "bias", json_boolean(is_projection ? y->bias != 0 : p->bias != 0)},
        {true, "mask", json_boolean(p->mask != 0)},
        {attends, "k_dtype", json_string(stored_name(p, CA_K))},
        {attends, "v_dtype", json_string(stored_name(p, CA_V))},
        {attends, "o_dtype", json_string(stored_name(p, CA_O))},
        {attends, "total_q", size_json(p->total_q)},
        {attends, "total_kv", size_json(p->total_kv)},
        {attends, "page_size", size_json(p->page_size)},
        {attends, "block_q", size_json(p->block_q)},
        {attends, "block_kv", size_json(p->block_kv)},
        {attends, "score_function", function_json(p->score_function)},
        {attends, "mask_function", function_json(p->mask_function)},
        {attends, "mask_keys", size_json(p->mask_keys)},
        {attends, "topk", size_json(p->topk)},
        {is_layer, "model", size_json(l->model)},
        {is_layer, "context_model", size_json(l->context_model)},
        {is_layer, "values_model", size_json(l->values_model)},
        {is_layer, "output", size_json(l->output)},
        {is_layer, "source", json_string(is_layer ? sources[l->source] : "")},
        {is_layer, "biases", json_boolean(l->qkv_biases != 0)},
        {is_layer, "output_bias", json_boolean(l->output_bias != 0)},
    };
    json_t *fields = peer_flags(p);
    bool ok = fields != NULL;

    for (size_t n = 0; n < sizeof list / sizeof *list; n++)
        if (list[n].given)
            ok = json_object_set_new(fields, list[n].name, list[n].value) == 0 && ok;
        else
            json_decref(list[n].value);
    if (ok)
        return fields;
    json_decref(fields);
    return NULL;
}

/* ---- its tensors in a file ------------------------------------------------------------------- */

double peer_data_bytes(const struct job *job)
{
    struct peer_tensor tensors[PEER_MOST_TENSORS];
    const size_t count = peer_tensors_list(job, tensors);
    double bytes = 0.0;

    for (size_t n = 0; n < count; n++)
        bytes += (double)tensors[n].bytes;
    return bytes;
}

size_t peer_data_result_bytes(const struct job *job)
{
    struct peer_result results[PEER_MOST_RESULTS];
    const size_t count = peer_results_list(job, results);
    size_t bytes = 0;

    for (size_t n = 0; n < count; n++)
        bytes += peer_result_bytes(&results[n]);
    return bytes;
}

/* The header's text, padded with blanks so that the data is aligned; NULL without memory. */
static char *make_header(const struct peer_tensor *tensors, size_t count)
{
    json_t *header = json_object();
    size_t begin = 0;

    for (size_t n = 0; n < count; n++) {
        const struct peer_tensor *t = &tensors[n];
        json_t *shape = json_array();
        for (size_t r = 0; r < t->rank; r++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[r]));
        json_object_set_new(header, t->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape,
                                      "data_offsets", (json_int_t)begin,
                                      (json_int_t)(begin + t->bytes)));
        begin += t->bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    const size_t length = text != NULL ? strlen(text) : 0, padded = (length + 7) / 8 * 8;
    char *whole = text != NULL ? malloc(padded + 1) : NULL;
    if (whole != NULL)
        snprintf(whole, padded + 1, "%-*s", (int)padded, text);
    free(text);
    return whole;
}

static void write_header(FILE *file, const char *header)
{
    unsigned char length[8];

    for (int n = 0; n < 8; n++)
        length[n] = (unsigned char)((uint64_t)strlen(header) >> 8 * n);
    fwrite(length, 1, sizeof length, file);
    fwrite(header, 1, strlen(header), file);
}

/* The elements along the last dimension from the one at `from`; a BOOL is 0 or 1. */
static void write_row(FILE *file, const struct peer_tensor *t, const unsigned char *from)
{
    const struct view *view = &t->view;

    for (size_t d = 0; d < view->size[3]; d++, from += view->stride[3] * view->element)
        if (t->input == INPUT_MASK)
            putc(*from != 0, file);
        else
            fwrite(from, view->element, 1, file);
}

static void write_tensor(FILE *file, const struct peer_tensor *t,
                         const struct attention_case *attention)
{
    const unsigned char *data = attention->in[t->input].data;
    const struct view *view = &t->view;

    for (size_t b = 0; b < view->size[0]; b++)
        for (size_t h = 0; h < view->size[1]; h++)
            for (size_t s = 0; s < view->size[2] && !ferror(file); s++) {
                const unsigned char *from =
                    data + (t->offset + view_place(view, b, h, s, 0)) * view->element;
                if (view->stride[3] == 1 && t->input != INPUT_MASK)
                    fwrite(from, view->element, view->size[3], file);
                else
                    write_row(file, t, from);
            }
}

bool peer_data_write(const char *path, const struct attention_case *attention, struct message *why)
{
    struct peer_tensor tensors[PEER_MOST_TENSORS];
    const size_t count = peer_tensors_list(&attention->job, tensors);
    char *header = make_header(tensors, count);

    if (header == NULL)
        return message_set(why, "got no tensors: no memory to describe them");
    FILE *file = ca_stream_open(path, "wb");
    if (file == NULL) {
        free(header);
        return message_set(why, "got no tensors: %s cannot be written: %s", path, strerror(errno));
    }
    write_header(file, header);
    for (size_t n = 0; n < count && !ferror(file); n++)
        write_tensor(file, &tensors[n], attention);
    free(header);
    const bool whole = !ferror(file);
    const int reason = errno; /* errno of the write that failed */
    if (fclose(file) == 0 && whole)
        return true;
    return message_set(why, "got no tensors: %s cannot be filled: %s", path,
                       strerror(whole ? errno : reason));
}

/* ---- files ----------------------------------------------------------------------------------- */

bool peer_data_file(char path[PEER_DATA_PATH], double bytes, struct message *why)
{
    /* a folder in memory, of which the peer needs a share as well */
    static const char memory[] = "/dev/shm";
    const bool in_memory = ca_folder_room(memory) >= 8.0 * bytes && ca_file_is_writable(memory);
    const char *folder = in_memory ? memory : ca_temporary_place();
    char name[48];

    path[0] = '\0';
    if (!in_memory && ca_folder_room(folder) < bytes)
        return message_set(why,
                           "got no file: %s has no room for %.3g MB; TMPDIR may name another "
                           "folder",
                           folder, 1e-6 * bytes);
    snprintf(name, sizeof name, PEER_DATA_PREFIX "%ld-", ca_process_number());
    return ca_temporary_file(path, PEER_DATA_PATH, folder, name) ||
           message_set(why, "got no file: none can be made in %.200s: %s", folder, strerror(errno));
}

/* The next elements of the file, along the last dimension. */
static bool read_row(FILE *file, const struct view *view, unsigned char *to)
{
    if (view->stride[3] == 1)
        return fread(to, view->element, view->size[3], file) == view->size[3];
    for (size_t d = 0; d < view->size[3]; d++)
        if (fread(to + d * view->stride[3] * view->element, view->element, 1, file) != 1)
            return false;
    return true;
}

static bool read_rows(FILE *file, const struct view *view, unsigned char *to)
{
    for (size_t b = 0; b < view->size[0]; b++)
        for (size_t h = 0; h < view->size[1]; h++)
            for (size_t s = 0; s < view->size[2]; s++)
                if (!read_row(file, view, to + view_place(view, b, h, s, 0) * view->element))
                    return false;
    return true;
}

/* Some share a tensor. */
static bool open_output(const struct job *job, enum output output, struct results *results,
                        struct message *why)
{
    const struct view view = case_output_view(job, output);

    if (results->out[output] == NULL)
        results->out[output] = case_allocate(view_extent_bytes(&view), 1, why);
    return results->out[output] != NULL;
}

static bool read_tensors(FILE *file, const struct job *job, struct results *results,
                         struct message *why)
{
    struct peer_result list[PEER_MOST_RESULTS];
    const size_t count = peer_results_list(job, list);

    for (size_t n = 0; n < count; n++) {
        const struct peer_result *result = &list[n];
        if (!open_output(job, result->output, results, why))
            return false;
        unsigned char *to = results->out[result->output];
        if (!read_rows(file, &result->view, to + result->offset * result->view.element))
            return message_set(why, "gave a result that cannot be read");
    }
    return true;
}

bool peer_data_read(const char *path, const struct job *job, struct results *results,
                    struct message *why)
{
    const size_t wanted = peer_data_result_bytes(job);
    struct ca_file_facts facts;

    *results = (struct results){{NULL}};
    /* Its kind before it is opened: that could wait for ever. */
    if (!ca_file_follow(path, &facts) || facts.kind != CA_FILE_REGULAR)
        return message_set(why, "left no file for its result");
    if (facts.bytes != wanted)
        return message_set(why, "gave a result of %llu bytes, not %zu", facts.bytes, wanted);
    FILE *file = ca_stream_open(path, "rb");
    if (file == NULL)
        return message_set(why, "gave a result that cannot be read");
    const bool ok = read_tensors(file, job, results, why);
    fclose(file);
    if (!ok)
        results_release(results);
    return ok;
}
