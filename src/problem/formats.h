/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that clattn_cache numbers: plain values of a dtype, and blocks of quantized values. */
#ifndef CA_FORMATS_H
#define CA_FORMATS_H

#include "problem/dtypes.def"
#include "problem/formats.def"

#include <clattn/problem.h>

#define DTYPE(ID, word, bytes) +1
#define FORMAT(ID, ...) +1
enum {
    CA_NUM_DTYPES = CA_DTYPES(DTYPE),
    CA_NUM_BLOCK_FORMATS = 0 CA_BLOCK_FORMATS(FORMAT, ),
    CA_NUM_CACHES = 1 + CA_NUM_DTYPES + CA_NUM_BLOCK_FORMATS
};
#undef DTYPE
#undef FORMAT

/* CA_BLOCK: values in a block of a quantized tensor. CA_BLOCK_MOST_BYTES: bytes of the longest block of any format. */
union ca_any_block {
#define FORMAT(ID, number, name, bits, scale, offset, fifth, codes, bytes, ...)                    \
    unsigned char of_##name[bytes];
    CA_BLOCK_FORMATS(FORMAT, )
#undef FORMAT
};
enum { CA_BLOCK = CA_BLOCK_VALUES, CA_BLOCK_MOST_BYTES = sizeof(union ca_any_block) };

struct ca_format {
    const char *name; /* the format's name in problem strings */
    int is_dtype;     /* not 0: plain values of this dtype, whatever the problem's dtype */
    clattn_dtype dtype;
    int is_blocks; /* not 0: values in blocks, of which the members below speak (src/problem/formats.def) */
    unsigned bits;
    int scale; /* -1: there is none */
    size_t offset, fifth, codes, bytes;
    double largest, error;
    double (*number)(unsigned code);
    /* Of the largest magnitude of a block, and the value that has it; with an offset, the largest value less the least. */
    float (*scale_of)(float most, float peak);
    int fits; /* not 0: the scale that is stored is fitted to the values and their codes */
    /* The code of a value that was divided by the block's scale; with an offset, of the value less the least one. */
    unsigned (*code_of)(float x);
};

/* The format of a cache; for an invalid value, such as in a problem that is still to be checked, that
 * of CLATTN_CACHE_PLAIN. */
const struct ca_format *ca_format_of(clattn_cache cache);

/* The cache whose values are of the dtype. */
clattn_cache ca_cache_of_dtype(clattn_dtype dtype);

/* The formats of blocks, in the order of formats.def. */
extern const clattn_cache ca_block_caches[CA_NUM_BLOCK_FORMATS];

/* The code of value n of a block. */
unsigned ca_block_code(const struct ca_format *format, const unsigned char *block, size_t n);

/* Returns whether values of the cache may have scales of f32: blocks have none. */
int ca_has_scales(clattn_cache cache);

/* The names of the formats of blocks with their numbers, as a sentence lists them: "a (1), b (2) or c (6)". */
void ca_block_formats_print(char *text, size_t bytes);

#endif
