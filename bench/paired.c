/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench-paired: one of the two versions that paired.sh times in turns. It reads commands, one a line,
 * and answers each with a line:
 *   open PROBLEM   "ok" when the untuned plan's results are right; else a sentence
 *   sample         the milliseconds of one execution in some 50 ms of executions; else a sentence */
#include "bench/timing/case_forward.h"
#include "bench/timing/measure.h"
#include "bench/verify/check.h"
#include "cli/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SETS = 8 };

#define SAMPLE_SECONDS 0.05
#define SETS_BYTES 5e8 /* executions take sets of tensors in turn, which caches do not hold */

struct side {
    struct target target;
    struct attention_case attention;
    struct measurement measurement;
};

static size_t count_sets(const struct attention_case *attention)
{
    double bytes = 1.0;

    for (int n = 0; n < INPUT_COUNT; n++)
        bytes += (double)attention->in[n].bytes;
    const double sets = SETS_BYTES / bytes;
    return sets < 1.0 ? 1 : sets > MOST_SETS ? MOST_SETS : (size_t)sets;
}

static bool open_problem(struct side *side, const char *text, struct message *why)
{
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .flags = CLATTN_PLAN_UNTUNED};
    struct attention_case *attention = &side->attention;
    struct worst worst = {0};
    struct job job;
    char reason[256];

    measurement_close(&side->measurement);
    case_free(attention);
    if (!job_parse(text, &job, reason, sizeof reason))
        return message_set(why, "%s", reason);
    return case_random(attention, &job, 1, why) && case_forward(attention, &side->target, why) &&
           measurement_open(&side->measurement, &side->target, attention, &options,
                            count_sets(attention), why) &&
           measurement_check(&side->measurement, attention, &worst, why) &&
           (worst_ok(&worst) || message_set(why, "the results are wrong"));
}

static void answer(struct side *side, const char *line)
{
    struct message why = {""};
    double seconds, host;

    if (strncmp(line, "open ", 5) == 0)
        puts(open_problem(side, line + 5, &why) ? "ok" : why.text);
    else if (side->measurement.copies == 0)
        puts("no problem is open");
    else if (measurement_sample(&side->measurement, SAMPLE_SECONDS, &seconds, &host, &why))
        printf("%.6g\n", 1e3 * seconds);
    else
        puts(why.text);
    fflush(stdout);
}

int main(void)
{
    static struct side side;
    struct message why;
    char line[4096];

    if (!target_open(&side.target, NULL, &why)) {
        fprintf(stderr, "clattn-bench-paired: %s\n", why.text);
        return EXIT_FAILURE;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        answer(&side, line);
    }
    measurement_close(&side.measurement);
    case_free(&side.attention);
    target_close(&side.target);
    return EXIT_SUCCESS;
}
