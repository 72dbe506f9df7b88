/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/verify/results.h"

#include <stdlib.h>

void results_release(struct results *results)
{
    for (int n = 0; n < OUTPUT_COUNT; n++)
        free(results->out[n]);
    *results = (struct results){{NULL}};
}
