/* SPDX-License-Identifier: Apache-2.0 */
/* Where the result of a tuning goes: the terminal, JSON, recordings. */
#ifndef CA_TUNE_OUTPUT_H
#define CA_TUNE_OUTPUT_H

#include "tuner/tune_report.h"

/* Prints a sentence of a failure on stderr; returns false. */
bool tune_fail(const char *format, const char *text);

/* As the options say. False, with a sentence, if something cannot be written. */
bool tune_output(const struct tune_report *report);

#endif
