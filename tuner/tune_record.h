/* What a tuning measured, written as Kernel Tuner cache files and as T4 results. */
#ifndef CA_TUNE_RECORD_H
#define CA_TUNE_RECORD_H

#include "cli/message.h"
#include "tuner/tune_report.h"

/* A copy of a space's parameters, without configurations. NULL without memory. */
struct ca_space *tune_copy_parameters(const struct ca_space *space);

/* One file for each problem that was searched, as each has its own times: path itself if there is
 * one problem, else "path-1", ... before the ending. */
bool tune_record(const struct tune_report *report, const char *path, bool t4, struct message *why);

#endif
