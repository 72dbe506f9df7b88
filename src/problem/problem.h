/* What the plan derives from a problem. */
#ifndef CA_PROBLEM_H
#define CA_PROBLEM_H

#include <clattn/problem.h>

/* No size, window or offset exceeds this, so that sums of a few of them fit 64 bits. */
#define CA_MAX_SIZE ((size_t)1 << 48)

/* What is written, but read before. */
enum { CA_UPDATED = 2 };

/* Values in a block of a quantized tensor. */
enum { CA_BLOCK = 32 };

/* One tensor of a problem as it lies in memory. */
struct ca_tensor {
    const char *name;
    int present;
    int written;          /* 0, 1, or CA_UPDATED */
    size_t element_bytes; /* of a block, if quantized */
    size_t sizes[4];
    clattn_layout layout; /* explicit strides */
};

/* Fills tensors[CA_NUM_ARGUMENTS - 1] (src/families/family.h), all but the workspace, for a problem that
 * passed clattn_problem_check(), or whose layouts are still to be checked. */
void ca_problem_tensors(const clattn_problem *p, struct ca_tensor *tensors);

/* The layout of tensor number `argument` (src/families/family.h) as the problem holds it; NULL if the
 * problem holds none, or its operation has no such tensor. */
clattn_layout *ca_problem_layout(clattn_problem *p, unsigned argument);

/* Packs those of these tensors (CA_BIT()s) that ca_problem_layout() knows, but w, in an order of
 * "bhsd", whatever the layouts were. Of gradients only in a backward problem. */
void ca_problem_order(clattn_problem *p, const char *order, unsigned arguments);

/* With explicit layouts, scale and windows: causality becomes window_right = 0. */
clattn_problem ca_problem_normal(const clattn_problem *p);

/* The diagonal that does not depend on lengths. */
int64_t ca_problem_diagonal(const clattn_problem *p);

/* True if no output has an element. */
int ca_problem_empty(const clattn_problem *p);

/* Bytes of an element. */
size_t ca_dtype_bytes(clattn_dtype dtype);

/* How tensor number `argument` (src/families/family.h) is stored. */
clattn_cache ca_problem_cache(const clattn_problem *p, unsigned argument);

/* Bytes of an element of k or v, or of a block of a quantized one. */
size_t ca_cache_bytes(clattn_cache cache, clattn_dtype dtype);

/* Bytes of count elements of a tensor, whole blocks of a quantized one. */
size_t ca_elements_bytes(size_t count, size_t element_bytes, clattn_cache cache);

/* NULL if a quantized tensor may have this explicit layout, else the rule that it breaks. */
const char *ca_cache_refusal(const clattn_layout *layout, size_t dim);

#endif
