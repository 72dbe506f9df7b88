/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_example FAMILY PROBLEM: prints, as a header, what stands before the source in the program of the problem:
 * the host's definitions as macros, then the lists of parameters. With it a compiler reads a kernel's file by itself
 * (tests/kernels_alone.sh). FAMILY may name tunables: "fused_gpu UNIT=mma STAGES=2". */
#include "families/candidate.h"
#include "families/chosen_gradients/chosen_gradients.h"
#include "families/chosen_keys/chosen_keys.h"
#include "families/registry.h"
#include "families/weight_sums/weight_sums.h"
#include "problem/problem.h"
#include "program/program_function.h"
#include "program/program_options.h"
#include "program/program_parameters.h"

#include <clattn/clattn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -DNAME=VALUE becomes #define NAME VALUE; other options are none of the source's. */
static void print_definitions(char *options)
{
    for (char *word = strtok(options, " "); word; word = strtok(NULL, " ")) {
        char *const equals = strchr(word, '=');
        if (strncmp(word, "-D", 2) != 0)
            continue;
        if (equals)
            *equals = ' ';
        printf("#define %s%s\n", word + 2, equals ? "" : " 1");
    }
}

/* Returns the device, with work-groups of up to 1024 items: where a driver has them of one item alone, kernels for
 * GPUs are read all the same. */
static clattn_device_info device_of_groups(const clattn_device_info *at_hand)
{
    clattn_device_info device = *at_hand;

    device.max_work_group_size = 1024;
    for (int n = 0; n < 3; n++)
        device.max_work_item_sizes[n] = 1024;
    return device;
}

/* The family that the text names, with its tunables; or a program that is no choice of a plan: "weight_sums", or
 * "weight_sums plain" with a key for each work-item; "chosen_keys" and "chosen_gradients", and with "group" behind them with
 * several work-items. */
static int parse_family(const char *text, const struct ca_problem *p, const clattn_device_info *dev,
                        struct ca_candidate *candidate, char *reason, size_t reason_bytes)
{
    clattn_device_info other = *dev;

    other.vector_width_float = strstr(text, " group") ? 1 : 16; /* where lanes are work-items */
    if (strncmp(text, "chosen_gradients", strlen("chosen_gradients")) == 0) {
        *candidate = (struct ca_candidate){.family = &ca_family_chosen_gradients};
        ca_chosen_gradients_suggest(&other, candidate->values);
        return 1;
    }
    if (strncmp(text, "chosen_keys", strlen("chosen_keys")) == 0) {
        *candidate = (struct ca_candidate){.family = &ca_family_chosen_keys};
        ca_chosen_keys_suggest(p, &other, candidate->values);
        return 1;
    }
    if (strncmp(text, "weight_sums", strlen("weight_sums")) != 0)
        return ca_candidate_parse(text, p, dev, candidate, reason, reason_bytes);
    *candidate = (struct ca_candidate){.family = &ca_weight_sums};
    ca_family_suggest(candidate->family, p, dev, candidate->values);
    if (strstr(text, " plain"))
        ca_weight_sums_plain(dev, candidate->values);
    return 1;
}

int main(int argc, char **argv)
{
    static char options[CA_OPTIONS_TEXT], parameters[CA_PARAMETERS_TEXT];
    char reason[CA_REASON_BYTES] = "there is no device";
    clattn_context *context = NULL;
    struct ca_candidate candidate;
    clattn_problem p;

    if (argc != 3) {
        fprintf(stderr, "usage: kernel_example FAMILY PROBLEM\n");
        return 2;
    }
    int ok = clattn_context_create_default(NULL, NULL, &context) == CLATTN_SUCCESS &&
             clattn_problem_parse(argv[2], &p, reason, sizeof reason) == CLATTN_SUCCESS;
    if (ok) {
        const clattn_device_info device = device_of_groups(clattn_context_device(context));
        const struct ca_problem made = ca_problem_own(&p);
        ok = parse_family(argv[1], &made, &device, &candidate, reason, sizeof reason) &&
             ca_program_options(&candidate, &made, &device, options, sizeof options) &&
             ca_program_parameters(candidate.family, &made, parameters, sizeof parameters);
    }
    char *functions = ok ? ca_program_function_text(&p) : NULL;
    if (ok && functions) {
        print_definitions(options);
        fputs(parameters, stdout);
        fputs(functions, stdout);
    } else {
        fprintf(stderr, "%s, %s: %s\n", argv[1], argv[2], reason);
    }
    free(functions);
    clattn_context_release(context);
    return ok ? 0 : 1;
}
