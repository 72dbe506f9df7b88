/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of kernel parameters before a program's source. */
#include "execute/launch.h"
#include "families/registry.h"
#include "problem/operations.h"
#include "problem/problem.h"
#include "program/program_parameters.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static struct ca_problem checked(const char *text)
{
    clattn_problem p;
    struct ca_problem made;

    cr_assert(clattn_problem_parse(text, &p, NULL, 0) == CLATTN_SUCCESS, "%s", text);
    cr_assert(ca_problem_make(&p, &made, NULL, 0) == CLATTN_SUCCESS, "%s", text);
    return made;
}

static void expect(const char *family, const char *problem, const char *want)
{
    const struct ca_problem p = checked(problem);
    char text[CA_PARAMETERS_TEXT];

    cr_assert(ca_program_parameters(ca_family_find(family), &p, text, sizeof text));
    cr_expect(eq(str, text, (char *)want));
}

/* Attention has a member for each operand, absent or not. */
#define ATTENTION_MEMBERS                                                                          \
    "#define ARGUMENTS_MEMBERS const __global storage *q; const __global k_storage "               \
    "*k; const __global v_storage *v; __global o_storage *o; const __global "                      \
    "bias_storage *bias; const __global uchar *mask; const __global float *slopes; "               \
    "const __global float *sinks; const __global int *q_lengths; const __global "                  \
    "int *kv_lengths; const __global int *page_table; const __global int "                         \
    "*block_offsets; const __global int *block_entries; const __global int "                       \
    "*q_starts; const __global int *kv_starts; __global float *lse; __global float "               \
    "*scores; __global float *key_sums; const __global int *topk_indices; const "                  \
    "__global float *k_scales; const __global float *v_scales; const "                             \
    "__global uchar *function_0; const __global uchar *function_1; const __global "                \
    "uchar *function_2; const __global uchar *function_3; const __global uchar "                   \
    "*function_4; const __global uchar *function_5; const __global storage *d_o; "                 \
    "const __global float *dlse; __global o_storage *dq; __global o_storage *dk; "                 \
    "__global o_storage *dv; __global bias_storage *dbias; __global float "                        \
    "*dslopes; __global float *dsinks; __global float *dfunction; __global float "                 \
    "*workspace;\n"

/* An operand that is absent has no parameter; one that is only read is const. */
Test(program_parameters, are_what_the_problem_has) {
    expect(
        "fused_cpu UNIT=vector", "fwd f16 q9 k9 d8 bias=f32:qk klen lse",
        "#define STRIDES_MEMBERS long q_stride[4]; long k_stride[4]; long v_stride[4]; "
        "long o_stride[4]; long bias_stride[4]; long mask_stride[4]; long k_scales_stride[4]; "
        "long v_scales_stride[4];\n"
        "#define OFFSETS_STRUCTS struct mark_pairs_offsets {long bias; long kv_lengths; "
        "long workspace; struct attention_call call;}; struct fused_cpu_offsets {long q; long k; "
        "long v; long o; long bias; long kv_lengths; long lse; long workspace; "
        "struct attention_call call;};\n"
        "#define PARAMETERS_mark_pairs const struct attention_shape a, "
        "const struct mark_pairs_offsets at, const __global bias_storage *restrict bias, "
        "const __global int *restrict kv_lengths, __global float *restrict workspace\n"
        "#define ARGUMENTS_mark_pairs {&a, &at.call, .bias = bias + at.bias, "
        ".kv_lengths = kv_lengths + at.kv_lengths, "
        ".workspace = (__global float *)workspace + at.workspace}\n"
        "#define PARAMETERS_fused_cpu const struct attention_shape a, "
        "const struct fused_cpu_offsets at, const __global storage *restrict q, "
        "const __global k_storage *restrict k, const __global v_storage *restrict v, "
        "__global o_storage *restrict o, const __global bias_storage *restrict bias, "
        "const __global int *restrict kv_lengths, __global float *restrict lse, "
        "const __global float *restrict workspace\n"
        "#define ARGUMENTS_fused_cpu {&a, &at.call, .q = q + at.q, .k = k + at.k, .v = v + at.v, "
        ".o = o + at.o, .bias = bias + at.bias, .kv_lengths = kv_lengths + at.kv_lengths, "
        ".lse = lse + at.lse, .workspace = (__global float *)workspace + "
        "at.workspace}\n" ATTENTION_MEMBERS);
}

/* Quantized keys and values begin with a block. */
Test(program_parameters, of_quantized_caches) {
    expect("naive", "fwd f16 q9 k9 d32 kcache=q8_0 vcache=q4_0",
           "#define STRIDES_MEMBERS long q_stride[4]; long k_stride[4]; long v_stride[4]; "
           "long o_stride[4]; long bias_stride[4]; long mask_stride[4]; long k_scales_stride[4]; "
           "long v_scales_stride[4];\n"
           "#define OFFSETS_STRUCTS struct naive_offsets {long q; long k; long v; long o; "
           "struct attention_call call;};\n"
           "#define PARAMETERS_naive const struct attention_shape a, const struct naive_offsets "
           "at, const __global storage *restrict q, "
           "const __global k_storage *restrict k, const __global v_storage *restrict v, "
           "__global o_storage *restrict o\n"
           "#define ARGUMENTS_naive {&a, &at.call, .q = q + at.q, .k = k_place(k, at.k), "
           ".v = v_place(v, at.v), .o = o + at.o}\n" ATTENTION_MEMBERS);
}

/* Names of projections, and a workspace that one kernel writes and the other reads. */
Test(program_parameters, of_projections) {
    expect(
        "projection_cpu UNIT=vector", "proj f32 q8 d8",
        "#define PARAMETERS_projection_cpu const struct projection_shape a, "
        "const struct projection_offsets at, const __global storage *restrict x, "
        "const __global storage *restrict w, __global storage *restrict y, "
        "__global float *restrict workspace\n"
        "#define ARGUMENTS_projection_cpu {&a, &at, .x = x + at.x, .w = w + at.w, .y = y + at.y, "
        ".workspace = (__global float *)workspace + at.workspace}\n"
        "#define PARAMETERS_projection_sum const struct projection_shape a, "
        "const struct projection_offsets at, __global storage *restrict y, "
        "const __global float *restrict workspace\n"
        "#define ARGUMENTS_projection_sum {&a, &at, .y = y + at.y, "
        ".workspace = (__global float *)workspace + at.workspace}\n"
        "#define ARGUMENTS_MEMBERS const __global storage *x; const __global storage *w; "
        "const __global bias_storage *bias; __global storage *y; __global float *workspace;\n");
}

/* An operation's structs and operands are its own. */
Test(program_parameters, of_merges_and_appends) {
    expect(
        "merge_rows", "merge f32 q1 d8 n2",
        "#define PARAMETERS_merge_rows const struct merge_shape a, const struct merge_offsets at, "
        "const __global storage *restrict parts, const __global float *restrict parts_lse, "
        "__global storage *restrict o, __global float *restrict lse\n"
        "#define ARGUMENTS_merge_rows {&a, &at, .parts = parts + at.parts, "
        ".parts_lse = parts_lse + at.parts_lse, .o = o + at.o, .lse = lse + at.lse}\n"
        "#define ARGUMENTS_MEMBERS const __global storage *parts; "
        "const __global float *sinks; const __global float *parts_lse; __global storage *o; "
        "__global float *lse; "
        "__global float *workspace;\n");
    expect("append_tokens", "append f32 q1 k8 d8 klen rope=pairs:8:10 queries",
           "#define PARAMETERS_append_tokens const struct append_shape a, "
           "const struct append_offsets at, const __global storage *restrict k, "
           "const __global storage *restrict v, __global void *restrict k_cache, "
           "__global void *restrict v_cache, const __global int *restrict kv_lengths\n"
           "#define ARGUMENTS_append_tokens {&a, &at, .k = k + at.k, .v = v + at.v, "
           ".k_cache = k_cache, .v_cache = v_cache, .kv_lengths = kv_lengths + at.kv_lengths}\n"
           "#define PARAMETERS_rotate_queries const struct append_shape a, "
           "const struct append_offsets at, const __global storage *restrict q, "
           "__global storage *restrict q_out, const __global int *restrict kv_lengths\n"
           "#define ARGUMENTS_rotate_queries {&a, &at, .q = q + at.q, .q_out = q_out + at.q_out, "
           ".kv_lengths = kv_lengths + at.kv_lengths}\n"
           "#define ARGUMENTS_MEMBERS const __global storage *q; __global storage *q_out; "
           "const __global storage *k; const __global storage *v; __global void *k_cache; "
           "__global void *v_cache; const __global int *kv_lengths; "
           "const __global int *page_table; const __global int *positions; "
           "const __global int *slots; const __global float *cos; const __global float *sin; "
           "const __global float *k_scales; const __global float *v_scales; "
           "__global float *workspace;\n");
}

/* OpenCL guarantees 1024 bytes. What a problem lacks takes none of them. This fails while there is still room for one
 * operand with strides, its offset and its pointer. */
Test(program_parameters, leave_room_for_an_operand) {
    enum { GUARANTEED = 1024, OPERAND = 4 * 8 + 8 + 8 };
    const size_t most = ca_most_argument_bytes();

    cr_expect(le(sz, most + OPERAND, (size_t)GUARANTEED), "the largest list has %zu bytes", most);
}

/* Every family's lists for a problem that has everything fit, one parameter for each argument set. */
Test(program_parameters, are_as_many_as_arguments) {
    static const char *const everything[CA_NUM_OPERATIONS] = {
        "fwd f16 q9 k9 d8 bias=f16:qk mask=qk alibi sinks qlen klen blocks=2x3:4 lse scores=raw",
        ("bwd bf16 q9 k9 d8 bias=f16:qk mask=qk alibi sinks qlen klen blocks=2x3:4:bh dbias "
         "dslopes "
         "dsinks"),
        "proj f32 q8 d8 bias=f32 accumulate",
        "merge f32 q8 d8 n2 accumulate",
        "append f32 q8 k8 d8 klen slots pos rope=pairs:8:tables:9 queries",
        "bwd2 f32 q9 k9 d8 qlen klen",
        "indexer f32 h2 q9 k9 d8 topk=1 causal=br qlen klen scores"};

    for (size_t f = 0; ca_family_at(f); f++) {
        const struct ca_family *family = ca_family_at(f);
        const struct ca_problem p = checked(everything[family->operation]);
        struct ca_tensor tensors[CA_WORKSPACE];
        char text[CA_PARAMETERS_TEXT];
        cr_assert(ca_program_parameters(family, &p, text, sizeof text));
        ca_problem_tensors(&p.normal, tensors);
        char *line = text;
        if (ca_is_attention(&p.normal)) /* the strides, and the structs of offsets */
            line = strchr(strchr(text, '\n') + 1, '\n') + 1;
        for (size_t s = 0; s < family->num_stages; s++) {
            const uint64_t arguments = family->stages[s].arguments;
            size_t want = 2, got = 1;
            if (!ca_stage_exists(&family->stages[s], &p)) /* no marks beside block lists */
                continue;
            for (unsigned n = 0; n < CA_NUM_ARGUMENTS; n++)
                want += (arguments & CA_BIT(n)) && (n == CA_WORKSPACE || tensors[n].present);
            for (const char *c = line; *c != '\n'; c++)
                got += *c == ',';
            cr_expect(eq(sz, got, want), "%s of %s", family->stages[s].kernel, family->full_name);
            line = strchr(line, '\n') + 1;
            size_t set = 2; /* the shape, the offsets and each operand by its name */
            for (const char *c = line; *c != '\n'; c++)
                set += c[0] == ' ' && c[1] == '.';
            cr_expect(eq(sz, set, want), "arguments of %s", family->stages[s].kernel);
            line = strchr(line, '\n') + 1;
        }
        cr_expect(zero(int, strncmp(line, "#define ARGUMENTS_MEMBERS ", 26)));
        cr_expect(zero(int, ca_program_parameters(family, &p, text, 100)));
    }
}
