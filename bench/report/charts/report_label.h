/* Short names for problems: charts have little room. */
#ifndef CLATTN_BENCH_REPORT_LABEL_H
#define CLATTN_BENCH_REPORT_LABEL_H

#include "bench/report/report.h"

/* The name of its workload and, where several problems have that name, what sets it apart from
 * them; without a name the problem itself. Problems before it have their labels, and no two are the
 * same. */
void label_problem(struct report *report, size_t problem);

#endif
