/* SPDX-License-Identifier: Apache-2.0 */
/* The list of programs to compile: offline_cases writes it, offline_table reads it. */
#ifndef OFFLINE_CASES_H
#define OFFLINE_CASES_H

enum case_field {
    CASE_NUMBER,
    CASE_TARGET,
    CASE_FAMILY,
    CASE_KIND, /* "default", or "sample": some tunables drawn at random */
    CASE_PROBLEM,
    CASE_TUNABLES,
    CASE_LOCAL,   /* bytes of local memory that the family counts on */
    CASE_KERNELS, /* "NAME=work-items ..." of those that the problem needs */
    CASE_OPTIONS, /* for the compiler */
    CASE_FIELDS   /* between tabs, a line for each case */
};

#endif
