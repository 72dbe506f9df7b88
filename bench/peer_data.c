#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "peer_data.h"
#include "values.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { BLOCK = 4096 };

static const char *const dtype_names[] = {
    [CLATTN_F32] = "f32", [CLATTN_F16] = "f16", [CLATTN_BF16] = "bf16"};
static const char *const stored_names[] = {
    [CLATTN_F32] = "F32", [CLATTN_F16] = "F16", [CLATTN_BF16] = "BF16"};

/* ---- the problem ------------------------------------------------------------------------------ */

static json_t *diagonal_json(const clattn_problem *p)
{
    if (p->diagonal == CLATTN_OFFSET)
        return json_integer(p->diagonal_offset);
    return json_string(p->diagonal == CLATTN_TOP_LEFT ? "tl" : "br");
}

json_t *peer_data_fields(const clattn_problem *p)
{
    static const char *const operations[] = {[CLATTN_FORWARD] = "fwd", [CLATTN_BACKWARD] = "bwd"};
    const double scale = isnan(p->scale) ? 1.0 / sqrt((double)p->dim_qk) : (double)p->scale;

    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b, s:o, s:I, "
        "s:I, s:b, s:b, s:b, s:b, s:b, s:b}",
        "operation", operations[p->operation], "dtype", dtype_names[p->dtype], "batch",
        (json_int_t)p->batch, "heads", (json_int_t)p->heads, "kv_heads", (json_int_t)p->kv_heads,
        "seq_q", (json_int_t)p->seq_q, "seq_kv", (json_int_t)p->seq_kv, "dim_qk",
        (json_int_t)p->dim_qk, "dim_v", (json_int_t)p->dim_v, "scale", scale, "softcap",
        (double)p->softcap, "causal", p->causal != 0, "diagonal", diagonal_json(p), "window_left",
        (json_int_t)p->window_left, "window_right", (json_int_t)p->window_right, "bias",
        p->bias != 0, "mask", p->mask != 0, "alibi", p->alibi != 0, "sinks", p->sinks != 0,
        "q_lengths", p->q_lengths != 0, "kv_lengths", p->kv_lengths != 0);
}

/* ---- its tensors in a file -------------------------------------------------------------------- */

/* A tensor as the file has it. */
struct tensor {
    const char *name;
    const char *dtype;
    size_t element; /* Bytes. */
    size_t rank;
    size_t size[4];
    size_t bytes;
    enum input input;
};

/* As the program says it in peers/README.md: lists have one dimension, lse three. */
static size_t rank_of(enum input input)
{
    switch (input) {
    case INPUT_SLOPES:
    case INPUT_SINKS:
    case INPUT_Q_LENGTHS:
    case INPUT_KV_LENGTHS:
        return 1;
    case INPUT_LSE:
        return 3;
    default:
        return 4;
    }
}

static const char *stored_name(enum input input, clattn_dtype dtype)
{
    const bool lengths = input == INPUT_Q_LENGTHS || input == INPUT_KV_LENGTHS;

    return input == INPUT_MASK ? "BOOL" : lengths ? "I32" : stored_names[dtype];
}

static struct tensor describe(const clattn_problem *p, enum input input)
{
    static const char *const names[INPUT_COUNT] = {
        [INPUT_Q] = "q",
        [INPUT_K] = "k",
        [INPUT_V] = "v",
        [INPUT_BIAS] = "bias",
        [INPUT_MASK] = "mask",
        [INPUT_SLOPES] = "slopes",
        [INPUT_SINKS] = "sinks",
        [INPUT_Q_LENGTHS] = "q_lengths",
        [INPUT_KV_LENGTHS] = "kv_lengths",
        [INPUT_O] = "o",
        [INPUT_LSE] = "lse",
        [INPUT_DO] = "do",
    };
    const struct view view = case_input_view(p, input);
    const bool broadcasts = (input == INPUT_BIAS || input == INPUT_MASK) && view.extent > 0;
    struct tensor t = {.name = names[input],
                       .dtype = stored_name(input, view.dtype),
                       .element = view.element,
                       .rank = rank_of(input),
                       .bytes = view.element,
                       .input = input};

    for (int n = 0; n < 4; n++)
        t.size[n] = broadcasts && view.stride[n] == 0 ? 1 : view.size[n];
    if (t.rank == 1)
        t.size[0] = t.size[3];
    for (size_t n = 0; n < t.rank; n++)
        t.bytes *= t.size[n];
    return t;
}

/* The tensors that the problem has, in the order of the file; returns how many. Those of large
 * elements come first: so all lie where their elements may be read. */
static size_t list_tensors(const clattn_problem *p, struct tensor tensors[INPUT_COUNT])
{
    size_t count = 0;

    for (size_t element = 4; element > 0; element /= 2)
        for (int input = 0; input < INPUT_COUNT; input++) {
            const struct tensor t = describe(p, (enum input)input);
            if (t.element == element && case_has_input(p, (enum input)input))
                tensors[count++] = t;
        }
    return count;
}

double peer_data_bytes(const clattn_problem *problem)
{
    struct tensor tensors[INPUT_COUNT];
    const size_t count = list_tensors(problem, tensors);
    double bytes = 0.0;

    for (size_t n = 0; n < count; n++) {
        double product = (double)tensors[n].element;
        for (size_t r = 0; r < tensors[n].rank; r++)
            product *= (double)tensors[n].size[r];
        bytes += product;
    }
    return bytes;
}

/* What a peer is asked for, in the order of its file. */
static const enum output asked[] = {OUTPUT_O, OUTPUT_DQ, OUTPUT_DK, OUTPUT_DV};

#define NUM_ASKED (sizeof asked / sizeof *asked)

size_t peer_data_result_bytes(const clattn_problem *problem)
{
    size_t bytes = 0;

    for (size_t n = 0; n < NUM_ASKED; n++) {
        const struct view view = case_output_view(problem, asked[n]);
        bytes += view.size[0] * view.size[1] * view.size[2] * view.size[3] * view.element;
    }
    return bytes;
}

/* The header's text, padded with blanks so that the data is aligned; NULL without memory. */
static char *make_header(const struct tensor *tensors, size_t count)
{
    json_t *header = json_object();
    size_t begin = 0;

    for (size_t n = 0; n < count; n++) {
        const struct tensor *t = &tensors[n];
        json_t *shape = json_array();
        for (size_t r = 0; r < t->rank; r++)
            json_array_append_new(shape, json_integer((json_int_t)t->size[r]));
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

/* The elements along the last dimension from the one at `from`, gathered block by block. */
static void write_row(FILE *file, const struct tensor *t, const unsigned char *from, size_t stride)
{
    unsigned char block[BLOCK];
    size_t filled = 0;

    for (size_t d = 0; d < t->size[3]; d++) {
        memcpy(block + filled, from + d * stride * t->element, t->element);
        if (t->input == INPUT_MASK)
            block[filled] = block[filled] != 0; /* a BOOL is 0 or 1 */
        filled += t->element;
        if (filled == BLOCK || d + 1 == t->size[3]) {
            fwrite(block, 1, filled, file);
            filled = 0;
        }
    }
}

static void write_tensor(FILE *file, const struct tensor *t, const struct attention_case *attention)
{
    const unsigned char *data = attention->in[t->input].data;

    if (t->rank == 1) {
        fwrite(data, 1, t->bytes, file);
        return;
    }
    const struct view view = case_input_view(&attention->problem, t->input);
    for (size_t b = 0; b < t->size[0]; b++)
        for (size_t h = 0; h < t->size[1]; h++)
            for (size_t s = 0; s < t->size[2] && !ferror(file); s++) {
                const size_t first = view_place(&view, b, h, s, 0);
                if (view.stride[3] == 1 && t->input != INPUT_MASK)
                    fwrite(data + first * t->element, t->element, t->size[3], file);
                else
                    write_row(file, t, data + first * t->element, view.stride[3]);
            }
}

bool peer_data_write(const char *path, const struct attention_case *attention, struct message *why)
{
    struct tensor tensors[INPUT_COUNT];
    const size_t count = list_tensors(&attention->problem, tensors);
    char *header = make_header(tensors, count);

    if (header == NULL)
        return message_set(why, "got no tensors: no memory to describe them");
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        free(header);
        return message_set(why, "got no tensors: %s cannot be written: %s", path, strerror(errno));
    }
    write_header(file, header);
    for (size_t n = 0; n < count && !ferror(file); n++)
        write_tensor(file, &tensors[n], attention);
    free(header);
    const bool whole = !ferror(file);
    const int reason = errno; /* of the write that failed */
    if (fclose(file) == 0 && whole)
        return true;
    return message_set(why, "got no tensors: %s cannot be filled: %s", path,
                       strerror(whole ? errno : reason));
}

/* ---- files ------------------------------------------------------------------------------------ */

/* Whether `folder` has room for so many times as many bytes. */
static bool has_room(const char *folder, double times, double bytes)
{
    struct statvfs facts;

    return statvfs(folder, &facts) == 0 &&
           (double)facts.f_bavail * (double)facts.f_frsize >= times * bytes;
}

bool peer_data_file(char path[PEER_DATA_PATH], double bytes, struct message *why)
{
    const char *chosen = getenv("TMPDIR");
    const char *folder = chosen != NULL && *chosen != '\0' ? chosen : "/tmp";

    /* Of memory, which the peer needs as well. */
    if (has_room("/dev/shm", 8.0, bytes) && access("/dev/shm", W_OK) == 0)
        folder = "/dev/shm";
    else if (!has_room(folder, 1.0, bytes)) {
        path[0] = '\0';
        return message_set(why,
                           "got no file: %s has no room for %.3g MB; TMPDIR may name another "
                           "folder",
                           folder, 1e-6 * bytes);
    }
    const int length =
        snprintf(path, PEER_DATA_PATH, "%s/" PEER_DATA_PREFIX "%ld-XXXXXX", folder, (long)getpid());
    const int file = length < PEER_DATA_PATH ? mkstemp(path) : -1;
    if (file >= 0)
        return close(file) == 0;
    path[0] = '\0';
    return message_set(why, "got no file: none can be made in %.200s: %s", folder,
                       length < PEER_DATA_PATH ? strerror(errno) : "its name is too long");
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

static bool read_tensors(FILE *file, const clattn_problem *problem, struct results *results,
                         struct message *why)
{
    for (size_t n = 0; n < NUM_ASKED; n++) {
        const struct view view = case_output_view(problem, asked[n]);
        if (!case_has_output(problem, asked[n]))
            continue;
        results->out[asked[n]] = case_allocate(view.extent, view.element, why);
        if (results->out[asked[n]] == NULL)
            return false;
        if (!read_rows(file, &view, results->out[asked[n]]))
            return message_set(why, "gave a result that cannot be read");
    }
    return true;
}

bool peer_data_read(const char *path, const clattn_problem *problem, struct results *results,
                    struct message *why)
{
    const size_t wanted = peer_data_result_bytes(problem);
    struct stat facts;

    *results = (struct results){{NULL}};
    /* Its kind before it is opened: that could wait for ever. */
    if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode))
        return message_set(why, "left no file for its result");
    if ((double)facts.st_size != (double)wanted)
        return message_set(why, "gave a result of %.0f bytes, not %zu", (double)facts.st_size,
                           wanted);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return message_set(why, "gave a result that cannot be read");
    const bool ok = read_tensors(file, problem, results, why);
    fclose(file);
    if (!ok)
        results_release(results);
    return ok;
}
