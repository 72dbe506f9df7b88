/* clattn_report_sample FILE.json: writes the sample. */
#include "sample.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct run_results results;
    struct message why;

    if (argc != 2) {
        fputs("usage: clattn_report_sample FILE.json\n", stderr);
        return 2;
    }
    sample_fill(&results);
    const bool ok = results_write(argv[1], &results, &why);
    results_free(&results);
    if (!ok)
        fprintf(stderr, "clattn_report_sample: %s\n", why.text);
    return ok ? 0 : 1;
}
