/* What a first call spends on compiling. */
#ifndef CLATTN_BENCH_COLD_START_PARTS_H
#define CLATTN_BENCH_COLD_START_PARTS_H

#include <stddef.h>

/* What compiling took of a first call, in seconds; all 0: nothing was compiled. */
enum { FIRST_FRONT_END, FIRST_CODE_GENERATION, FIRST_SELF_CHECK, FIRST_STORING, FIRST_PARTS };
struct cold_start_parts {
    double seconds[FIRST_PARTS];
};

/* "front_end", "code_generation", "self_check", "storing". */
extern const char *const first_part_keys[FIRST_PARTS];

/* "front end 1.23 s, code generation ..."; "" if nothing was compiled. */
void cold_start_parts_print(const struct cold_start_parts *parts, char *text, size_t bytes);

#endif
