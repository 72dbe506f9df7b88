/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that candidates are judged by (src/selfcheck/case.h), and what is expected of the judgement. No device. */
#ifndef TEST_JUDGED_CASE_H
#define TEST_JUDGED_CASE_H

#include "bench/judge/judge.h"
#include "selfcheck/case.h"

/* The hostile or the ordinary case of a problem; ca_trust_case_free() frees it. */
struct ca_trust_case judged_case(const char *text, int hostile);

/* Writes the answers where a kernel would. */
void judged_write(struct ca_trust_case *c);

/* Fail the test, which goes on, unless the results are taken for right, or for wrong with these words. */
void judged_right(const struct ca_trust_case *c, const char *text);
void judged_wrong(const struct ca_trust_case *c, const char *text, const char *words);

/* The judge's results of a case of a projection, a merge or an append; and writing them where a kernel would. */
void judged_results(const struct ca_trust_case *c, judge_visit *visit, void *user);
void judged_compute(struct ca_trust_case *c);

#endif
