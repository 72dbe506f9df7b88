/* What clattn-replay prints: a table as it goes, or JSON at the end. */
#ifndef CA_REPLAY_PRINT_H
#define CA_REPLAY_PRINT_H

#include "tuner/replay/replay.h"
#include "tuner/replay/replay_options.h"

#include <jansson.h>

/* Adds to sum a result, or divides it by their number. */
void replay_sum_add(struct ca_replay_result *sum, const struct ca_replay_result *result);
void replay_sum_divide(struct ca_replay_result *sum, size_t count);

/* plan is NULL for the mean of a strategy, whose name then stands for the file. */
void replay_print_head(const struct replay_options *options);
void replay_print_row(const struct replay_options *options, const char *file,
                      const struct ca_replay_plan *plan, const struct ca_replay_result *result);

json_t *replay_json(const struct replay_options *options, const char *file,
                    const struct ca_replay_plan *plan, const struct ca_replay_result *result);

#endif
