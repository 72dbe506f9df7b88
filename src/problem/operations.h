/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of each operation that problem.c, tensors.c and problem_class.c call. */
#ifndef CA_OPERATIONS_H
#define CA_OPERATIONS_H

#include "problem/operands.h"
#include "problem/operations.def"

#include <clattn/problem.h>

/* The members of a problem that the words of all operations stand for, by these words: "f16 b2 h8/2 q1 k9 d64/32
 * n4". NULL where the operation has none: then h and d are one number each. */
struct ca_size_words {
    clattn_dtype *dtype;
    size_t *b, *h, *second_h, *q, *k, *d, *second_d, *n, *page_size, *pages;
};
struct ca_size_words ca_size_words(clattn_problem *p);

/* The words of an operation that give layouts, without their "=", in the order of texts; the last is NULL. */
struct ca_layout_word {
    unsigned argument;
    const char *word;
};

/*
 * dtype           as ca_problem_dtype()
 * check           values and options of the operation's members
 * flops           of a problem that passed the check
 * representative  as ca_problem_representative(), of a normal problem
 * sizes, layouts  as ca_size_words() and ca_layout_words()
 */
#define OPERATION(ID, name, ...)                                                                   \
    clattn_dtype ca_##name##_dtype(const clattn_problem *p, unsigned argument);                    \
    clattn_status ca_##name##_check(const clattn_problem *p, char *reason, size_t reason_bytes);   \
    double ca_##name##_flops(const clattn_problem *p);                                             \
    clattn_problem ca_##name##_representative(const clattn_problem *p);                            \
    struct ca_size_words ca_##name##_sizes(clattn_problem *p);                                     \
    extern const struct ca_layout_word ca_##name##_layouts[];
CA_OPERATIONS(OPERATION)
#undef OPERATION

/*
 * initial  what clattn_problem_init_operation() makes
 * shape    the argument of kernels that a plan fixes
 */
#define OPERATION(ID, name, ...)                                                                   \
    extern const clattn_##name##_problem ca_##name##_initial;                                      \
    struct name##_shape ca_##name##_shape(const clattn_##name##_problem *p);
CA_OWN_OPERATIONS(OPERATION)
#undef OPERATION

/* The first members of a shape, from a list of operands. */
#define CA_SHAPE_STRIDES(of, ID, member, LAYOUT, ...) CA_SHAPE_STRIDES_##LAYOUT(member)
#define CA_SHAPE_STRIDES_STRIDED(member)                                                           \
    .member##_stride = {(cl_long)p->member.stride[0], (cl_long)p->member.stride[1],                \
                        (cl_long)p->member.stride[2], (cl_long)p->member.stride[3]},
#define CA_SHAPE_STRIDES_BROADCAST(member) CA_SHAPE_STRIDES_STRIDED(member)
#define CA_SHAPE_STRIDES_PACKED(member)

#define OPERATION(ID, ...) +1
enum { CA_NUM_OPERATIONS = CA_OPERATIONS(OPERATION) };
#undef OPERATION

/* The problem's, for tables by operation; forward for a value that clattn_problem_check() refuses. */
static inline clattn_operation ca_operation(const clattn_problem *p)
{
    return (unsigned)p->operation < CA_NUM_OPERATIONS ? p->operation : CLATTN_FORWARD;
}

static inline int ca_is_attention(const clattn_problem *p)
{
    return p->operation <= CLATTN_BACKWARD;
}

/* The first broken rule becomes the reason. */
struct ca_rule {
    const char *sentence;
    int broken;
};
clattn_status ca_keep_rules(const struct ca_rule *rules, size_t count, char *reason, size_t bytes);

/* A size, from least to CA_MAX_SIZE. */
struct ca_size {
    const char *name;
    size_t value, least;
};
clattn_status ca_check_sizes(const struct ca_size *sizes, size_t count, char *reason, size_t bytes);

/* Checks a window's sides and the offset of its diagonal, 0 where it has none; on failure `reason` names the member. */
clattn_status ca_check_window(int64_t left, int64_t right, int64_t offset, char *reason,
                              size_t bytes);

/* The value of an enum, from 0 to last. */
struct ca_enum_value {
    const char *name;
    int value, last;
};
clattn_status ca_check_choices(const struct ca_enum_value *choices, size_t count, char *reason,
                               size_t bytes);

/* Checks both, the choices first. */
clattn_status ca_check_members(const struct ca_enum_value *choices, size_t num_choices,
                               const struct ca_size *sizes, size_t num_sizes, char *reason,
                               size_t bytes);

/* Checks that kv heads have as many query heads each. */
clattn_status ca_check_groups(size_t heads, size_t kv_heads, char *reason, size_t bytes);

/* Pages of a pool, by the size of each. */
clattn_status ca_check_pages(size_t pages, size_t page_size, char *reason, size_t bytes);

#endif
