/* What clattn-bench is given to do, and what that costs at least. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "../bench/items.h"
#include "../bench/peaks.h"
#include "../bench/problem_file.h"
#include "../bench/roof.h"
#include "../bench/values.h"
#include "../bench/workloads.h"
#include "rng.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- roof --------------------------------------------------------------------------------- */

static void parse(const char *text, clattn_problem *problem)
{
    char reason[256];

    cr_assert(eq(int, clattn_problem_parse(text, problem, reason, sizeof reason), CLATTN_SUCCESS),
              "%s: %s", text, reason);
}

static const char *pick(struct rng *r, const char *const *words, size_t count)
{
    return words[rng_below(r, count)];
}
#define PICK(r, ...)                                                                               \
    pick((r), (const char *const[]){__VA_ARGS__},                                                  \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* The text of a small problem with any options. */
static void draw_problem(struct rng *r, char text[512])
{
    const size_t kv_heads = 1 + rng_below(r, 2);

    snprintf(text, 512, "fwd %s b%zu h%zu/%zu q%zu k%zu d%zu/%zu %s %s %s %s %s %s %s %s %s %s",
             PICK(r, "f32", "f16", "bf16"), rng_below(r, 4), kv_heads * (1 + rng_below(r, 3)),
             kv_heads, rng_below(r, 12), rng_below(r, 14), 1 + rng_below(r, 5), 1 + rng_below(r, 5),
             PICK(r, "", "", "causal=tl", "causal=br", "causal=3", "causal=-2", "diagonal=br"),
             PICK(r, "", "", "window=2,*", "window=*,1", "window=0,0", "window=4,3"),
             PICK(r, "", "", "mask=bhqk", "mask=qk", "mask=bk", "mask=h", "mask=q", "mask=0.0.0.0"),
             PICK(r, "", "", "bias=f32:bhqk", "bias=f16:hqk", "bias=bf16:bq", "bias=f32:k"),
             PICK(r, "", "", "q=bshd", "q=0.60.5.1", "q=70.0.5.1", "q=900.100.0.0"),
             PICK(r, "", "", "k=sbhd", "k=0.90.6.1", "k=200.0.6.1", "k=200.100.6.0"),
             PICK(r, "", "", "v=bshd", "v=0.0.7.1", "v=200.100.0.1"), PICK(r, "", "", "qlen"),
             PICK(r, "", "", "klen", "klen lse"), PICK(r, "", "", "scores=raw", "scores=weights"));
}

/* Lengths out of range, and biases of -inf. */
static void spoil(struct rng *r, struct attention_case *c)
{
    const clattn_problem *p = &c->problem;
    const struct view bias = case_input_view(p, INPUT_BIAS);

    for (size_t n = 0; p->bias && n < bias.extent; n++)
        if (rng_one_in(r, 4))
            value_set(p->bias_dtype, c->in[INPUT_BIAS].data, n, -INFINITY);
    for (int input = INPUT_Q_LENGTHS; input <= INPUT_KV_LENGTHS; input++)
        for (size_t b = 0; c->in[input].data != NULL && b < p->batch; b++)
            if (rng_one_in(r, 3))
                ((cl_int *)c->in[input].data)[b] = (cl_int)rng_below(r, 20) - 3;
}

/* What each element is read for, by its place: a byte for each. */
struct touched {
    unsigned char *byte[INPUT_MASK + 1];
};

static size_t place(const struct view *view, size_t b, size_t h, size_t s, size_t d)
{
    return b * view->stride[0] + h * view->stride[1] + s * view->stride[2] + d * view->stride[3];
}

static void touch_row(struct touched *touched, const clattn_problem *p, enum input input, size_t b,
                      size_t h, size_t s)
{
    const struct view view = case_input_view(p, input);

    for (size_t d = 0; d < view.size[3]; d++)
        touched->byte[input][place(&view, b, h, s, d)] = 1;
}

static double length_of(const struct attention_case *c, enum input input, size_t b, size_t all)
{
    const cl_int *lengths = c->in[input].data;

    return lengths == NULL ? (double)all : fmin(fmax(lengths[b], 0.0), (double)all);
}

/* Of pair (b, h, i, j), straight from clattn/problem.h: 1 if causality, windows and lengths leave
 * it, 2 if mask and bias do so, too. */
static int state_of(const struct attention_case *c, size_t b, size_t h, size_t i, size_t j)
{
    const clattn_problem *p = &c->problem;
    const double queries = length_of(c, INPUT_Q_LENGTHS, b, p->seq_q);
    const double keys = length_of(c, INPUT_KV_LENGTHS, b, p->seq_kv);
    const double diagonal = p->diagonal == CLATTN_TOP_LEFT       ? 0.0
                            : p->diagonal == CLATTN_BOTTOM_RIGHT ? keys - queries
                                                                 : (double)p->diagonal_offset;
    const double ahead = (double)j - (double)i - diagonal;

    if ((double)i >= queries || (double)j >= keys || (p->causal && ahead > 0.0) ||
        (p->window_left >= 0 && -ahead > (double)p->window_left) ||
        (p->window_right >= 0 && ahead > (double)p->window_right))
        return 0;
    const struct view mask = case_input_view(p, INPUT_MASK), bias = case_input_view(p, INPUT_BIAS);
    if (p->mask && !((unsigned char *)c->in[INPUT_MASK].data)[place(&mask, b, h, i, j)])
        return 1;
    if (p->bias &&
        isinf(value_get(p->bias_dtype, c->in[INPUT_BIAS].data, place(&bias, b, h, i, j))))
        return 1;
    return 2;
}

/* Counts visible pairs and touches whatever they need. */
static double count_by_hand(const struct attention_case *c, struct touched *touched)
{
    const clattn_problem *p = &c->problem;
    const bool all_scores = p->scores == CLATTN_SCORES_RAW;
    const struct view mask = case_input_view(p, INPUT_MASK), bias = case_input_view(p, INPUT_BIAS);
    double pairs = 0.0;

    for (size_t n = 0; n < p->batch * p->heads * p->seq_q * p->seq_kv; n++) {
        const size_t j = n % p->seq_kv, i = n / p->seq_kv % p->seq_q;
        const size_t h = n / p->seq_kv / p->seq_q % p->heads,
                     b = n / p->seq_kv / p->seq_q / p->heads;
        const size_t kv_head = h / (p->heads / p->kv_heads);
        const int state = state_of(c, b, h, i, j);
        if (state > 0 && p->mask)
            touched->byte[INPUT_MASK][place(&mask, b, h, i, j)] = 1;
        if (state > 0 && p->bias)
            touched->byte[INPUT_BIAS][place(&bias, b, h, i, j)] = 1;
        if (state == 2 || all_scores) {
            touch_row(touched, p, INPUT_Q, b, h, i);
            touch_row(touched, p, INPUT_K, b, kv_head, j);
        }
        if (state == 2)
            touch_row(touched, p, INPUT_V, b, kv_head, j);
        pairs += state == 2;
    }
    return pairs;
}

static double bytes_by_hand(const clattn_problem *p, const struct touched *touched)
{
    const size_t rows = p->batch * p->heads * p->seq_q;
    size_t bytes = rows * p->dim_v * value_bytes(p->dtype) + (p->lse ? rows * 4 : 0) +
                   (p->scores != CLATTN_SCORES_NONE ? rows * p->seq_kv * 4 : 0);

    for (int input = INPUT_Q; input <= INPUT_MASK; input++) {
        const struct view view = case_input_view(p, input);
        const bool there = input <= INPUT_V || (input == INPUT_BIAS ? p->bias : p->mask);
        const size_t element = input == INPUT_MASK ? 1 : value_bytes(view.dtype);
        for (size_t n = 0; there && n < view.extent; n++)
            bytes += touched->byte[input][n] * element;
    }
    return (double)bytes;
}

Test(bench_roof, operations_and_bytes_are_those_counted_pair_by_pair) {
    struct rng r = rng_seed(20250811);

    for (int n = 0; n < 4000; n++) {
        struct touched touched;
        struct attention_case c;
        struct message why;
        clattn_problem problem;
        char text[512];
        draw_problem(&r, text);
        parse(text, &problem);
        cr_assert(case_random(&c, &problem, (unsigned)n, &why), "%s", why.text);
        spoil(&r, &c);
        for (int input = INPUT_Q; input <= INPUT_MASK; input++)
            touched.byte[input] = calloc(case_input_view(&problem, input).extent + 1, 1);
        const double pairs = count_by_hand(&c, &touched);
        cr_assert(eq(dbl, case_flops(&c), 2.0 * (double)(problem.dim_qk + problem.dim_v) * pairs),
                  "%s", text);
        cr_assert(eq(dbl, case_bytes(&c), bytes_by_hand(&problem, &touched)), "%s", text);
        for (int input = INPUT_Q; input <= INPUT_MASK; input++)
            free(touched.byte[input]);
        case_free(&c);
    }
}

/* Where only shapes decide the library counts in closed form. */
Test(bench_roof, agrees_with_the_library_where_no_tensor_hides_keys) {
    static const char *const texts[] = {
        "fwd f32 q8192 d64 causal=tl",
        "fwd f16 b2 h32/8 q700 k1500 d128 causal=br window=511,*",
        "fwd bf16 b3 h4 q1 k4096 d192/128 causal=br",
    };

    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        struct attention_case c = {.name = ""};
        parse(texts[n], &c.problem);
        cr_assert(eq(dbl, case_flops(&c), clattn_problem_flops(&c.problem)), "%s", texts[n]);
    }
}

Test(bench_roof, bytes_of_known_problems) {
    static const struct {
        const char *text;
        double bytes;
    } cases[] = {
        {"fwd f32 b2 h3 q5 k7 d4/6", 4 * 2 * 3 * (5 * 4 + 7 * 4 + 7 * 6 + 5 * 6)},
        {"fwd f16 h8/2 q1 k1000 d64 causal=br", 2 * (2 * 8 * 64 + 2 * 2 * 1000 * 64)},
        {"fwd f16 h8/2 q1 k1000 d64 causal=br window=99,0", 2 * (2 * 8 * 64 + 2 * 2 * 100 * 64)},
        {"fwd f32 h1 q4 k9 d1 causal=tl", 4 * (4 + 4 + 4 + 4)},
        {"fwd f32 h1 q4 k9 d1 lse scores=raw", 4 * (4 + 9 + 9 + 4 + 4 + 36)},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct attention_case c = {.name = ""};
        parse(cases[n].text, &c.problem);
        cr_assert(eq(dbl, case_bytes(&c), cases[n].bytes), "%s", cases[n].text);
    }
}

Test(bench_roof, copies_cover_the_caches_where_memory_limits) {
    static const struct {
        double flops, bytes, gflops, gigabytes, cover, most;
        size_t copies;
    } cases[] = {
        {1e9, 1e6, 100, 10, 1e8, 1e9, 1},  /* 10 ms of operations, 0.1 ms of bytes */
        {1e6, 1e6, 100, 10, 1e8, 1e9, 64}, /* 100 would cover it */
        {1e6, 3e6, 100, 10, 1e8, 1e9, 34}, /* rounded up */
        {1e6, 3e6, 100, 10, 1e8, 2e7, 6},  /* no more room */
        {1e6, 3e6, 100, 10, 1e8, 1e6, 1},  /* not even for one */
        {1e6, 2e8, 100, 10, 1e8, 1e9, 1},  /* covers it alone */
        {0, 0, 100, 10, 1e8, 1e9, 1},      /* nothing to do */
        {1e6, 1e6, 0, 0, 1e8, 1e9, 1},     /* no peaks */
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        cr_assert(eq(sz,
                     roof_copies(cases[n].flops, cases[n].bytes, cases[n].gflops,
                                 cases[n].gigabytes, cases[n].cover, cases[n].most),
                     cases[n].copies),
                  "case %zu", n);
}

/* ---- peaks -------------------------------------------------------------------------------- */

/* The default device, made up to look like others. */
Test(bench_peaks, forms_suit_the_device) {
    static const struct {
        cl_device_type type;
        unsigned width;
        cl_bool fp16;
        unsigned lanes; /* Of all float forms, or 0 for several. */
    } cases[] = {
        {CL_DEVICE_TYPE_CPU, 16, CL_FALSE, 16},      {CL_DEVICE_TYPE_CPU, 8, CL_TRUE, 8},
        {CL_DEVICE_TYPE_CPU, 4, CL_FALSE, 4},        {CL_DEVICE_TYPE_CPU, 1, CL_FALSE, 0},
        {CL_DEVICE_TYPE_GPU, 1, CL_FALSE, 0},        {CL_DEVICE_TYPE_GPU, 4, CL_TRUE, 0},
        {CL_DEVICE_TYPE_ACCELERATOR, 1, CL_TRUE, 0},
    };
    struct target target;
    struct message why;

    cr_assert(target_open(&target, "", &why), "%s", why.text);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct peak_form forms[PEAK_MOST_FORMS];
        clattn_device_info info = *target.info;
        bool halves = false;
        info.type = cases[n].type;
        info.vector_width_float = cases[n].width;
        info.fp16 = cases[n].fp16;
        info.max_work_group_size = 128;
        const size_t count = peak_form_list(forms, &info);
        cr_assert(lt(sz, 0, count));
        cr_assert(le(sz, count, PEAK_MOST_FORMS));
        cr_assert(not(forms[0].half), "case %zu has none for f32", n);
        for (size_t f = 0; f < count; f++) {
            char text[64];
            halves = halves || forms[f].half;
            peak_form_describe(&forms[f], text);
            cr_assert(lt(sz, strlen(text), 63), "%s", text);
            cr_assert(eq(sz, forms[f].local, forms[f].alone ? 1 : 128), "%s", text);
            cr_assert(forms[f].half || cases[n].lanes == 0 || forms[f].lanes == cases[n].lanes);
            cr_assert(eq(sz, forms[f].global % forms[f].local, 0), "%s", text);
        }
        cr_assert(eq(int, halves, (int)cases[n].fp16), "case %zu", n);
    }
    target_close(&target);
}

/* Two samples of each, all of them positive and told in words. */
Test(bench_peaks, the_default_device_has_them) {
    struct target target;
    struct peaks peaks;
    struct message why;

    cr_assert(target_open(&target, "", &why), "%s", why.text);
    cr_assert(peaks_open(&peaks, &target, &why), "%s", why.text);
    cr_assert(strstr(peaks.form, "(") != NULL);
    cr_assert(eq(int, peaks.form_half[0] != '\0', (int)target.info->fp16));
    cr_assert(lt(dbl, 1e6, peaks_read_bytes(&peaks)));
    for (int n = 0; n < 2; n++) {
        double value[4] = {0.0, 0.0, 0.0, 1.0};
        cr_assert(peaks_fma(&peaks, 0.0, &value[0], &why), "%s", why.text);
        cr_assert(peaks_read(&peaks, &value[1], &why), "%s", why.text);
        cr_assert(peaks_copy(&peaks, &value[2], &why), "%s", why.text);
        if (target.info->fp16)
            cr_assert(peaks_fma_half(&peaks, 0.0, &value[3], &why), "%s", why.text);
        for (int v = 0; v < 4; v++)
            cr_assert(lt(dbl, 0.0, value[v]), "peak %d", v);
    }
    peaks_close(&peaks);
    target_close(&target);
}

/* ---- workloads ---------------------------------------------------------------------------- */

#define MOST_FLOPS 0.6e12     /* A few seconds of two cores. */
#define MOST_FLOPS_SET 0.1e12 /* In `quick` and `standard`: a third of a second. */
#define MOST_BYTES 0.5e9

Test(bench_workloads, every_problem_is_sound_and_as_it_is_printed) {
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        cr_assert(w->problems[0] != NULL, "%s is empty", w->name);
        for (size_t n = 0; w->problems[n] != NULL; n++) {
            struct attention_case c = {.name = ""};
            char text[256];
            parse(w->problems[n], &c.problem);
            cr_assert(eq(int, clattn_problem_print(&c.problem, text, sizeof text, NULL), 0));
            cr_assert(eq(str, text, (char *)w->problems[n]), "%s", w->name);
            cr_assert(lt(dbl, clattn_problem_flops(&c.problem), MOST_FLOPS), "%s", text);
            cr_assert(lt(dbl, case_bytes(&c), MOST_BYTES), "%s", text);
        }
    }
}

static bool is_repeated(const struct workload *workload, size_t n)
{
    for (const struct workload *w = workloads; w->name != NULL; w++)
        for (size_t m = 0; w->problems[m] != NULL; m++) {
            const bool both = w->source != NULL && workload->source != NULL;
            const bool other = w == workload ? m != n : both;
            if (other && strcmp(w->problems[m], workload->problems[n]) == 0)
                return true;
        }
    return false;
}

/* A set repeats problems of models, but none of its own. */
Test(bench_workloads, names_and_problems_are_there_once) {
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        cr_assert(workload_find(w->name) == w, "%s is there twice", w->name);
        for (size_t n = 0; w->problems[n] != NULL; n++)
            cr_assert(not(is_repeated(w, n)), "%s: %s", w->name, w->problems[n]);
    }
    cr_assert(workload_find("nonsense") == NULL);
    cr_assert(workload_find("") == NULL);
}

/* For a list in a terminal. */
Test(bench_workloads, descriptions_fit_a_line) {
    for (const struct workload *w = workloads; w->name != NULL; w++) {
        cr_assert(le(sz, strlen(w->name), 21), "%s", w->name);
        cr_assert(le(sz, strlen(w->meaning), 77), "%s", w->name);
        cr_assert(w->source == NULL || strlen(w->source) <= 96, "%s", w->name);
    }
}

Test(bench_workloads, sets_are_made_of_models_and_are_quick_enough) {
    static const struct {
        const char *name;
        size_t least, most;
    } sets[] = {{"quick", 5, 7}, {"standard", 16, 20}};

    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        const struct workload *set = workload_find(sets[s].name);
        size_t count = 0;
        cr_assert(set != NULL && set->source == NULL);
        for (; set->problems[count] != NULL; count++) {
            clattn_problem p;
            parse(set->problems[count], &p);
            cr_assert(workload_origin(set, count)->source != NULL, "%s", set->problems[count]);
            cr_assert(lt(dbl, clattn_problem_flops(&p), MOST_FLOPS_SET), "%s",
                      set->problems[count]);
        }
        cr_assert(le(sz, sets[s].least, count));
        cr_assert(le(sz, count, sets[s].most));
    }
    for (const struct workload *w = workloads; w->source != NULL; w++) { /* the models come first */
        const struct workload *standard = workload_find("standard");
        bool in = strstr(w->name, "8k") != NULL; /* too slow for two cores */
        for (size_t n = 0; standard->problems[n] != NULL; n++)
            in = in || workload_origin(standard, n) == w;
        cr_assert(in, "%s is not in standard", w->name);
    }
}

/* ---- problem files ------------------------------------------------------------------------ */

/* A file of that content in a folder of its own; remove_file() takes both away. */
static void write_file(char path[64], const char *content, size_t bytes)
{
    strcpy(path, "/tmp/clattn-problems-XXXXXX");
    cr_assert(mkdtemp(path) != NULL);
    strcat(path, "/mine.txt");
    FILE *file = fopen(path, "wb");
    cr_assert(file != NULL);
    cr_assert(eq(sz, fwrite(content, 1, bytes, file), bytes));
    cr_assert(eq(int, fclose(file), 0));
}

static void remove_file(char path[64])
{
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

#define ONE "fwd f32 b1 h1 q1 d1"
#define TWO "fwd f16 b1 h2 q3 d4 bias=f32:qk"

Test(bench_problem_file, lines_comments_and_names) {
    static const struct {
        const char *content;
        size_t count;
        const char *names[3]; /* Of each item that has a heading of its own. */
    } cases[] = {
        {ONE, 1, {"mine.txt"}},
        {ONE "\n", 1, {"mine.txt"}},
        {"\n\n# a comment\n  " ONE "\t# why\n#\n\n" TWO, 2, {"mine.txt"}},
        {ONE "\r\n\r\n" TWO "\r\n", 2, {"mine.txt"}},
        {"\xef\xbb\xbf" ONE "\n", 1, {"mine.txt"}},
        {ONE "\na: " ONE "\n" TWO "\nb:\t" TWO "\n", 4, {"mine.txt", "a", "b"}},
        {"my model, layer 3:\n" ONE "\n" TWO "\n", 2, {"my model, layer 3"}},
        {"\x1b[31mred: " ONE, 0, {NULL}},
        {"\xc3\xa9t\xc3\xa9: " ONE, 1, {"\xc3\xa9t\xc3\xa9"}},
        {"\xff: " ONE, 1, {"?"}},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct items items = {.item = NULL};
        struct message why = {""};
        char path[64], *argument = path;
        size_t named = 0;
        write_file(path, cases[n].content, strlen(cases[n].content));
        const bool ok = items_read(&items, 1, &argument, &why);
        remove_file(path);
        cr_assert(eq(int, ok, cases[n].count > 0), "case %zu: %s", n, why.text);
        cr_assert(eq(sz, items.count, cases[n].count), "case %zu", n);
        for (size_t i = 0; i < items.count; i++) {
            cr_assert(items.item[i].path == NULL);
            if (items.item[i].heading != NULL)
                cr_assert(eq(str, (char *)items.item[i].heading, (char *)cases[n].names[named++]),
                          "case %zu", n);
        }
        cr_assert(named == 3 || cases[n].names[named] == NULL, "case %zu", n);
        items_free(&items);
    }
}

Test(bench_problem_file, what_is_wrong_is_said_with_its_line) {
    static char long_line[3000], long_name[200], many[1001 * sizeof ONE + 1];
    const struct {
        const char *content;
        size_t bytes; /* 0: up to the 0 at its end. */
        const char *complaint;
    } cases[] = {
        {"", 0, "holds no problem"},
        {"# nothing\n\n  \n", 0, "holds no problem"},
        {"name:\n", 0, "holds no problem"},
        {ONE "\nfwd f32 q3\n", 0, "line 2: 'fwd f32 q3' is no problem: dN is missing"},
        {"fwd f32 q3 d4 nonsense", 0,
         "line 1: 'fwd f32 q3 d4 nonsense' is no problem: "
         "'nonsense' is not a word of a problem"},
        {"a:" ONE, 0, "line 1: 'a:fwd f32"},
        {ONE "\n\0\1\2", sizeof ONE + 3, "line 2: byte 1 is no text"},
        {"\x7f"
         "ELF",
         0, "line 1: byte 1 is no text"},
        {long_line, 0, "line 1 is longer than 1023 bytes"},
        {long_name, 0, "line 1: its name is longer than 63 bytes"},
        {many, 0, "line 1001: there are more than 1000 problems"},
    };

    memset(long_line, 'x', sizeof long_line - 1);
    memset(long_name, 'x', 64);
    strcpy(long_name + 64, ": " ONE);
    for (size_t n = 0; n < 1001; n++)
        strcat(many + n * strlen(ONE "\n"), ONE "\n");
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct problem_file file;
        struct message why = {""};
        char path[64];
        write_file(path, cases[n].content,
                   cases[n].bytes > 0 ? cases[n].bytes : strlen(cases[n].content));
        const bool ok = problem_file_read(&file, path, &why);
        cr_assert(eq(int, strncmp(why.text, path, strlen(path)), 0), "%s", why.text);
        remove_file(path);
        cr_assert(not(ok), "case %zu", n);
        cr_assert(file.line == NULL && file.count == 0, "case %zu", n);
        cr_assert(strstr(why.text, cases[n].complaint) != NULL, "case %zu: %s", n, why.text);
    }
}

Test(bench_items, arguments_are_told_apart) {
    static const struct {
        const char *argument;
        size_t count;
        const char *text; /* The first heading, or the complaint. */
    } cases[] = {
        {"minilm", 3, "minilm"},
        {"quick", 6, "minilm"},
        {ONE, 1, ""},
        {TEST_DATA "/minilm/minilm_layer_0.safetensors", 1, NULL},
        {"nonsense", 0, "'nonsense' is no workload"},
        {"missing.txt", 0, "'missing.txt' is no workload (--list names them), no file"},
        {"missing.safetensors", 0, "missing.safetensors"},
        {"fwd f32 q3", 0, "dN is missing"},
        {"", 0, "is no workload"},
        {"/tmp", 0, "/tmp cannot be read: Is a directory"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct items items = {.item = NULL};
        struct message why = {""};
        char argument[256], *arguments = argument;
        snprintf(argument, sizeof argument, "%s", cases[n].argument);
        const bool ok = items_read(&items, 1, &arguments, &why);
        cr_assert(eq(int, ok, cases[n].count > 0), "%s: %s", argument, why.text);
        cr_assert(eq(sz, items.count, cases[n].count), "%s", argument);
        if (ok && cases[n].text != NULL)
            cr_assert(eq(str, (char *)items.item[0].heading, (char *)cases[n].text));
        if (ok)
            cr_assert(eq(int, items.item[0].path != NULL, cases[n].text == NULL));
        if (!ok)
            cr_assert(strstr(why.text, cases[n].text) != NULL, "%s: %s", argument, why.text);
        items_free(&items);
    }
}

/* Whoever runs a set sees which model a problem comes from. */
Test(bench_items, problems_of_a_set_are_named_after_their_models) {
    char name[] = "standard", *arguments = name;
    struct items items = {.item = NULL};
    struct message why;

    cr_assert(items_read(&items, 1, &arguments, &why), "%s", why.text);
    for (size_t n = 0; n < items.count; n++)
        cr_assert(workload_find(items.item[n].heading)->source != NULL, "problem %zu", n);
    items_free(&items);
}
