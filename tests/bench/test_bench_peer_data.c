/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors sent to peers in files, and texts that come back. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "base/utf8.h"
#include "bench/cases/safetensors.h"
#include "bench/peer/peer_data.h"
#include "cli/message.h"
#include "tests/bench/run_example.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void has_shape(const struct safetensors *file, const char *name, const char *dtype, size_t b,
                      size_t h, size_t q, size_t k)
{
    const struct safetensor *t = safetensors_find(file, name);
    const size_t shape[4] = {b, h, q, k};

    cr_assert(t != NULL && t->rank == 4, "%s", name);
    check_text(t->dtype, dtype);
    cr_assert(memcmp(t->shape, shape, sizeof shape) == 0, "%s: %zu %zu %zu %zu", name, t->shape[0],
              t->shape[1], t->shape[2], t->shape[3]);
    const size_t element = strcmp(dtype, "BOOL") == 0 ? 1 : strcmp(dtype, "F32") == 0 ? 4 : 2;
    cr_assert(eq(sz, (uintptr_t)t->data % element, 0), "%s lies crooked", name);
}

Test(bench_peer_data, what_broadcasts_is_sent_once) {
    struct attention_case attention;
    struct safetensors file;
    struct message why;
    char path[PEER_DATA_PATH];

    example_case(&attention, "fwd f16 b2 h3/1 q5 k7 d3 v=0.0.3.1 bias=f32:qk mask=bk sinks");
    cr_assert(peer_data_file(path, 1.0, &why), "%s", why.text);
    cr_assert(peer_data_write(path, &attention, &why), "%s", why.text);
    cr_assert(safetensors_read(&file, path, &why), "%s", why.text);
    unlink(path);
    cr_assert(eq(sz, file.count, 6));
    has_shape(&file, "q", "F16", 2, 3, 5, 3);
    has_shape(&file, "k", "F16", 2, 1, 7, 3);
    has_shape(&file, "v", "F16", 2, 1, 7, 3); /* the peer knows no layouts */
    has_shape(&file, "bias", "F32", 1, 1, 5, 7);
    has_shape(&file, "mask", "BOOL", 2, 1, 1, 7);
    safetensors_free(&file);
    case_free(&attention);
}

/* Expects a tensor that has the last `rank` of these sizes. */
static void has_list(const struct safetensors *file, const char *name, size_t rank,
                     const size_t *shape)
{
    const struct safetensor *t = safetensors_find(file, name);

    cr_assert(t != NULL && t->rank == rank, "%s", name);
    check_text(t->dtype, "I32");
    cr_assert(memcmp(t->shape, shape, rank * sizeof *shape) == 0, "%s", name);
    cr_assert(eq(sz, (uintptr_t)t->data % 4, 0), "%s lies crooked", name);
}

static void is_field(const json_t *fields, const char *name, const char *text, json_int_t number)
{
    const json_t *field = json_object_get(fields, name);

    if (text != NULL)
        check_text(json_string_value(field), text);
    else
        cr_assert(json_integer_value(field) == number, "%s", name);
}

/* Sends it; the file and the fields are the caller's to release. */
static json_t *send(const char *text, struct attention_case *attention, struct safetensors *file)
{
    struct message why;
    char path[PEER_DATA_PATH];

    example_case(attention, text);
    cr_assert(peer_data_file(path, 1.0, &why), "%s", why.text);
    cr_assert(peer_data_write(path, attention, &why), "%s", why.text);
    cr_assert(safetensors_read(file, path, &why), "%s", why.text);
    unlink(path);
    double bytes = 0.0;
    for (size_t n = 0; n < file->count; n++)
        bytes += (double)file->tensors[n].bytes;
    cr_assert(eq(dbl, peer_data_bytes(&attention->job), bytes));
    return peer_data_fields(&attention->job);
}

/* Blocks of 34 and 18 bytes, whose rows lie one head beside the other. */
Test(bench_peer_data, pages_of_quantized_keys_are_sent_as_they_lie_in_blocks) {
    struct attention_case attention;
    struct safetensors file;
    json_t *fields = send("fwd f32 b3 h4/2 q5 k40 d64/32 k=bshd kcache=q8_0 vcache=q4_0 page=8 "
                          "pages=11 totalq=9 mask=bqk maskkeys=5",
                          &attention, &file);

    has_shape(&file, "q", "F32", 1, 4, 9, 64);
    has_shape(&file, "mask", "BOOL", 3, 1, 5, 5);
    has_list(&file, "page_table", 2, (size_t[]){3, 5});
    has_list(&file, "q_starts", 1, (size_t[]){4});
    const struct safetensor *k = safetensors_find(&file, "k"), *v = safetensors_find(&file, "v");
    check_text(k->dtype, "U8");
    cr_assert(memcmp(k->shape, (size_t[]){11, 2, 8, 68}, 4 * sizeof(size_t)) == 0);
    cr_assert(memcmp(v->shape, (size_t[]){11, 2, 8, 18}, 4 * sizeof(size_t)) == 0);
    const unsigned char *from = attention.in[INPUT_K].data; /* page 7, head 1, row 3 */
    cr_assert(memcmp(k->data + ((7 * 2 + 1) * 8 + 3) * 68, from + ((7 * 8 + 3) * 2 + 1) * 68, 68) ==
              0);
    is_field(fields, "k_dtype", "q8_0", 0);
    is_field(fields, "v_dtype", "q4_0", 0);
    is_field(fields, "o_dtype", "f32", 0);
    is_field(fields, "page_size", NULL, 8);
    is_field(fields, "total_q", NULL, 9);
    is_field(fields, "total_kv", NULL, 0);
    is_field(fields, "mask_keys", NULL, 5);
    json_decref(fields);
    safetensors_free(&file);
    case_free(&attention);
}

Test(bench_peer_data, block_lists_are_sent_for_each_head_or_once) {
    struct attention_case attention;
    struct safetensors file;
    json_t *fields =
        send("fwd f16 b2 h4 q33 k50 d8 vcache=bf16 odtype=f32 blocks=8x5:30:h", &attention, &file);

    has_list(&file, "block_offsets", 3, (size_t[]){1, 4, 6});
    has_list(&file, "block_entries", 3, (size_t[]){1, 4, 30});
    has_shape(&file, "k", "F16", 2, 4, 50, 8);
    has_shape(&file, "v", "BF16", 2, 4, 50, 8);
    is_field(fields, "k_dtype", "f16", 0);
    is_field(fields, "v_dtype", "bf16", 0);
    is_field(fields, "o_dtype", "f32", 0);
    is_field(fields, "block_q", NULL, 8);
    is_field(fields, "block_kv", NULL, 5);
    json_decref(fields);
    safetensors_free(&file);
    case_free(&attention);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Stored as (in, out), q, k and v side by side in rows of 20 + 10 + 6 columns, x as (3, 2, 7). */
#define LAYER                                                                                      \
    "layer bwd f32 b2 h4/2 q3 k3 d5/3 model=7 output=6 io packed biases obias seqfirst training"

enum { Q_COLUMNS = 20, K_COLUMNS = 10, V_COLUMNS = 6, ALL_COLUMNS = 36, MODEL = 7, OUTPUT = 6 };
enum { O_COLUMNS = 12, BATCH = 2, SEQ = 3 };

static const float *matrix(const struct safetensors *file, const char *name, size_t rank, size_t a,
                           size_t b, size_t c)
{
    const struct safetensor *t = safetensors_find(file, name);
    const size_t shape[3] = {a, b, c};

    cr_assert(t != NULL && t->rank == rank && strcmp(t->dtype, "F32") == 0, "%s", name);
    cr_assert(memcmp(t->shape, shape, rank * sizeof *shape) == 0, "%s", name);
    return (const float *)(const void *)t->data;
}

/* Each as (columns of the product, columns of what is multiplied), wherever it lies. */
static void parameters_are_sent_alone(const struct safetensors *file, const float *packed,
                                      const float *w_o, const float *biases)
{
    const float *w_k = matrix(file, "w_k", 2, K_COLUMNS, MODEL, 0);
    const float *w_v = matrix(file, "w_v", 2, V_COLUMNS, MODEL, 0);
    const float *b_v = matrix(file, "b_v", 1, V_COLUMNS, 0, 0);
    const float *out = matrix(file, "w_o", 2, OUTPUT, O_COLUMNS, 0);

    cr_assert(w_k[4 * MODEL + 3] == packed[3 * ALL_COLUMNS + Q_COLUMNS + 4]);
    cr_assert(w_v[4 * MODEL + 3] == packed[3 * ALL_COLUMNS + Q_COLUMNS + K_COLUMNS + 4]);
    cr_assert(b_v[2] == biases[Q_COLUMNS + K_COLUMNS + 2]);
    cr_assert(out[4 * O_COLUMNS + 3] == w_o[3 * OUTPUT + 4]);
}

/* The file's tensors but dy, the last of them, as the result of a peer. */
static void give_back(const struct safetensors *file, const char *path, size_t bytes)
{
    const struct safetensor *last = &file->tensors[file->count - 1];
    FILE *result = fopen(path, "wb");

    check_text(last->name, "dy");
    cr_assert(result != NULL && (size_t)(last->data - file->tensors[0].data) == bytes);
    cr_assert(eq(sz, fwrite(file->tensors[0].data, 1, bytes, result), bytes));
    cr_assert(fclose(result) == 0);
}

/* Gradients have the order of what they are gradients of: what was sent, given back for them, comes
 * to where it was. */
Test(bench_peer_data, a_layer_is_sent_in_one_order_and_comes_back_to_where_it_belongs) {
    struct attention_case attention;
    struct safetensors file;
    struct results results;
    struct message why;
    char path[PEER_DATA_PATH];
    json_t *fields = send(LAYER, &attention, &file);

    cr_assert(eq(sz, file.count, 10));
    const float *x = matrix(&file, "x", 3, BATCH, SEQ, MODEL);
    const float *in = attention.in[INPUT_X].data;
    cr_assert(x[(1 * SEQ + 2) * MODEL + 3] == in[(2 * BATCH + 1) * MODEL + 3]);
    matrix(&file, "dy", 3, BATCH, SEQ, OUTPUT);
    parameters_are_sent_alone(&file, attention.in[INPUT_W_Q].data, attention.in[INPUT_W_O].data,
                              attention.in[INPUT_B_Q].data);
    cr_assert(peer_data_file(path, 1.0, &why), "%s", why.text);
    give_back(&file, path, peer_data_result_bytes(&attention.job));
    cr_assert(peer_data_read(path, &attention.job, &results, &why), "%s", why.text);
    unlink(path);
    for (int input = INPUT_X; input < INPUT_DY; input++) {
        const struct block *sent = &attention.in[input];
        const void *got = results.out[OUTPUT_DX + input - INPUT_X];
        cr_assert(eq(int, got == NULL, sent->data == NULL), "input %d", input);
        cr_assert(got == NULL || memcmp(got, sent->data, sent->bytes) == 0, "input %d", input);
    }
    json_decref(fields);
    results_release(&results);
    safetensors_free(&file);
    case_free(&attention);
}

Test(bench_peer_data, a_layer_is_described_in_numbers_and_words) {
    static const struct {
        const char *key, *value;
    } fields[] = {{"operation", "\"layer fwd\""},
                  {"dtype", "\"f16\""},
                  {"heads", "2"},
                  {"seq_kv", "5"},
                  {"model", "6"},
                  {"context_model", "7"},
                  {"values_model", "9"},
                  {"output", "8"},
                  {"source", "\"separate\""},
                  {"biases", "true"},
                  {"output_bias", "false"}};
    struct job job;
    char reason[200];

    cr_assert(job_parse("layer fwd f16 b1 h2 q3 k5 d4 separate=7,9 model=6 output=8 biases", &job,
                        reason, sizeof reason),
              "%s", reason);
    json_t *json = peer_data_fields(&job);
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++) {
        char *text = json_dumps(json_object_get(json, fields[n].key), JSON_ENCODE_ANY);
        cr_assert(text != NULL, "%s", fields[n].key);
        check_text(text, fields[n].value);
        free(text);
    }
    json_decref(json);
}

/* ---------------------------------------------------------------------------------------------- */

Test(bench_peer_data, a_folder_without_room_or_of_no_use_is_named) {
    char path[PEER_DATA_PATH];
    struct message why;

    setenv("TMPDIR", "/nowhere", 1);
    cr_assert(not(peer_data_file(path, 1e18, &why)));
    check_text(why.text,
               "got no file: /nowhere has no room for 1e+12 MB; TMPDIR may name another folder");
    check_text(path, "");
    setenv("TMPDIR", "", 1);
    cr_assert(not(peer_data_file(path, 1e18, &why)));
    cr_assert(strncmp(why.text, "got no file: /tmp has no room", 29) == 0, "%s", why.text);
}

Test(bench_peer_data, a_full_disk_is_said) {
    struct attention_case attention;
    struct message why;

    if (access("/dev/full", W_OK) != 0)
        cr_skip_test("no /dev/full");
    example_case(&attention, "fwd f32 b1 h2 q50 k50 d64");
    cr_assert(not(peer_data_write("/dev/full", &attention, &why)));
    check_text(why.text, "got no tensors: /dev/full cannot be filled: No space left on device");
    case_free(&attention);
}

Test(bench_peer_data, what_is_no_text_becomes_question_marks) {
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"plain", "plain"},
        {"a\nb\x1b\x7f", "a?b??"},
        {"\u03b1 \u20ac \U0001f600", "\u03b1 \u20ac \U0001f600"},
        {"\xc2\x9b"
         "1m",
         "??1m"},                                    /* a control character in two bytes */
        {"a\u202eb\u2066c\u200fd", "a???b???c???d"}, /* what turns the direction of writing */
        {"cut \xe2\x82", "cut ??"},
        {"\xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80", "?? ??? ????"},
        {"\xff\x80", "??"},
    };
    char text[64];

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        snprintf(text, sizeof text, "%s", cases[n].text);
        ca_make_printable(text);
        check_text(text, cases[n].clean);
    }
}
