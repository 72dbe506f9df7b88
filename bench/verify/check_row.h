/* A row of a problem's score matrix in double precision, and what the arithmetic of others may do
 * to it: what check.c and check_gradient.c share. */
#ifndef CLATTN_BENCH_CHECK_ROW_H
#define CLATTN_BENCH_CHECK_ROW_H

#include "bench/verify/check.h"

#define CHECK_WORK 2e7      /* Elements of K and V that are looked at. */
#define CHECK_TINY 0x1p-120 /* What a device may flush to zero, with room. */

/* Unit roundoffs. Nobody adds in bf16: libraries that store it add in f32. */
struct arithmetic {
    double value; /* Of what is stored on the way: scores, weights. */
    double sum;   /* Of a sum's adding up. */
    bool half;
};

/* A case and what it is held to. */
struct check {
    const struct attention_case *attention;
    struct arithmetic arithmetic;
    struct view in[INPUT_COUNT];
    double scale;
    unsigned char *kept; /* Owned: for each pair whether dropout keeps it; NULL without dropout. */
};

/* check_end() is due in any case. */
bool check_begin(struct check *check, const struct attention_case *attention,
                 enum precision precision, struct message *why);
void check_end(struct check *check);

/* How much a sum of n terms may be off, relative to the largest that it has been on the way. */
double check_growth(const struct arithmetic *arithmetic, size_t n);

/* The largest that a sum may have been on the way, whatever the order of its terms: the sum of
 * magnitudes. That bound says nothing in half precision. There the order is taken for chance: then
 * a part strays from its share of the whole by 3 sqrt(sum of squares), but for odds below 1e-7. */
double check_reach(const struct arithmetic *arithmetic, double sum, double magnitude,
                   double squares);

/* Errors that are added up: at their worst, or as independent of each other, because in half
 * precision all of them at their worst would excuse any result. check_parts_sum() of the sum. */
double check_part(const struct arithmetic *arithmetic, double error);
double check_parts_sum(const struct arithmetic *arithmetic, double parts);

/* What storing a value may do to it. */
double check_storing(clattn_dtype dtype, double value);

/* How many of `all` places are looked at where each costs so much work: all of them, or what
 * CHECK_WORK allows, but at least `fewest`. */
size_t check_affordable(size_t all, double work, size_t fewest);

/* Of `all` places, place n of `count` in even steps from the first to the last. */
size_t check_spread(size_t n, size_t count, size_t all);

/* A query: what it sees counts from the diagonal. */
struct check_row {
    size_t b, h, i;
    double queries, keys, diagonal; /* In use in this batch. */
};

/* Row `index` of all, counted as lse is packed. */
struct check_row check_row_locate(const struct check *check, size_t index);

/* The score of a pair at each point, and how far it may be off. */
struct check_score {
    double raw, capped, s;   /* s is -inf where it is masked. */
    double raw_slack, slack; /* Of raw, and of s. */
    double derivative;       /* Of softcap. */
};

/* All of it from raw and raw_slack. */
void check_score_finish(const struct check *check, const struct check_row *row, size_t j,
                        struct check_score *score);

struct check_score check_row_score(const struct check *check, const struct check_row *row,
                                   size_t j);

/* The sink of a head. */
double check_sink(const struct check *check, size_t h);

/* What dropout multiplies the weight of a pair with. */
double check_kept(const struct check *check, const struct check_row *row, size_t j);

/* The error of softcap() itself: of f32 functions on any device, of a library's result stored. */
double check_softcap_slack(const struct arithmetic *arithmetic, double softcap, double s);

/* A dot product and what its arithmetic may do to it. */
struct check_dot {
    double sum, magnitude, squares, slack;
};

/* Of two inputs from these places on, `count` elements along their last dimensions. */
struct check_dot check_inputs_dot(const struct check *check, enum input x, size_t x_place,
                                  enum input y, size_t y_place, size_t count);

/* What check_results() does for the other kinds of jobs. */
bool check_gradients(const struct attention_case *attention, const struct results *results,
                     enum precision precision, struct worst *worst, struct message *why);
bool check_projection(const struct attention_case *attention, const struct results *results,
                      enum precision precision, struct worst *worst, struct message *why);
bool check_layer(const struct attention_case *attention, const struct results *results,
                 enum precision precision, struct worst *worst, struct message *why);

#endif
