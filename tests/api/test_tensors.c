/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of clattn_problem_tensor() for the tensors of each operation. */
#include "tests/support/fixture.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* A tensor as "name type written (size) (stride)", where leading sizes of 1 are left out. */
static void print(const clattn_tensor *tensor, char *text, size_t bytes)
{
    const char *const kinds[] = {"read", "written", "updated"};
    size_t first = 0;
    int used =
        snprintf(text, bytes, "%s %s %s", tensor->name, tensor->type, kinds[tensor->written]);

    while (first < 4 && tensor->size[first] == 1)
        first++;
    for (size_t n = first; n < 5; n++)
        used += snprintf(text + used, bytes - (size_t)used, "%c%zu", n == first ? ' ' : ',',
                         tensor->size[n]);
    for (size_t n = first; n < 5; n++)
        used += snprintf(text + used, bytes - (size_t)used, "%c%zu", n == first ? ' ' : ',',
                         tensor->stride[n]);
}

/* The tensors of a problem, one a line, each of which must be expected; the others as well. */
static void expect_tensors(const char *problem, const char *const *expected, size_t count)
{
    const clattn_problem p = fixture_problem(problem);
    clattn_tensor tensor = {.struct_size = sizeof tensor};
    size_t n = 0;

    for (; clattn_problem_tensor(&p, n, &tensor) == CLATTN_SUCCESS && tensor.name; n++) {
        char text[256];
        size_t m = 0;
        print(&tensor, text, sizeof text);
        while (m < count && strcmp(expected[m], text) != 0)
            m++;
        cr_expect(m < count, "%s: %s", problem, text);
        cr_expect(tensor.broadcasts ==
                  (!strcmp(tensor.name, "bias") || !strcmp(tensor.name, "mask")) *
                      (p.operation <= CLATTN_BACKWARD));
    }
    cr_expect(n == count, "%s: %zu tensors", problem, n);
}

#define EXPECT_TENSORS(problem, ...)                                                               \
    expect_tensors(problem, (const char *const[]){__VA_ARGS__},                                    \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

Test(tensors, of_forward) {
    EXPECT_TENSORS(
        "fwd f16 b2 h4/2 q3 k64 d32 k=bshd kcache=q8_0 vcache=q4_0 odtype=f32 lse bias=f32:hk "
        "mask=bqk maskkeys=5 klen sinks",
        "q f16 read 2,4,3,32 384,96,32,1", "k q8_0 read 2,2,64,32 4096,32,64,1",
        "v q4_0 read 2,2,64,32 4096,2048,32,1", "o f32 written 2,4,3,32 384,96,32,1",
        "bias f32 read 2,4,3,64 0,64,0,1", "mask u8 read 2,4,3,5 15,0,5,1",
        "kv_lengths i32 read 2 1", "sinks f32 read 4 1", "lse f32 written 2,4,3 12,3,1");
    EXPECT_TENSORS("fwd bf16 b2 h4/2 q3 k10 d8/4 page=4 pages=9 totalq=5 alibi",
                   "q bf16 read 4,5,8 40,8,1", "k bf16 read 9,2,4,8 64,32,8,1",
                   "v bf16 read 9,2,4,4 32,16,4,1", "o bf16 written 4,5,4 20,4,1",
                   "slopes f32 read 4 1", "page_table i32 read 2,3 3,1", "q_starts i32 read 3 1");
}

Test(tensors, of_chosen_keys) {
    EXPECT_TENSORS("fwd f32 b2 h6/3 q4 k9 d8 topk=5 topkheads", "q f32 read 2,6,4,8 192,32,8,1",
                   "k f32 read 2,3,9,8 216,72,8,1", "v f32 read 2,3,9,8 216,72,8,1",
                   "o f32 written 2,6,4,8 192,32,8,1", "topk_indices i32 read 2,3,4,5 60,20,5,1");
}

Test(tensors, of_backward) {
    EXPECT_TENSORS("bwd f16 b2 h4 q8 k8 d8 lse bias=f16:hqk blocks=4x2:7:h dbias",
                   "q f16 read 2,4,8,8 256,64,8,1", "k f16 read 2,4,8,8 256,64,8,1",
                   "v f16 read 2,4,8,8 256,64,8,1", "o f16 read 2,4,8,8 256,64,8,1",
                   "d_o f16 read 2,4,8,8 256,64,8,1", "lse f32 read 2,4,8 32,8,1",
                   "bias f16 read 2,4,8,8 0,64,8,1", "dbias f16 written 4,8,8 64,8,1",
                   "block_offsets i32 read 4,1,3 3,3,1", "block_entries i32 read 4,1,7 7,7,1",
                   "dq f16 written 2,4,8,8 256,64,8,1", "dk f16 written 2,4,8,8 256,64,8,1",
                   "dv f16 written 2,4,8,8 256,64,8,1");
}

Test(tensors, of_other_operations) {
    EXPECT_TENSORS("proj bf16 b2 h3 q4 d8/5 w=oi bias=f32 accumulate",
                   "x bf16 read 2,3,4,8 96,32,8,1", "w bf16 read 3,8,3,5 8,1,120,24",
                   "bias f32 read 3,1,5 5,5,1", "y bf16 updated 2,3,4,5 60,20,5,1");
    EXPECT_TENSORS("merge f16 b2 h3 q4 d8 n5", "parts f16 read 5,2,3,4,8 192,96,32,8,1",
                   "parts_lse f32 read 5,2,3,4 24,12,4,1", "o f16 written 2,3,4,8 96,32,8,1",
                   "lse f32 written 2,3,4 12,4,1");
    EXPECT_TENSORS("append f32 b2 h4/2 q3 k16 d32 cache=f16 vcache=q4_0 klen pos "
                   "rope=halves:16:tables:9 queries",
                   "q f32 read 2,4,3,32 384,96,32,1", "q_out f32 written 2,4,3,32 384,96,32,1",
                   "k f32 read 2,2,3,32 192,96,32,1", "v f32 read 2,2,3,32 192,96,32,1",
                   "k_cache f16 updated 2,2,16,32 1024,512,32,1",
                   "v_cache q4_0 updated 2,2,16,32 1024,512,32,1", "kv_lengths i32 read 2 1",
                   "positions i32 read 2,3 3,1", "cos f32 read 9,8 8,1", "sin f32 read 9,8 8,1");
}

Test(tensors, of_no_problem) {
    clattn_problem p = fixture_problem("fwd f32 q1 d8");
    clattn_tensor tensor = {.struct_size = sizeof tensor, .name = "garbage"};

    cr_expect(clattn_problem_tensor(&p, 4, &tensor) == CLATTN_SUCCESS && !tensor.name);
    cr_expect(clattn_problem_tensor(&p, SIZE_MAX, &tensor) == CLATTN_SUCCESS && !tensor.name);
    cr_expect(clattn_problem_tensor(&p, 0, NULL) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_problem_tensor(NULL, 0, &tensor) == CLATTN_INVALID_ARGUMENT);
    p.heads = 0;
    tensor.name = "garbage";
    cr_expect(clattn_problem_tensor(&p, 0, &tensor) == CLATTN_INVALID_PROBLEM && !tensor.name);
    tensor.struct_size = 8;
    cr_expect(clattn_problem_tensor(&p, 0, &tensor) == CLATTN_INVALID_ARGUMENT);
}
