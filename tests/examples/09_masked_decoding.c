/* SPDX-License-Identifier: Apache-2.0 */
/* 09: masked decoding. A model that writes must not look ahead: with a causal mask word i sees
 * words 0 to i. So the result for a word never changes when more words follow. A text can be
 * decoded word by word, with keys and values in a cache, and one plan serves all lengths. */
#include "../data/six_words.h"
#include "example.h"
#include <math.h>

/* The triangle: nothing above the diagonal, and rows that sum to one. */
static void show_triangle(float weights[WORDS][WORDS])
{
    for (int i = 0; i < WORDS; i++) {
        float sum = 0;
        printf("%8s", words[i]);
        for (int j = 0; j < WORDS; j++) {
            printf(" %6.4f", weights[i][j]);
            check(j <= i || weights[i][j] == 0.0f, "looking ahead");
            sum += weights[i][j];
        }
        printf("\n");
        check(fabsf(sum - 1.0f) < 1e-5f, "sum of weights");
    }
}

/* The words one at a time: each adds its key and value, and attends to what the cache holds so
 * far, whose length the device reads. The rest of the cache may hold anything. */
static void decode(const struct device *d, float o[WORDS][EMBEDDING])
{
    float nothing[WORDS * EMBEDDING];
    clattn_plan *plan;

    for (int n = 0; n < WORDS * EMBEDDING; n++)
        nothing[n] = NAN;
    const clattn_problem problem = problem_of("fwd f32 q1 k6 d16 klen");
    check(clattn_plan_create(d->context, &problem, NULL, &plan) == CLATTN_SUCCESS, "plan");
    const clattn_buffer length = make_buffer(d, 1, NULL); /* a cl_int, as long as a float */
    const clattn_forward_tensors tensors = {.struct_size = sizeof tensors,
                                            .q = make_buffer(d, EMBEDDING, NULL),
                                            .k = make_buffer(d, WORDS * EMBEDDING, nothing),
                                            .v = make_buffer(d, WORDS * EMBEDDING, nothing),
                                            .o = make_buffer(d, EMBEDDING, NULL),
                                            .kv_lengths = length};

    for (cl_int word = 0; word < WORDS; word++) {
        const clattn_buffer key = {.buffer = tensors.k.buffer, .offset = (size_t)word * EMBEDDING};
        const clattn_buffer value = {.buffer = tensors.v.buffer,
                                     .offset = (size_t)word * EMBEDDING};
        const cl_int in_use = word + 1;
        write_buffer(d, tensors.q, EMBEDDING, embedded[word]);
        write_buffer(d, key, EMBEDDING, embedded[word]);
        write_buffer(d, value, EMBEDDING, embedded[word]);
        check_opencl(clEnqueueWriteBuffer(d->queue, length.buffer, CL_TRUE, 0, sizeof in_use,
                                          &in_use, 0, NULL, NULL),
                     "clEnqueueWriteBuffer");
        check(clattn_attention_forward(plan, d->queue, &tensors, 0, NULL, NULL) == CLATTN_SUCCESS,
              "decoding");
        read_buffer(d, tensors.o, EMBEDDING, o[word]);
    }
    clReleaseMemObject(tensors.q.buffer);
    clReleaseMemObject(tensors.k.buffer);
    clReleaseMemObject(tensors.v.buffer);
    clReleaseMemObject(tensors.o.buffer);
    clReleaseMemObject(length.buffer);
    clattn_plan_release(plan);
}

int main(void)
{
    float weights[WORDS][WORDS], whole[WORDS][EMBEDDING], decoded[WORDS][EMBEDDING];
    const clattn_host_forward_tensors tensors = {
        .struct_size = sizeof tensors,
        .q = embedded, /* words as they are: no weight matrices */
        .k = embedded,
        .v = embedded,
        .o = whole,
        .scores = &weights[0][0]};
    const struct device d = open_device();
    float difference = 0;

    const clattn_problem problem = problem_of("fwd f32 q6 d16 causal=tl scores=weights");
    check(clattn_attention_forward_host(d.context, &problem, NULL, &tensors) == CLATTN_SUCCESS,
          "attention");
    show_triangle(weights);

    decode(&d, decoded);
    for (int i = 0; i < WORDS; i++)
        for (int n = 0; n < EMBEDDING; n++)
            difference = fmaxf(difference, fabsf(whole[i][n] - decoded[i][n]));
    printf("word by word and at once differ by at most %.1e\n", (double)difference);
    check(difference < 1e-5f, "decoding");
    close_device(&d);
    return 0;
}
