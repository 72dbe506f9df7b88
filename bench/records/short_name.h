/* Devices' names as a table has room for them: "PoCL pthread", "llvmpipe", "GeForce RTX 4090". */
#ifndef CLATTN_BENCH_SHORT_NAME_H
#define CLATTN_BENCH_SHORT_NAME_H

#include "bench/records/results.h"

#define SHORT_NAME 23

struct short_name {
    char text[SHORT_NAME];
};

/* Of each device of a run, in `names`; those that would be the same end in " #INDEX". */
void short_names(const struct run_results *results, struct short_name *names);

#endif
