/* The problem that a program must solve before it is trusted: data and right answers. */
#ifndef CA_TRUST_CASE_H
#define CA_TRUST_CASE_H

#include "family.h"

struct ca_trust_case {
    clattn_problem problem; /* normal: the features of the real one, small and ragged */
    /* One block of bytes per tensor, of its span between two guard bands of CA_TRUST_GUARD
     * bytes; NULL if the problem has no such tensor. Outputs are filled with CA_TRUST_FILL. */
    unsigned char *bytes[CA_WORKSPACE];
    size_t sizes[CA_WORKSPACE]; /* of the blocks */
    /* Right answers, in the order of (batch, heads, seq_q, ...). */
    double *o, *lse, *scores;
    double tolerance; /* of o and the scores, relative to the largest value */
};

enum { CA_TRUST_GUARD = 256, CA_TRUST_FILL = 0xff }; /* NaN in every dtype */

/* Makes the case for a normal problem. False, with everything freed, if memory runs out. */
int ca_trust_case_make(struct ca_trust_case *c, const clattn_problem *p);

void ca_trust_case_free(struct ca_trust_case *c);

/* NULL if the results in bytes[] are right and nothing was written outside of them, else what is
 * wrong, as a sentence in text. */
const char *ca_trust_case_judge(const struct ca_trust_case *c, char *text, size_t text_bytes);

#endif
