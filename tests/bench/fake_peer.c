/* SPDX-License-Identifier: Apache-2.0 */
/* A peer (bench/peers/README.md) that computes attention as the formula says, in double precision,
 * and misbehaves on request. Its argument, or the environment variable FAKE_PEER, is WHAT@REQUEST,
 * such as "crash@open"; `habits` and main() know the words. */
#define _POSIX_C_SOURCE 200809L /* fdopen, getline, nanosleep */
#include "bench/cases/safetensors.h"
#include "bench/judge/values.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char bad_what[32], bad_where[32];

static bool misbehaves(const char *what, const char *where)
{
    return strcmp(bad_what, what) == 0 && strcmp(bad_where, where) == 0;
}

/* ---- attention -------------------------------------------------------------------------------- */

struct tensor {
    clattn_dtype dtype;
    size_t size[4];
    const void *data; /* NULL: the problem has none. */
};

static struct work {
    size_t batch, heads, kv_heads, seq_q, seq_kv, dim_qk, dim_v;
    double scale, softcap, window_left, window_right;
    bool causal;
    const char *diagonal; /* NULL: offset. */
    double offset;
    struct tensor q, k, v, bias, mask, slopes, sinks, q_lengths, kv_lengths;
    struct safetensors file;
    json_t *request; /* Owns the diagonal. */
    bool half;       /* Rounds to f16 what libraries in half precision round. */
} work;

static size_t size_of(const json_t *fields, const char *key)
{
    return (size_t)json_integer_value(json_object_get(fields, key));
}

static double number_of(const json_t *fields, const char *key)
{
    return json_number_value(json_object_get(fields, key));
}

/* The tensor must be there if and only if the problem says so. */
static bool find(struct tensor *tensor, const char *name, bool wanted)
{
    static const struct {
        const char *name;
        clattn_dtype dtype;
    } dtypes[] = {{"F32", CLATTN_F32}, {"F16", CLATTN_F16}, {"BF16", CLATTN_BF16}};
    const struct safetensor *found = safetensors_find(&work.file, name);

    *tensor = (struct tensor){.data = found != NULL ? found->data : NULL};
    if (found == NULL || !wanted)
        return (found != NULL) == wanted;
    for (size_t n = 0; n < 3; n++)
        if (strcmp(found->dtype, dtypes[n].name) == 0)
            tensor->dtype = dtypes[n].dtype;
    memcpy(tensor->size, found->shape, sizeof tensor->size);
    return true;
}

static bool find_all(const json_t *fields)
{
    static const struct {
        const char *name, *field;
        struct tensor *tensor;
    } wanted[] = {
        {"q", NULL, &work.q},
        {"k", NULL, &work.k},
        {"v", NULL, &work.v},
        {"bias", "bias", &work.bias},
        {"mask", "mask", &work.mask},
        {"slopes", "alibi", &work.slopes},
        {"sinks", "sinks", &work.sinks},
        {"q_lengths", "q_lengths", &work.q_lengths},
        {"kv_lengths", "kv_lengths", &work.kv_lengths},
    };

    for (size_t n = 0; n < sizeof wanted / sizeof *wanted; n++)
        if (!find(wanted[n].tensor, wanted[n].name,
                  wanted[n].field == NULL ||
                      json_is_true(json_object_get(fields, wanted[n].field))))
            return false;
    return true;
}

/* The place of an element; dimensions of 1 broadcast. */
static size_t at(const struct tensor *t, size_t b, size_t h, size_t s, size_t d)
{
    const size_t index[4] = {b, h, s, d};
    size_t place = 0;

    for (int n = 0; n < 4; n++)
        place = place * t->size[n] + (t->size[n] == 1 ? 0 : index[n]);
    return place;
}

static double rounded(double x)
{
    uint16_t bits;

    if (!work.half)
        return x;
    value_set(CLATTN_F16, &bits, 0, (float)x);
    return value_get(CLATTN_F16, &bits, 0);
}

static double element(const struct tensor *t, size_t b, size_t h, size_t s, size_t d)
{
    return rounded(value_get(t->dtype, t->data, at(t, b, h, s, d)));
}

static double length(const struct tensor *lengths, size_t b, size_t whole)
{
    if (lengths->data == NULL)
        return (double)whole;
    return fmin(fmax(((const int32_t *)lengths->data)[b], 0.0), (double)whole);
}

/* One score, -inf where it is masked. */
static double score(size_t b, size_t h, size_t i, size_t j)
{
    const double queries = length(&work.q_lengths, b, work.seq_q);
    const double keys = length(&work.kv_lengths, b, work.seq_kv);
    const double diagonal = work.diagonal == NULL              ? work.offset
                            : strcmp(work.diagonal, "br") == 0 ? keys - queries
                                                               : 0.0;
    const double behind = (double)i + diagonal - (double)j;
    double s = 0.0;

    if ((double)i >= queries || (double)j >= keys || (work.causal && behind < 0.0) ||
        (work.window_left >= 0.0 && behind > work.window_left) ||
        (work.window_right >= 0.0 && -behind > work.window_right))
        return -(double)INFINITY;
    if (work.mask.data != NULL &&
        ((const unsigned char *)work.mask.data)[at(&work.mask, b, h, i, j)] != 1)
        return -(double)INFINITY;
    for (size_t d = 0; d < work.dim_qk; d++)
        s += element(&work.q, b, h, i, d) *
             element(&work.k, b, h / (work.heads / work.kv_heads), j, d);
    s *= work.scale;
    if (work.softcap > 0.0)
        s = work.softcap * tanh(s / work.softcap);
    if (work.bias.data != NULL)
        s += element(&work.bias, b, h, i, j);
    if (work.slopes.data != NULL)
        s -= (double)((const float *)work.slopes.data)[h] * behind;
    return s;
}

static void compute_row(size_t b, size_t h, size_t i, double *p, double *o)
{
    const double sink =
        work.sinks.data != NULL ? (double)((const float *)work.sinks.data)[h] : -(double)INFINITY;
    double maximum = sink, total = 0.0;
    bool visible = false;

    for (size_t j = 0; j < work.seq_kv; j++) {
        p[j] = score(b, h, i, j);
        maximum = fmax(maximum, p[j]);
        visible = visible || isfinite(p[j]);
    }
    for (size_t d = 0; d < work.dim_v; d++)
        o[d] = 0.0;
    if (!visible)
        return;
    total = isfinite(sink) ? exp(sink - maximum) : 0.0;
    for (size_t j = 0; j < work.seq_kv; j++)
        total += p[j] = exp(p[j] - maximum);
    for (size_t j = 0; j < work.seq_kv; j++)
        for (size_t d = 0; d < work.dim_v && p[j] > 0.0; d++)
            o[d] +=
                rounded(p[j] / total) * element(&work.v, b, h / (work.heads / work.kv_heads), j, d);
}

/* The whole of o, packed; NULL without memory. */
static void *compute(size_t *bytes)
{
    const size_t rows = work.batch * work.heads * work.seq_q;
    double *p = malloc((work.seq_kv + 1) * sizeof *p), *row = malloc(work.dim_v * sizeof *row);
    void *o = calloc(rows * work.dim_v + 1, value_bytes(work.q.dtype));

    *bytes = rows * work.dim_v * value_bytes(work.q.dtype);
    for (size_t n = 0; n < rows && p != NULL && row != NULL && o != NULL; n++) {
        compute_row(n / work.seq_q / work.heads, n / work.seq_q % work.heads, n % work.seq_q, p,
                    row);
        for (size_t d = 0; d < work.dim_v; d++)
            value_set(work.q.dtype, o, n * work.dim_v + d, (float)row[d]);
    }
    free(p);
    free(row);
    return o;
}

/* ---- requests --------------------------------------------------------------------------------- */

static json_t *refuse(const char *why, bool unsupported)
{
    json_t *answer = json_pack("{s:b, s:s}", "ok", 0, "why", why);

    if (unsupported)
        json_object_set_new(answer, "unsupported", json_true());
    return answer;
}

static json_t *hello(const json_t *request)
{
    if (!json_is_string(json_object_get(request, "device")) ||
        !json_is_string(json_object_get(request, "device_type")) ||
        !json_is_string(json_object_get(request, "device_name")) ||
        !json_is_integer(json_object_get(request, "threads")))
        return refuse("the greeting is not as described", false);
    return json_pack("{s:b, s:s, s:s, s:s, s:s}", "ok", 1, "name",
                     misbehaves("name", "hello") ? "clattn untuned" : "Fake", "version",
                     "1.0 \u03b1", "on", misbehaves("host", "hello") ? "cpu" : "device", "method",
                     "loops in double precision");
}

static void close_work(void)
{
    safetensors_free(&work.file);
    json_decref(work.request);
    work = (struct work){.batch = 0};
}

static json_t *open_work(json_t *request)
{
    const json_t *fields = json_object_get(request, "fields");
    const json_t *diagonal = json_object_get(fields, "diagonal");
    struct message why;

    close_work();
    work = (struct work){
        .batch = size_of(fields, "batch"),
        .heads = size_of(fields, "heads"),
        .kv_heads = size_of(fields, "kv_heads"),
        .seq_q = size_of(fields, "seq_q"),
        .seq_kv = size_of(fields, "seq_kv"),
        .dim_qk = size_of(fields, "dim_qk"),
        .dim_v = size_of(fields, "dim_v"),
        .scale = number_of(fields, "scale"),
        .softcap = number_of(fields, "softcap"),
        .window_left = number_of(fields, "window_left"),
        .window_right = number_of(fields, "window_right"),
        .causal = json_is_true(json_object_get(fields, "causal")),
        .diagonal = json_string_value(diagonal),
        .offset = json_number_value(diagonal),
        .request = json_incref(request),
    };
    if (size_of(request, "copies") < 1)
        return refuse("there are to be no copies", false);
    if (!safetensors_read(&work.file, json_string_value(json_object_get(request, "data")), &why))
        return refuse(why.text, false);
    if (!find_all(fields))
        return refuse("the tensors are not those of the problem", false);
    return json_pack("{s:b, s:f, s:s}", "ok", 1, "first_seconds", 0.001, "configuration", "");
}

/* A millisecond for each computation: what it took does not matter here. */
static json_t *sample(void)
{
    const struct timespec nap = {0, 2000000};

    nanosleep(&nap, NULL);
    return json_pack("{s:b, s:f, s:I, s:n}", "ok", 1, "seconds", 0.001, "executions", (json_int_t)2,
                     "host_seconds");
}

static json_t *result(const json_t *request)
{
    const char *path = json_string_value(json_object_get(request, "path"));
    size_t bytes;

    work.half = misbehaves("half", "result");
    void *o = compute(&bytes);
    FILE *file = fopen(path, "wb");
    if (o == NULL || file == NULL)
        return refuse("it has no memory or no file", false);
    if (misbehaves("wrong", "result"))
        value_set(work.q.dtype, o, 0, (float)value_get(work.q.dtype, o, 0) + 1.0f);
    if (misbehaves("nan", "result"))
        value_set(work.q.dtype, o, 0, NAN);
    if (misbehaves("zeros", "result"))
        memset(o, 0, bytes);
    fwrite(o, 1, bytes - misbehaves("short", "result"), file);
    if (misbehaves("long", "result"))
        fputc(0, file);
    if (misbehaves("none", "result"))
        unlink(path);
    free(o);
    return fclose(file) == 0 ? json_pack("{s:b}", "ok", 1) : refuse("its disk is full", false);
}

static json_t *answer_to(json_t *request, const char *what)
{
    if (strcmp(what, "hello") == 0)
        return hello(request);
    if (strcmp(what, "open") == 0)
        return open_work(request);
    if (strcmp(what, "sample") == 0)
        return sample();
    if (strcmp(what, "result") == 0)
        return result(request);
    if (strcmp(what, "close") == 0)
        close_work();
    return json_pack("{s:b}", "ok", 1);
}

/* ---- misbehaving ------------------------------------------------------------------------------ */

static json_t *no_array(void)
{
    return json_array();
}

static json_t *minus_one(void)
{
    return json_integer(-1);
}

static json_t *zero(void)
{
    return json_integer(0);
}

static json_t *an_hour(void)
{
    return json_real(3600.0);
}

static json_t *control(void)
{
    return json_string("\x1b[31mred");
}

/* What becomes of the values in an answer, but for `ok`. */
static const struct {
    const char *what;
    bool texts, numbers;
    json_t *(*instead)(void);
} habits[] = {
    {"types", true, true, no_array},   {"negative", false, true, minus_one},
    {"zero", false, true, zero},       {"hour", false, true, an_hour},
    {"control", true, false, control},
};

static void spoil(json_t *answer, const char *request)
{
    const char *key;
    json_t *value;
    void *next;

    for (size_t n = 0; n < sizeof habits / sizeof *habits; n++)
        if (misbehaves(habits[n].what, request))
            json_object_foreach_safe(answer, next, key, value)
            {
                if ((habits[n].texts && json_is_string(value)) ||
                    (habits[n].numbers && json_is_number(value)))
                    json_object_set_new(answer, key, habits[n].instead());
            }
}

/* Whether it answered in words of its own, or does not return at all. */
static bool run_amok(const char *request, FILE *answers)
{
    static const struct {
        const char *what, *line;
    } lines[] = {
        {"garbage", "{]\n"},
        {"nan", "{\"ok\": true, \"seconds\": NaN, \"executions\": 1, \"host_seconds\": null}\n"},
        {"neither", "{\"ok\": 1}\n"},
        {"list", "[]\n"},
        {"missing", "{\"ok\": false, \"why\": \"no module named fake\"}\n"},
        {"knowing", "{\"ok\": false, \"why\": \"no numpy: pip install numpy fake\"}\n"},
        {"unsupported", "{\"ok\": false, \"why\": \"no \\u001b[1mwindows\", "
                        "\"unsupported\": true}\n"},
    };
    const struct timespec ever = {3600, 0};

    if (misbehaves("crash", request))
        abort();
    if (misbehaves("exit", request)) {
        fputs("something else\nthe library is \x1b[31mupset\n", stderr);
        exit(3);
    }
    if (misbehaves("loader", request)) {
        fputs("libfake.so.1: cannot open shared object file\n", stderr);
        exit(127);
    }
    if (misbehaves("hang", request))
        nanosleep(&ever, NULL);
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++)
        if (misbehaves(lines[n].what, request) && strcmp(request, "result") != 0) {
            fputs(lines[n].line, answers);
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    const char *habit = argc > 1 ? argv[1] : getenv("FAKE_PEER");
    FILE *requests = fdopen(3, "r"), *answers = fdopen(4, "w");
    char *line = NULL;
    size_t capacity = 0;

    if (requests == NULL || answers == NULL)
        return EXIT_FAILURE;
    if (habit != NULL && sscanf(habit, "%31[^@]@%31s", bad_what, bad_where) != 2)
        return EXIT_FAILURE;
    while (getline(&line, &capacity, requests) > 0) {
        json_t *request = json_loads(line, 0, NULL);
        const char *what = json_string_value(json_object_get(request, "do"));
        if (what == NULL)
            return EXIT_FAILURE;
        if (!run_amok(what, answers)) {
            json_t *answer = answer_to(request, what);
            spoil(answer, what);
            json_dumpf(answer, answers, JSON_COMPACT);
            fputc('\n', answers);
            json_decref(answer);
        }
        fflush(answers);
        json_decref(request);
    }
    close_work();
    free(line);
    return EXIT_SUCCESS;
}
