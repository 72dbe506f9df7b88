/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mpi/sharded.h"
#include "bench/timing/case_forward.h"

#include <stdlib.h>
#include <string.h>

/* ---- modes ----------------------------------------------------------------------------------- */

bool sharded_mode(const char *name, clattn_mpi_options *options)
{
    static const struct {
        const char *name;
        clattn_mpi_mode mode;
    } known[] = {{"auto", CLATTN_MPI_AUTO},
                 {"ring", CLATTN_MPI_RING},
                 {"heads", CLATTN_MPI_HEADS},
                 {"split-kv", CLATTN_MPI_SPLIT_KV}};
    static const char both[] = "heads-ring:";

    options->heads_ranks = 0;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (strcmp(known[n].name, name) == 0) {
            options->mode = known[n].mode;
            return true;
        }
    options->mode = CLATTN_MPI_HEADS_RING;
    options->heads_ranks = strncmp(name, both, strlen(both)) == 0 ? atoi(name + strlen(both)) : 0;
    return options->heads_ranks > 0;
}

/* ---- rows of tensors ------------------------------------------------------------------------- */

/* The ways to divide a tensor among ranks: not at all, by rows of queries, or by rows of keys. */
enum cut { OF_ALL, OF_QUERIES, OF_KEYS };

static enum cut input_cut(enum input input)
{
    switch (input) {
    case INPUT_Q:
    case INPUT_O:
    case INPUT_LSE:
    case INPUT_DO:
    case INPUT_BIAS:
    case INPUT_MASK:
        return OF_QUERIES;
    case INPUT_K:
    case INPUT_V:
        return OF_KEYS;
    default:
        return OF_ALL;
    }
}

static enum cut output_cut(enum output output)
{
    switch (output) {
    case OUTPUT_O:
    case OUTPUT_LSE:
    case OUTPUT_DQ:
        return OF_QUERIES;
    case OUTPUT_DK:
    case OUTPUT_DV:
        return OF_KEYS;
    default:
        return OF_ALL;
    }
}

/* Row n of those that a rank has is row rows_at() of the whole. */
struct rows {
    size_t first[2], count[2];
};

static struct rows rows_of(const struct sharded *s, int rank, enum cut cut)
{
    clattn_mpi_shard shard = {.struct_size = sizeof shard};
    struct rows rows;

    (void)clattn_mpi_plan_shard(s->plan, rank, &shard);
    memcpy(rows.first, cut == OF_KEYS ? shard.kv_first : shard.q_first, sizeof rows.first);
    memcpy(rows.count, cut == OF_KEYS ? shard.kv_count : shard.q_count, sizeof rows.count);
    return rows;
}

static size_t rows_count(const struct rows *rows)
{
    return rows->count[0] + rows->count[1];
}

static size_t rows_at(const struct rows *rows, size_t n)
{
    return n < rows->count[0] ? rows->first[0] + n : rows->first[1] + n - rows->count[0];
}

/* The elements along a dimension; a dimension of stride 0 counts once, whatever its size. */
static size_t steps(const struct view *view, int dimension)
{
    return view->stride[dimension] == 0 && view->size[dimension] > 0 ? 1 : view->size[dimension];
}

static size_t row_steps(const struct view *view, size_t rows)
{
    return view->stride[2] == 0 && rows > 0 ? 1 : rows;
}

/* Bytes of so many rows, one behind the other. */
static size_t packed_bytes(const struct view *view, size_t rows)
{
    return steps(view, 0) * steps(view, 1) * row_steps(view, rows) * steps(view, 3) * view->element;
}

/* Copies such rows between the tensor and where they lie packed. */
static void copy_rows(const struct view *view, void *data, const struct rows *rows, void *packed,
                      bool pack)
{
    const size_t bytes = view->element;
    char *at = packed;

    for (size_t b = 0; b < steps(view, 0); b++)
        for (size_t h = 0; h < steps(view, 1); h++)
            for (size_t n = 0; n < row_steps(view, rows_count(rows)); n++)
                for (size_t d = 0; d < steps(view, 3); d++, at += bytes) {
                    char *element =
                        (char *)data + bytes * view_place(view, b, h, rows_at(rows, n), d);
                    memcpy(pack ? at : element, pack ? element : at, bytes);
                }
}

/* The tensor of this rank: as many rows, with the steps of the local problem. */
static struct view local_view(const struct view *whole, const struct view *local, size_t rows)
{
    struct view view = *whole;

    memcpy(view.stride, local->stride, sizeof view.stride);
    view.size[2] = rows;
    view.extent = 1;
    for (int n = 0; n < 4; n++)
        view.extent += view.size[n] > 0 ? (view.size[n] - 1) * view.stride[n] : 0;
    for (int n = 0; n < 4; n++)
        view.extent = view.size[n] > 0 ? view.extent : 0;
    return view;
}

static struct view view_of(const struct sharded *s, bool output, int n, enum cut cut)
{
    const struct view whole = output ? case_output_view(&s->whole, (enum output)n)
                                     : case_input_view(&s->whole, (enum input)n);
    const struct view local = output ? case_output_view(&s->local, (enum output)n)
                                     : case_input_view(&s->local, (enum input)n);
    const struct rows rows = rows_of(s, s->ranks->rank, cut);

    return cut == OF_ALL ? whole : local_view(&whole, &local, rows_count(&rows));
}

/* ---- to the ranks ---------------------------------------------------------------------------- */

static bool make_buffer(struct sharded *s, size_t bytes, void *data, clattn_buffer *buffer,
                        struct message *why)
{
    const cl_mem_flags flags = CL_MEM_READ_WRITE | (data != NULL ? CL_MEM_COPY_HOST_PTR : 0);
    cl_int err;

    if (bytes == 0)
        return true;
    buffer->buffer =
        clCreateBuffer(clattn_context_opencl(s->target->context), flags, bytes, data, &err);
    return err == CL_SUCCESS ||
           message_set(why, "clCreateBuffer of %zu bytes failed with %d", bytes, err);
}

/* Rank 0's rows for the others, and its own in `mine`. */
static bool send_rows(const struct sharded *s, const struct view *whole, const void *data,
                      enum cut cut, void *mine, struct message *why)
{
    for (int rank = s->ranks->count - 1; rank >= 0; rank--) {
        const struct rows rows = rows_of(s, rank, cut);
        const size_t bytes = packed_bytes(whole, rows_count(&rows));
        char *packed = rank == 0 ? mine : case_allocate(bytes, 1, why);
        if (packed == NULL)
            return false;
        copy_rows(whole, (void *)data, &rows, packed, true);
        if (rank > 0) {
            ranks_send(rank, packed, bytes);
            free(packed);
        }
    }
    return true;
}

/* Copies this rank's part of an input to its buffer. */
static bool bring_input(struct sharded *s, const struct attention_case *attention, int n,
                        struct message *why)
{
    const enum cut cut = input_cut((enum input)n);
    const struct view whole = case_input_view(&s->whole, (enum input)n);
    const struct view local = view_of(s, false, n, cut);
    const struct rows rows = rows_of(s, s->ranks->rank, cut), all = {{0}, {rows_count(&rows)}};
    const size_t bytes = cut == OF_ALL ? 0 : packed_bytes(&whole, rows_count(&rows));
    char *data = case_allocate(view_extent_bytes(&local), 1, why);
    char *packed = case_allocate(bytes, 1, why);
    bool ok = ranks_agree(s->ranks, data != NULL && packed != NULL, why);

    if (ok && cut == OF_ALL) {
        if (s->ranks->rank == 0)
            memcpy(data, attention->in[n].data, view_extent_bytes(&local));
        ranks_copy(data, view_extent_bytes(&local));
    } else if (ok) {
        memset(data, 0, view_extent_bytes(&local));
        if (s->ranks->rank > 0)
            ranks_receive(0, packed, bytes);
        else if (!send_rows(s, &whole, attention->in[n].data, cut, packed, why))
            MPI_Abort(MPI_COMM_WORLD, 1); /* other ranks wait for rows */
        copy_rows(&local, data, &all, packed, false);
    }
    ok = ok && make_buffer(s, view_extent_bytes(&local), data, &s->set.in[n], why);
    free(packed);
    free(data);
    return ranks_agree(s->ranks, ok, why);
}

static bool make_output(struct sharded *s, int n, struct message *why)
{
    const struct view view = view_of(s, true, n, output_cut((enum output)n));

    return make_buffer(s, view_extent_bytes(&view), NULL, &s->set.out[n], why);
}

static bool make_tensors(struct sharded *s, const struct attention_case *attention,
                         struct message *why)
{
    bool ok = true;

    for (int n = 0; n < INPUT_COUNT; n++)
        if (case_has_input(&s->whole, (enum input)n) && !bring_input(s, attention, n, why))
            return false;
    for (int n = 0; n < OUTPUT_COUNT; n++)
        ok = ok && (!case_has_output(&s->whole, (enum output)n) || make_output(s, n, why));
    return ranks_agree(s->ranks, ok, why);
}

/* ---- opening and executing ------------------------------------------------------------------- */

bool sharded_open(struct sharded *s, const struct ranks *ranks, const struct target *target,
                  const struct job *whole, const struct attention_case *attention,
                  const clattn_mpi_options *options, clattn_status *status, struct message *why)
{
    *s = (struct sharded){.ranks = ranks, .target = target, .whole = *whole, .local = *whole};
    const clattn_status made =
        clattn_mpi_plan_create(MPI_COMM_WORLD, target->context, &whole->problem, options, &s->plan);
    if (status != NULL)
        *status = made;
    if (made != CLATTN_SUCCESS)
        return message_set(why, "%s: %s", clattn_status_string(made), target->log.text);
    (void)clattn_mpi_plan_problem(s->plan, &s->local.problem);
    if (make_tensors(s, attention, why))
        return true;
    sharded_close(s);
    return false;
}

static void release(const clattn_buffer *buffers, size_t count)
{
    for (size_t n = 0; n < count; n++)
        if (buffers[n].buffer != NULL)
            clReleaseMemObject(buffers[n].buffer);
}

void sharded_close(struct sharded *s)
{
    release(s->set.in, INPUT_COUNT);
    release(s->set.out, OUTPUT_COUNT);
    clattn_mpi_plan_release(s->plan);
    *s = (struct sharded){.ranks = NULL};
}

bool sharded_execute(struct sharded *s, struct message *why)
{
    const cl_command_queue queue = s->target->queue;
    clattn_status status;

    if (s->whole.problem.operation == CLATTN_FORWARD) {
        const clattn_forward_tensors tensors = engine_forward(&s->set);
        status = clattn_mpi_forward(s->plan, queue, &tensors);
    } else {
        const clattn_backward_tensors tensors = engine_backward(&s->set);
        status = clattn_mpi_backward(s->plan, queue, &tensors);
    }
    return status == CLATTN_SUCCESS ||
           message_set(why, "%s: %s", clattn_status_string(status), s->target->log.text);
}

/* ---- from the ranks -------------------------------------------------------------------------- */

/* All bytes of the outputs, so that a value that is not written shows: NaN in each dtype. */
static bool poison(struct sharded *s, struct message *why)
{
    const unsigned char byte = 0xff;
    cl_int err = CL_SUCCESS;

    for (int n = 0; n < OUTPUT_COUNT; n++) {
        const struct view view = view_of(s, true, n, output_cut((enum output)n));
        if (s->set.out[n].buffer != NULL && err == CL_SUCCESS)
            err = clEnqueueFillBuffer(s->target->queue, s->set.out[n].buffer, &byte, sizeof byte, 0,
                                      view_extent_bytes(&view), 0, NULL, NULL);
    }
    return ranks_agree(
        s->ranks, err == CL_SUCCESS || message_set(why, "clEnqueueFillBuffer failed with %d", err),
        why);
}

/* The rows of the others, into the whole. */
static bool receive_rows(const struct sharded *s, const struct view *whole, void *data,
                         enum cut cut, struct message *why)
{
    for (int rank = 1; rank < s->ranks->count; rank++) {
        const struct rows rows = rows_of(s, rank, cut);
        const size_t bytes = packed_bytes(whole, rows_count(&rows));
        char *packed = case_allocate(bytes, 1, why);
        if (packed == NULL)
            return false;
        ranks_receive(rank, packed, bytes);
        copy_rows(whole, data, &rows, packed, false);
        free(packed);
    }
    return true;
}

static bool bring_output(struct sharded *s, int n, void **to, struct message *why)
{
    const enum cut cut = output_cut((enum output)n);
    const struct view whole = case_output_view(&s->whole, (enum output)n);
    const struct view local = view_of(s, true, n, cut);
    const struct rows rows = rows_of(s, s->ranks->rank, cut), all = {{0}, {rows_count(&rows)}};
    const size_t bytes = packed_bytes(&whole, rows_count(&rows));
    const size_t whole_bytes = s->ranks->rank == 0 ? view_extent_bytes(&whole) : 0;
    const size_t read = view_extent_bytes(&local);
    char *data = case_allocate(read, 1, why), *packed = case_allocate(bytes, 1, why);
    cl_int err = CL_SUCCESS;

    *to = case_allocate(whole_bytes, 1, why);
    bool ok = data != NULL && packed != NULL && *to != NULL;
    if (ok && read > 0)
        err = clEnqueueReadBuffer(s->target->queue, s->set.out[n].buffer, CL_TRUE, 0, read, data, 0,
                                  NULL, NULL);
    ok = ok && (err == CL_SUCCESS || message_set(why, "clEnqueueReadBuffer failed with %d", err));
    ok = ranks_agree(s->ranks, ok, why);
    if (ok && cut == OF_ALL) {
        memcpy(*to, data, whole_bytes); /* all ranks have the same */
    } else if (ok) {
        memset(*to, 0xff, whole_bytes);
        copy_rows(&local, data, &all, packed, true);
        if (s->ranks->rank > 0)
            ranks_send(0, packed, bytes);
        else
            copy_rows(&whole, *to, &rows, packed, false);
        if (s->ranks->rank == 0 && !receive_rows(s, &whole, *to, cut, why))
            MPI_Abort(MPI_COMM_WORLD, 1); /* others wait to send theirs */
    }
    free(packed);
    free(data);
    return ok;
}

bool sharded_results(struct sharded *s, struct results *results, struct message *why)
{
    bool ok = poison(s, why) && sharded_execute(s, why);

    *results = (struct results){{NULL}};
    for (int n = 0; ok && n < OUTPUT_COUNT; n++)
        if (case_has_output(&s->whole, (enum output)n))
            ok = bring_output(s, n, &results->out[n], why);
    if (!ok || s->ranks->rank > 0)
        results_release(results);
    return ok;
}

bool sharded_forward(const struct ranks *ranks, const struct target *target,
                     struct attention_case *attention, struct message *why)
{
    const clattn_mpi_options options = {.struct_size = sizeof options, .mode = CLATTN_MPI_RING};
    const struct attention_case forward = case_forward_of(attention);
    struct results results = {{NULL}};
    struct sharded sharded;

    if (attention->job.problem.operation != CLATTN_BACKWARD)
        return true;
    if (!sharded_open(&sharded, ranks, target, &forward.job, &forward, &options, NULL, why))
        return false;
    bool ok = sharded_results(&sharded, &results, why);
    if (ok)
        ok =
            ranks_agree(ranks, ranks->rank > 0 || case_forward_right(&forward, &results, why), why);
    if (ok && ranks->rank == 0)
        case_forward_take(attention, &results);
    results_release(&results);
    sharded_close(&sharded);
    return ok;
}
