/* SPDX-License-Identifier: Apache-2.0 */
/* What a first call spends on compiling. */
#ifndef CLATTN_BENCH_COLD_START_PARTS_H
#define CLATTN_BENCH_COLD_START_PARTS_H

#include <stddef.h>

/* What compiling took of a first call, in seconds; all 0: nothing was compiled. */
enum {
    COLD_START_FRONT_END,
    COLD_START_CODE_GENERATION,
    COLD_START_SELF_CHECK,
    COLD_START_STORING,
    COLD_START_PARTS
};
struct cold_start_parts {
    double seconds[COLD_START_PARTS];
};

/* "front_end", "code_generation", "self_check", "storing". */
extern const char *const cold_start_part_keys[COLD_START_PARTS];

/* "front end 1.23 s, code generation ..."; "" if nothing was compiled. */
void cold_start_parts_print(const struct cold_start_parts *parts, char *text, size_t bytes);

#endif
