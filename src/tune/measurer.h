/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring in this process. */
#ifndef CA_MEASURER_H
#define CA_MEASURER_H

#include "families/candidate.h"
#include "problem/problem.h"
#include "search/measurer.h"
#include <clattn/context.h>

/*
 * Measures in this process, on the context's device. The problems are alike (ca_classes_alike())
 * and sound; copied. What the candidates' failures log comes as warnings: only a call that fails
 * logs an error. The programs are the measurer's: they go with it, and none is kept on disk.
 * CA_POLICY names how it measures, for the store. On failure *measurer is zeros.
 *
 * Once a candidate has left the OpenCL context in such a state that nothing runs any more, every outcome is
 * CA_CONSTRAINT_FAILED, which is held against nobody: only a new process helps.
 *
 * CLATTN_OUT_OF_MEMORY if a problem's tensors exceed the device's largest allocation or a quarter
 * of its memory, CLATTN_INVALID_PROBLEM if one is empty.
 */
#define CA_POLICY "device events, warm, min of 3 then interleaved medians"
clattn_status ca_measurer_create(clattn_context *ctx, const struct ca_problem *problems,
                                 size_t count, struct ca_measurer *measurer);

#endif
