#include "bench/verify/sample.h"

#include <stdlib.h>

void results_release(struct results *results)
{
    for (int n = 0; n < OUTPUT_COUNT; n++)
        free(results->out[n]);
    *results = (struct results){{NULL}};
}

bool check_results(const struct attention_case *attention, const struct results *results,
                   enum precision precision, struct worst *worst, struct message *why)
{
    static bool (*const kinds[JOB_KINDS])(const struct attention_case *, const struct results *,
                                          enum precision, struct worst *, struct message *) = {
        [JOB_FORWARD] = check_rows,          [JOB_BACKWARD] = check_gradients,
        [JOB_PROJECTION] = check_projection, [JOB_MERGE] = check_merge,
        [JOB_APPEND] = check_append,         [JOB_LAYER_FORWARD] = check_layer,
        [JOB_LAYER_BACKWARD] = check_layer,
    };

    return kinds[job_kind(&attention->job)](attention, results, precision, worst, why);
}
