/* SPDX-License-Identifier: Apache-2.0 */
/* Quantizing keys and values: blocks computed by hand, the host against formulas of ggml's, and
 * the device against the host. Caches grow, and every mistake of a caller is refused. */
#include "tests/data/float8/float8.h"
#include "tests/data/ggml/blocks.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/rng.h"
#include "tests/support/storage.h"
#include "tests/trials/trial.h"
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(quantize, .timeout = 300);

/* ---- formats --------------------------------------------------------------------------------- */

static clattn_quantization one_block(const clattn_cache to)
{
    return (clattn_quantization){.struct_size = sizeof(clattn_quantization),
                                 .from = CLATTN_F32,
                                 .to = to,
                                 .size = {1, 1, 1, 32}};
}

static void expect_block(const clattn_cache to, const float x[32], const unsigned char *want,
                         const char *what)
{
    const clattn_quantization q = one_block(to);
    unsigned char got[36];
    const size_t bytes = value_block_bytes(to);

    memset(got, 0xee, sizeof got);
    cr_assert(clattn_quantize_host(&q, x, got) == CLATTN_SUCCESS);
    for (size_t n = 0; n < bytes; n++)
        cr_assert(got[n] == want[n], "%s: byte %zu is %#x, not %#x", what, n, got[n], want[n]);
    cr_assert(got[bytes] == 0xee);
}

/* Worked out by hand: d = 0.5, whose binary16 is 0x3800, and ties that go away from zero. */
Test(quantize, q8_by_hand) {
    float x[32] = {63.5f, -63.5f, 0.25f, -0.25f, 0.75f, 1.0f, -1.25f, 0.2f, -31.0f};
    unsigned char want[34] = {0x00, 0x38, 127, 129, 1, 255, 2, 2, 253, 0, 194};

    x[31] = 8.0f;
    want[33] = 16;
    expect_block(CLATTN_CACHE_Q8_0, x, want, "ties");
    for (size_t n = 0; n < 32; n++)
        cr_assert(value_get_quantized(CLATTN_CACHE_Q8_0, want, n) ==
                  0.5 * (want[2 + n] < 128 ? want[2 + n] : want[2 + n] - 256));
}

/* d = -8 / -8 = 1, 0x3c00: the largest magnitude comes first with a minus, so it is nibble 0; its
 * opposite does not fit and becomes 15. Values n and n + 16 share a byte. */
Test(quantize, q4_by_hand) {
    float x[32] = {-8.0f, 8.0f, 0.0f, 1.0f, -1.0f, 0.5f, -0.5f, 7.0f};
    unsigned char want[18] = {0x00, 0x3c, 0x80, 0x8f, 0x88, 0x89, 0x87, 0x89, 0x88,
                              0x8f, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x18};

    x[31] = -7.0f; /* the high half of the last byte */
    expect_block(CLATTN_CACHE_Q4_0, x, want, "one");
    cr_assert(value_get_quantized(CLATTN_CACHE_Q4_0, want, 0) == -8.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q4_0, want, 1) == 7.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q4_0, want, 31) == -7.0);
    for (size_t n = 0; n < 32; n++) /* a positive peak has a negative d */
        x[n] = -x[n];
    want[1] = 0xbc;
    expect_block(CLATTN_CACHE_Q4_0, x, want, "mirrored");
}

/* d = 16 / -16 = -1, 0xbc00. Codes are 16 - x to nearest; -16 does not fit and becomes 31, whose number is 15. The fifth
 * bits are set where the code is 16 or more, so for x up to 0.5. */
Test(quantize, q5_by_hand) {
    float x[32] = {16.0f, -16.0f, 0.0f, 1.0f, -1.0f, 0.5f, -0.5f, 2.5f};
    unsigned char want[22] = {0x00, 0xbc, 0x76, 0xff, 0xff, 0x7f, 0x00, 0x0f, 0x00, 0x0f, 0x01,
                              0x00, 0x01, 0x0e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10};

    x[31] = 15.0f; /* code 1, in the high half of the last byte */
    expect_block(CLATTN_CACHE_Q5_0, x, want, "q5_0");
    cr_assert(value_get_quantized(CLATTN_CACHE_Q5_0, want, 0) == 16.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q5_0, want, 1) == -15.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q5_0, want, 7) == 2.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q5_0, want, 31) == 15.0);
}

/* The peak, 127, gives a first scale of -1, so codes are of the numbers nearest to -x; only the peak is on its number,
 * -127. The fitted scale is the sum of x^3 n over the sum of x^2 n^2, here with x = 127 and 104 twice, whose
 * number is -104: it stays -1, 0xbc00. Half way between two numbers the greater one is taken. */
Test(quantize, iq4_by_hand) {
    float x[32] = {127.0f, 104.0f, 0.0f, -1.0f};
    unsigned char want[18] = {0x00, 0xbc, 0x80, 0x81, 0x88, 0x88, 0x88, 0x88, 0x88,
                              0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x18};

    x[31] = 104.0f;
    expect_block(CLATTN_CACHE_IQ4_NL, x, want, "iq4_nl");
    cr_assert(value_get_quantized(CLATTN_CACHE_IQ4_NL, want, 0) == 127.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_IQ4_NL, want, 31) == 104.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_IQ4_NL, want, 3) == -1.0);
    for (unsigned code = 0; code < 16; code++) {
        const int numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};
        const unsigned char block[18] = {0x00, 0x3c, (unsigned char)(code << 4)};
        cr_expect(value_get_quantized(CLATTN_CACHE_IQ4_NL, block, 16) == numbers[code]);
    }
}

/* The least value is -2, 0xc000, and the largest 13, so d = 15 / 15 = 1, 0x3c00. Ties go up, since values less the least
 * are never negative. */
Test(quantize, q4_1_by_hand) {
    float x[32] = {-2.0f, 13.0f, 0.0f, 0.5f, -0.5f, 12.5f, 12.4f};
    unsigned char want[20] = {0x00, 0x3c, 0x00, 0xc0, 0x20, 0x2f, 0x22, 0x23, 0x22, 0x2f,
                              0x2e, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x12};

    x[31] = -1.0f; /* the high half of the last byte */
    expect_block(CLATTN_CACHE_Q4_1, x, want, "q4_1");
    cr_assert(value_get_quantized(CLATTN_CACHE_Q4_1, want, 0) == -2.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q4_1, want, 1) == 13.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q4_1, want, 31) == -1.0);
    for (size_t n = 0; n < 32; n++) /* all are 3, 0x4200: d is 0 */
        x[n] = 3.0f;
    memset(want, 0, sizeof want);
    want[3] = 0x42;
    expect_block(CLATTN_CACHE_Q4_1, x, want, "one value");
}

/* Likewise, from -1, 0xbc00, to 30. The fifth bits are set from 15 on, whose code is 16. */
Test(quantize, q5_1_by_hand) {
    float x[32] = {-1.0f, 30.0f, 0.0f, 15.0f, 14.0f, 14.5f, 14.4f};
    unsigned char want[24] = {0x00, 0x3c, 0x00, 0xbc, 0x2a, 0x00, 0x00, 0x80,
                              0x10, 0x1f, 0x11, 0x10, 0x1f, 0x10, 0x1f, 0x11,
                              0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x21};

    x[31] = 17.0f; /* code 18, in the high half of the last byte */
    expect_block(CLATTN_CACHE_Q5_1, x, want, "q5_1");
    cr_assert(value_get_quantized(CLATTN_CACHE_Q5_1, want, 1) == 30.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q5_1, want, 3) == 15.0);
    cr_assert(value_get_quantized(CLATTN_CACHE_Q5_1, want, 31) == 17.0);
}

/* The blocks that another implementation of ggml's formats makes (tests/data/ggml). */
Test(quantize, blocks_are_ggmls) {
    for (size_t f = 0; f < sizeof ggml_blocks / sizeof *ggml_blocks; f++)
        for (size_t n = 0; n < GGML_BLOCKS; n++)
            expect_block(ggml_blocks[f].format, ggml_values[n], ggml_blocks[f].blocks[n], "gguf's");
}

/* Codes and numbers of PyTorch's floats of eight bits (tests/data/float8), also by the judge. */
Test(quantize, floats_of_8_bits_are_pytorchs) {
    for (size_t f = 0; f < sizeof float8_formats / sizeof *float8_formats; f++) {
        const clattn_cache format = float8_formats[f].format;
        unsigned char codes[256];

        for (size_t n = 0; n < FLOAT8_VALUES; n += 32)
            expect_block(format, float8_values + n, float8_formats[f].codes + n, "PyTorch's");
        for (size_t code = 0; code < 256; code++)
            codes[code] = (unsigned char)code;
        for (size_t code = 0; code < 256; code++) {
            const double got = value_get_quantized(format, codes, code);
            const double host = ca_format_of(format)->number((unsigned)code);
            const double want = (double)float8_formats[f].numbers[code];
            cr_expect(isnan(want) ? isnan(got) && isnan(host) : got == want && host == want,
                      "code %zu is %g, not %g", code, got, want);
        }
    }
}

/* Nearest even, as PyTorch's round(), and to the next number from outside. */
Test(quantize, signed_bytes_by_hand) {
    const float x[32] = {0.5f,   1.5f,    -0.5f,   -1.5f,     2.49f, 126.6f, 127.4f,
                         200.0f, -127.5f, -128.6f, -INFINITY, NAN,   1e-40f};
    unsigned char want[32] = {0, 2, 0, 254, 2, 127, 127, 127, 128, 128, 128, 0, 0};

    expect_block(CLATTN_CACHE_INT8, x, want, "int8");
    for (unsigned code = 0; code < 256; code++) {
        const unsigned char block[32] = {(unsigned char)code};
        cr_expect(value_get_quantized(CLATTN_CACHE_INT8, block, 0) == (signed char)code);
    }
}

Test(quantize, special_blocks) {
    const float specials[] = {NAN, INFINITY, -INFINITY};
    unsigned char q8[34] = {0}, q4[18] = {0, 0x80}; /* 0 / -8 is -0 */
    float x[32] = {0.0f};

    memset(q4 + 2, 0x88, 16);
    expect_block(CLATTN_CACHE_Q8_0, x, q8, "zeros");
    expect_block(CLATTN_CACHE_Q4_0, x, q4, "zeros");
    x[5] = -FLT_MIN;
    q4[1] = 0;
    expect_block(CLATTN_CACHE_Q8_0, x, q8, "almost zeros");
    expect_block(CLATTN_CACHE_Q4_0, x, q4, "almost zeros");
    q8[1] = q4[1] = 0x7e;
    for (size_t n = 0; n < 3; n++) {
        x[n] = specials[n];
        x[31] = 1.0f;
        expect_block(CLATTN_CACHE_Q8_0, x, q8, "not finite");
        expect_block(CLATTN_CACHE_Q4_0, x, q4, "not finite");
        x[n] = 0.0f;
    }
    unsigned char offset[24] = {0};
    for (size_t n = 0; n < 32; n++)
        x[n] = -0.0f; /* a zero has no sign */
    expect_block(CLATTN_CACHE_Q4_1, x, offset, "zeros");
    expect_block(CLATTN_CACHE_Q5_1, x, offset, "zeros");
    x[3] = INFINITY;
    offset[1] = 0x7e;
    expect_block(CLATTN_CACHE_Q4_1, x, offset, "not finite");
    expect_block(CLATTN_CACHE_Q5_1, x, offset, "not finite");
    memset(x, 0, sizeof x);
    x[31] = 127.0f * 0x1p17f;
    q8[1] = 0x7c; /* d is too large for binary16 */
    q8[33] = 127;
    expect_block(CLATTN_CACHE_Q8_0, x, q8, "too large");
}

Test(quantize, bytes) {
    cr_assert(clattn_quantized_bytes(CLATTN_CACHE_Q8_0, 0) == 0);
    cr_assert(clattn_quantized_bytes(CLATTN_CACHE_Q8_0, 1) == 34);
    cr_assert(clattn_quantized_bytes(CLATTN_CACHE_Q8_0, 64) == 68);
    cr_assert(clattn_quantized_bytes(CLATTN_CACHE_Q4_0, 65) == 54);
    cr_assert(clattn_quantized_bytes(CLATTN_CACHE_Q8_0, SIZE_MAX) == 0);
    cr_assert(clattn_quantized_bytes(CLATTN_CACHE_PLAIN, 64) == 0);
    cr_assert(clattn_quantized_bytes((clattn_cache)CA_NUM_CACHES, 64) == 0);
}

/* ---- the host against formulas -------------------------------------------------------------- */

/* ggml's formats, from their definition. */
static void reference_block(const clattn_cache to, const float x[32], unsigned char *block)
{
    float peak = 0.0f;

    for (int n = 0; n < 32; n++)
        peak = fabsf(x[n]) > fabsf(peak) ? x[n] : peak;
    const int half = to == CLATTN_CACHE_Q5_0 ? 16 : 8, codes = to == CLATTN_CACHE_Q5_0 ? 6 : 2;
    const volatile float d = to == CLATTN_CACHE_Q8_0 ? fabsf(peak) / 127.0f : peak / (float)-half;
    const volatile float factor = d != 0.0f ? 1.0f / d : 0.0f;
    value_set(CLATTN_F16, block, 0, d);
    memset(block + 2, 0, value_block_bytes(to) - 2);
    for (int n = 0; n < 32; n++) {
        const volatile float product = x[n] * factor, shifted = product + ((float)half + 0.5f);
        const unsigned code = (unsigned)fmin(2.0 * half - 1.0, fmax(0.0, trunc(shifted)));
        if (to == CLATTN_CACHE_Q8_0) {
            block[2 + n] = (unsigned char)(signed char)lroundf(product);
            continue;
        }
        block[codes + n % 16] |= (unsigned char)((code & 15) << (n < 16 ? 0 : 4));
        if (to == CLATTN_CACHE_Q5_0)
            block[2 + n / 8] |= (unsigned char)(code / 16 << n % 8);
    }
}

/* quantize_row_q4_1_ref() and quantize_row_q5_1_ref() of ggml, with every operation rounded. */
static void reference_offset_block(const clattn_cache to, const float x[32], unsigned char *block)
{
    const unsigned most = to == CLATTN_CACHE_Q5_1 ? 31 : 15,
                   codes = to == CLATTN_CACHE_Q5_1 ? 8 : 4;
    float least = FLT_MAX, greatest = -FLT_MAX;

    for (int n = 0; n < 32; n++) {
        least = x[n] < least ? x[n] : least;
        greatest = x[n] > greatest ? x[n] : greatest;
    }
    const volatile float range = greatest - least, d = range / (float)most;
    const volatile float factor = d != 0.0f ? 1.0f / d : 0.0f;
    memset(block, 0, value_block_bytes(to));
    value_set(CLATTN_F16, block, 0, d);
    value_set(CLATTN_F16, block, 1, least == 0.0f ? 0.0f : least);
    for (int n = 0; n < 32; n++) {
        const volatile float above = x[n] - least, product = above * factor,
                             shifted = product + 0.5f;
        const unsigned code = (unsigned)fmin(most, trunc(shifted));
        block[codes + n % 16] |= (unsigned char)((code & 15) << (n < 16 ? 0 : 4));
        if (to == CLATTN_CACHE_Q5_1)
            block[4 + n / 8] |= (unsigned char)(code / 16 << n % 8);
    }
}

/* quantize_row_iq4_nl_ref() of ggml, with every operation rounded. */
static void reference_iq4_block(const float x[32], unsigned char block[18])
{
    static const int numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
    volatile float products = 0.0f, squares = 0.0f;
    float peak = 0.0f;

    for (int n = 0; n < 32; n++)
        peak = fabsf(x[n]) > fabsf(peak) ? x[n] : peak;
    volatile float d = peak / -127.0f;
    const volatile float factor = d != 0.0f ? 1.0f / d : 0.0f;
    memset(block, 0, 18);
    for (int n = 0; n < 32; n++) {
        const volatile float y = x[n] * factor, weight = x[n] * x[n];
        unsigned code = 0;
        for (unsigned other = 1; other < 16; other++)
            if (fabsf(y - (float)numbers[other]) <= fabsf(y - (float)numbers[code]))
                code = other;
        const volatile float weighted = weight * (float)numbers[code];
        const volatile float product = weighted * x[n], square = weighted * (float)numbers[code];
        products += product;
        squares += square;
        block[2 + n % 16] |= (unsigned char)(code << (n < 16 ? 0 : 4));
    }
    d = squares > 0.0f ? products / squares : d;
    value_set(CLATTN_F16, block, 0, d);
}

/* A block whose scale has a significand of only ones, the hardest to divide by, and values around ties. */
static void draw_hard_block(struct rng *r, float x[32])
{
    const float scale = ldexpf(0x1.fffffep0f, (int)rng_below(r, 40) - 20);

    x[0] = scale * (rng_one_in(r, 2) ? 8.0f : 127.0f);
    for (int n = 1; n < 32; n++)
        x[n] = nextafterf((float)((int)rng_below(r, 15) - 7.5) * scale,
                          rng_one_in(r, 2) ? 0.0f : x[0]);
}

/* A block of one magnitude or many, with ties and repeated peaks. */
static void draw_block(struct rng *r, float x[32])
{
    const double most = exp2(rng_uniform(r, -30, 20));
    const size_t kind = rng_below(r, 5);

    if (kind == 4) {
        draw_hard_block(r, x);
        return;
    }

    for (size_t n = 0; n < 32; n++) {
        x[n] = (float)rng_uniform(r, -most, most);
        if (kind == 1)
            x[n] = (float)(rng_below(r, 255) - 127.0) * 0.5f;
        if (kind == 2)
            x[n] = (float)(rng_below(r, 33) - 16.0) * 0.5f;
        if (kind == 3 && !rng_one_in(r, 8))
            x[n] = 0.0f;
    }
}

Test(quantize, host_is_reference) {
    struct rng r = rng_seed(5);

    for (int n = 0; n < 20000; n++) {
        float x[32];
        unsigned char want[34];
        draw_block(&r, x);
        reference_block(CLATTN_CACHE_Q8_0, x, want);
        expect_block(CLATTN_CACHE_Q8_0, x, want, "q8_0");
        reference_block(CLATTN_CACHE_Q4_0, x, want);
        expect_block(CLATTN_CACHE_Q4_0, x, want, "q4_0");
        reference_block(CLATTN_CACHE_Q5_0, x, want);
        expect_block(CLATTN_CACHE_Q5_0, x, want, "q5_0");
        reference_offset_block(CLATTN_CACHE_Q4_1, x, want);
        expect_block(CLATTN_CACHE_Q4_1, x, want, "q4_1");
        reference_offset_block(CLATTN_CACHE_Q5_1, x, want);
        expect_block(CLATTN_CACHE_Q5_1, x, want, "q5_1");
        reference_iq4_block(x, want);
        expect_block(CLATTN_CACHE_IQ4_NL, x, want, "iq4_nl");
    }
}

/* ---- the device against the host ------------------------------------------------------------ */

/* Tensors in the middle of buffers whose other bytes must stay. */
struct pair {
    clattn_quantization q;
    size_t values_offset, cache_offset; /* in elements */
    size_t values_bytes, cache_bytes;
    unsigned char *values, *cache;
};

static size_t extent_of(const clattn_layout *layout, const size_t size[4])
{
    clattn_layout l = *layout;
    size_t last = 0;

    if (!(l.stride[0] | l.stride[1] | l.stride[2] | l.stride[3]))
        clattn_layout_packed("bhsd", size, &l);
    for (int n = 0; n < 4; n++)
        last += (size[n] - 1) * l.stride[n];
    return last + 1;
}

static struct pair make_pair(struct rng *r, const clattn_quantization *q)
{
    struct pair p = {.q = *q, .values_offset = rng_below(r, 40)};
    const size_t spread = extent_of(&q->values, q->size), block = value_block_bytes(q->to);

    p.cache_offset = 32 * (1 + rng_below(r, 3));
    p.values_bytes = (p.values_offset + spread) * value_bytes(q->from);
    p.cache_bytes = (p.cache_offset + extent_of(&q->cache, q->size) + 64) / 32 * block;
    p.values = malloc(p.values_bytes);
    p.cache = malloc(p.cache_bytes);
    cr_assert(p.values && p.cache);
    memset(p.cache, 0xee, p.cache_bytes);
    for (size_t n = 0; n < p.values_offset + spread; n += 32) {
        float x[32];
        draw_block(r, x);
        for (size_t d = 0; d < 32 && n + d < p.values_offset + spread; d++)
            value_set(q->from, p.values, n + d, rng_one_in(r, 5000) ? (double)NAN : x[d]);
    }
    return p;
}

static void free_pair(struct pair *p)
{
    free(p->values);
    free(p->cache);
}

/* The device writes the same bits as the host, between the blocks too. */
static void expect_equal(struct fixture *f, cl_command_queue queue, struct pair *p)
{
    unsigned char *got = malloc(p->cache_bytes);
    const clattn_buffer values = {.buffer = fixture_buffer(f, p->values_bytes, p->values),
                                  .offset = p->values_offset};
    const clattn_buffer cache = {.buffer = fixture_buffer(f, p->cache_bytes, p->cache),
                                 .offset = p->cache_offset};
    cl_event done;

    cr_assert(got != NULL);
    const clattn_status status =
        clattn_quantize(f->context, &p->q, queue, &values, &cache, 0, NULL, &done);
    cr_assert(status == CLATTN_SUCCESS, "%s, %s", clattn_status_string(status), f->log.last);
    cr_assert(clWaitForEvents(1, &done) == CL_SUCCESS);
    clReleaseEvent(done);
    fixture_read(f, cache.buffer, p->cache_bytes, got);
    cr_assert(clattn_quantize_host(&p->q, p->values + p->values_offset * value_bytes(p->q.from),
                                   p->cache + p->cache_offset / 32 * value_block_bytes(p->q.to)) ==
              CLATTN_SUCCESS);
    for (size_t n = 0; n < p->cache_bytes; n++)
        cr_assert(got[n] == p->cache[n], "byte %zu of %zu: %#x, not %#x", n, p->cache_bytes, got[n],
                  p->cache[n]);
    clReleaseMemObject(values.buffer);
    clReleaseMemObject(cache.buffer);
    free(got);
}

/* Any sizes, strides and offsets, and one program for all. */
Test(quantize, device_is_host) {
    static const char *const orders[] = {"bhsd", "bshd", "sbhd", "bhds", "dhsb"};
    struct rng r = rng_seed(17);
    struct fixture f;
    cl_int err;

    fixture_open_checked(&f, "");
    cl_command_queue free_order =
        clCreateCommandQueue(f.opencl, f.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    for (int n = 0; n < 60; n++) {
        clattn_quantization q = one_block(ca_block_caches[rng_below(&r, CA_NUM_BLOCK_FORMATS)]);
        q.from = (clattn_dtype)rng_below(&r, 3);
        q.size[0] = 1 + rng_below(&r, 3);
        q.size[1] = 1 + rng_below(&r, 3);
        q.size[2] = 1 + rng_below(&r, 40);
        q.size[3] = 32 * (1 + rng_below(&r, 5));
        if (!rng_one_in(&r, 3))
            clattn_layout_packed(orders[rng_below(&r, 5)], q.size, &q.values);
        if (!rng_one_in(&r, 3))
            clattn_layout_packed(orders[rng_below(&r, 3)], q.size, &q.cache);
        if (rng_one_in(&r, 3)) { /* gaps, and values of which all batches are one */
            q.cache.stride[3] = 1;
            q.cache.stride[1] = q.size[3] + 32;
            q.cache.stride[2] = q.cache.stride[1] * q.size[1];
            q.cache.stride[0] = q.cache.stride[2] * q.size[2] + 64;
            q.values = (clattn_layout){{0, 3, 3 * q.size[1], 3 * q.size[1] * q.size[2] + 1}};
        }
        struct pair p = make_pair(&r, &q);
        expect_equal(&f, n % 2 && free_order ? free_order : f.queue, &p);
        free_pair(&p);
    }
    cr_assert(clattn_context_builds(f.context) == 1);
    if (free_order)
        clReleaseCommandQueue(free_order);
    fixture_close(&f);
}

/* Rows that come one after the other, to their place in a cache, make what all at once make. */
Test(quantize, growing_cache) {
    enum { B = 2, H = 3, ROOM = 20, ROWS = 17, DIM = 64 };
    struct rng r = rng_seed(23);
    struct fixture f;

    fixture_open(&f);
    for (size_t format = 0; format < CA_NUM_BLOCK_FORMATS; format++) {
        clattn_quantization all = {.struct_size = sizeof all,
                                   .from = CLATTN_F16,
                                   .to = ca_block_caches[format],
                                   .size = {B, H, ROWS, DIM}};
        clattn_layout_packed("bhsd", (size_t[]){B, H, ROOM, DIM}, &all.cache);
        struct pair p = make_pair(&r, &all);
        unsigned char *got = malloc(p.cache_bytes);
        const clattn_buffer values = {.buffer = fixture_buffer(&f, p.values_bytes, p.values)};
        const clattn_buffer cache = {.buffer = fixture_buffer(&f, p.cache_bytes, p.cache)};
        cr_assert(got != NULL);
        for (size_t row = 0; row < ROWS; row += row ? 1 : 8) { /* a prompt, then tokens */
            clattn_quantization some = all;
            clattn_layout_packed("bhsd", all.size, &some.values);
            some.size[2] = row ? 1 : 8;
            const clattn_buffer from = {.buffer = values.buffer,
                                        .offset = p.values_offset + row * DIM};
            const clattn_buffer to_place = {.buffer = cache.buffer,
                                            .offset = p.cache_offset + row * DIM};
            cr_assert(clattn_quantize(f.context, &some, f.queue, &from, &to_place, 0, NULL, NULL) ==
                      CLATTN_SUCCESS);
        }
        fixture_read(&f, cache.buffer, p.cache_bytes, got);
        clattn_quantize_host(&all, p.values + 2 * p.values_offset,
                             p.cache + p.cache_offset / 32 * value_block_bytes(all.to));
        cr_assert(memcmp(got, p.cache, p.cache_bytes) == 0);
        clReleaseMemObject(values.buffer);
        clReleaseMemObject(cache.buffer);
        free_pair(&p);
        free(got);
    }
    fixture_close(&f);
}

/* Vectors of 16 and of 8 have instructions of their own for codes. Each format is once that of the values: a constant error of
 * all keys' codes hardly changes weights. */
Test(quantize, vectors_of_each_format) {
    struct fixture f;

    fixture_open(&f);
    fixture_need_cpu(&f);
    for (size_t n = 0; n < 2 * CA_NUM_BLOCK_FORMATS; n++) {
        const size_t v = n / 2, k = (v + 1) % CA_NUM_BLOCK_FORMATS;
        const int width = n % 2 ? 8 : 16;
        char problem[96];
        snprintf(problem, sizeof problem, "fwd f32 b2 h4/2 q1 k40 d64 kcache=%s vcache=%s",
                 ca_format_of(ca_block_caches[k])->name, ca_format_of(ca_block_caches[v])->name);
        struct trial t = {
            .family = "split_cpu UNIT=vector", .problem = fixture_problem(problem), .seed = 31};
        snprintf(t.tunables, sizeof t.tunables, "SIMD_WIDTH=%d QK_DEPTH=%d STAGE_K=0 PV_VECTORS=4",
                 width, width);
        trial_pass(&f, &t);
        trial_free(&t);
    }
    fixture_close(&f);
}

/* Nothing is written and the event still comes. */
Test(quantize, empty) {
    const clattn_buffer none = {.buffer = NULL};
    struct fixture f;

    fixture_open(&f);
    for (int n = 0; n < 3; n++) {
        clattn_quantization q = one_block(CLATTN_CACHE_Q8_0);
        cl_event done = NULL;
        q.size[n] = 0;
        cr_assert(clattn_quantize(f.context, &q, f.queue, &none, &none, 0, NULL, &done) ==
                  CLATTN_SUCCESS);
        cr_assert(done && clWaitForEvents(1, &done) == CL_SUCCESS);
        clReleaseEvent(done);
        cr_assert(clattn_quantize_host(&q, NULL, NULL) == CLATTN_SUCCESS);
    }
    fixture_close(&f);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

/* Host and device refuse a wrong description alike. */
static void misdescribed(struct fixture *f, const clattn_quantization *q,
                         const clattn_status status, const char *words)
{
    unsigned char values[256] = {0}, cache[40];
    const clattn_buffer none = {.buffer = NULL};

    memset(cache, 0xee, sizeof cache);
    cr_assert(clattn_quantize_host(q, values, cache) == status, "%s", words);
    cr_assert(cache[0] == 0xee && cache[39] == 0xee);
    const long commands = faults_commands();
    cr_assert(clattn_quantize(f->context, q, f->queue, &none, &none, 0, NULL, NULL) == status, "%s",
              words);
    cr_assert(fixture_said(f, words) && faults_commands() == commands);
}

DeviceTest(quantize, descriptions)
{
    const clattn_quantization good = one_block(CLATTN_CACHE_Q8_0);
    const clattn_buffer null = {.buffer = NULL};
    unsigned char memory[256] = {0};
#define MISDESCRIBED(change, words)                                                                \
    do {                                                                                           \
        clattn_quantization q = good;                                                              \
        change;                                                                                    \
        misdescribed(f, &q, CLATTN_INVALID_PROBLEM, words);                                        \
    } while (0)

    misdescribed(f, NULL, CLATTN_INVALID_ARGUMENT, "what is null");
    misdescribed(f, &(clattn_quantization){.struct_size = sizeof good - 1}, CLATTN_INVALID_ARGUMENT,
                 "struct_size");
    MISDESCRIBED(q.from = (clattn_dtype)3, "from is 3");
    MISDESCRIBED(q.from = (clattn_dtype)-1, "from is -1");
    MISDESCRIBED(q.to = CLATTN_CACHE_PLAIN, "to is 0");
    MISDESCRIBED(q.to = (clattn_cache)3, "to is 3");
    MISDESCRIBED(q.size[3] = 48, "dim must be a multiple of 32");
    MISDESCRIBED(q.size[2] = SIZE_MAX, "seq is");
    MISDESCRIBED(q.cache = ((clattn_layout){{0, 0, 64, 2}}), "innermost stride");
    MISDESCRIBED(q.cache = ((clattn_layout){{0, 0, 33, 1}}), "strides must be multiples of 32");
    MISDESCRIBED((q.size[2] = 2, q.cache = (clattn_layout){{0, 0, 0, 1}}), "share places");
    MISDESCRIBED((q.size[2] = 2, q.values = (clattn_layout){{0, 0, (size_t)1 << 58, 1}}), "2^58");
    cr_assert(clattn_quantize_host(&good, NULL, memory) == CLATTN_INVALID_ARGUMENT);
    cr_assert(clattn_quantize_host(&good, memory, NULL) == CLATTN_INVALID_ARGUMENT);
    fixture_refused(f, clattn_quantize(f->context, &good, f->queue, NULL, &null, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "values is null");
    fixture_refused(f, clattn_quantize(f->context, &good, f->queue, &null, NULL, 0, NULL, NULL),
                    CLATTN_INVALID_ARGUMENT, "cache is null");
}

static clattn_status write_cache(struct fixture *f, const clattn_buffer buffers[2], cl_event *done)
{
    const clattn_quantization q = one_block(CLATTN_CACHE_Q8_0);

    return clattn_quantize(f->context, &q, f->queue, &buffers[0], &buffers[1], 0, NULL, done);
}

Test(quantize, faults_and_compilers_that_err) {
    fixture_distrust((const size_t[]){128, 34}, write_cache);
}
