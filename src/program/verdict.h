/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts on programs: results of a driver's compiler that every later process would get again. A
 * failure that may pass, such as a lack of memory or a full disk, is no verdict. */
#ifndef CA_VERDICT_H
#define CA_VERDICT_H

#include "families/family.h"

#include <time.h>

struct ca_verdict {
    clattn_status status; /* CLATTN_SUCCESS, CLATTN_BUILD_FAILED or CLATTN_MISCOMPILED */
    /* why the status is bad: the compiler's error, or what the self-check saw */
    char reason[CA_REASON_BYTES];
    time_t until; /* when a bad verdict expires; 0: never, or the verdict is good */
};

/* A build that failed. True, with the verdict, if its log names an error at a place in the source
 * ("...:12:3: error: ..."): a compiler that has no memory, no disk or no parts of its own complains
 * without one, and may do better next time. */
int ca_verdict_of_build_log(const char *log, struct ca_verdict *verdict);

/* Returns whether a line of a build log is such an error. */
int ca_verdict_blames_source(const char *line);

/* The verdict of a program at which processes died again and again. That may have come from something else, so that it is
 * over at a time, which the reason names. */
struct ca_verdict ca_verdict_crashed(time_t until);

/* The verdict of a program whose self-check computed wrong values. */
struct ca_verdict ca_verdict_miscompiled(void);

#endif
