/** @file gradient_check.h  Are the gradients right? Against analysis and finite differences. */
#ifndef CLATTN_GRADIENT_CHECK_H
#define CLATTN_GRADIENT_CHECK_H

#include <clattn/context.h>
#include <clattn/plan.h>
#include <clattn/problem.h>

CLATTN_BEGIN

/** One element of a gradient, and what it was compared with. */
typedef struct clattn_gradient_element {
    const char
        *tensor;     /**< "dq", "dk", "dv", "dbias", "dslopes", "dsinks", or of forward "o", "lse";
                             a static text. NULL if nothing was compared. */
    size_t index[4]; /**< Along the tensor's four dimensions; lists use the last. */
    double value;    /**< What was compared. */
    double expected; /**< What it was compared with. */
    double ratio;    /**< Their distance over the error that f32 arithmetic, storage in the
                             problem's dtype and the step of the difference may explain: right up
                             to 1. INFINITY where one of the two is NaN and the other is not. */
} clattn_gradient_element;

/** What a check found. */
typedef struct clattn_gradient_report {
    size_t struct_size;  /**< Set by the caller to sizeof(clattn_gradient_report). */
    int right;           /**< Not 0: no ratio exceeds 1. */
    char family[64];     /**< What computed the gradients. */
    size_t num_analytic; /**< Elements that the device computed and that were compared with what the
                                 formulas of clattn/problem.h give in double precision: all. */
    clattn_gradient_element analytic; /**< The worst of them. */
    size_t num_differences; /**< Elements of the formulas' gradients that were compared with central
                                 differences of the forward formulas in double precision: some of
                                 each tensor, more of small problems. */
    clattn_gradient_element difference; /**< The worst of them. */
} clattn_gradient_report;

/**
 * Computes forward and backward on the device with random data and compares the gradients of the
 * loss sum(do * o) in two steps: the device's with the formulas', in double precision from the same
 * inputs, o and lse; and the formulas' with central finite differences of the forward formulas, where
 * nothing of backward is used. Inputs are multiples of 1/64, which every dtype holds exactly, so that
 * no step of a difference is rounded.
 *
 * It takes time on the host as batch * heads * seq_q * seq_kv * (dim_qk + dim_v): some ten seconds for
 * "bwd f32 h8 q512 d64".
 *
 * @param context  Not null.
 * @param problem  Of operation CLATTN_BACKWARD; not null.
 * @param options  NULL, or what is to be forced of the backward plan.
 * @param seed     Other seeds give other data.
 * @param report   Not null, its struct_size set; the rest is zeros on failure.
 * @retval CLATTN_SUCCESS           Compared: the report says whether they are right.
 * @retval CLATTN_INVALID_ARGUMENT  A null, a problem of another operation, a struct_size of none of
 *                                  this library's versions.
 * @retval CLATTN_OUT_OF_MEMORY     Host or device memory ran out.
 *
 * Other statuses as clattn_plan_create() and clattn_attention_backward().
 */
CLATTN_API clattn_status clattn_gradient_check(clattn_context *context,
                                               const clattn_problem *problem,
                                               const clattn_plan_options *options, unsigned seed,
                                               clattn_gradient_report *report);

CLATTN_END

#endif
