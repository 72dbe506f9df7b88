/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/functions.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 8 };

/* An axis of an operand: one of the problem's sizes, by its letter, or a number. */
struct axis {
    char letter; /* 0: a number */
    size_t count;
};

static size_t count_of(const clattn_problem *whole, char letter)
{
    return letter == 'b'   ? whole->batch
           : letter == 'h' ? whole->heads
           : letter == 'g' ? whole->kv_heads
           : letter == 'q' ? whole->seq_q
                           : whole->seq_kv;
}

/* Reads operand n of the functions, of which those of the score function come first; how many axes it has, 0 if there is
 * none. */
static size_t axes_of(const clattn_problem *whole, size_t n, struct axis axes[MOST_AXES])
{
    const clattn_function *functions[] = {whole->score_function, whole->mask_function};
    size_t count = 0;

    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (size_t own = 0; functions[f]; own++) {
            clattn_function_operand operand = {.struct_size = sizeof operand};
            if (clattn_function_get_operand(functions[f], own, &operand) != CLATTN_SUCCESS ||
                !operand.name)
                break;
            if (n-- > 0)
                continue;
            for (const char *at = strchr(operand.extents, '['); at && count < MOST_AXES;
                 at = strchr(at, '[')) {
                at += 1 + strspn(at + 1, " \t");
                axes[count++] = isalpha((unsigned char)*at)
                                    ? (struct axis){*at, count_of(whole, *at)}
                                    : (struct axis){'\0', (size_t)strtoull(at, NULL, 10)};
            }
            return count;
        }
    return 0;
}

/* Returns whether parts have less of an axis than the whole. */
static bool is_divided(const struct axis *axis, int members)
{
    return axis->letter && axis->count > 1 &&
           (members > 1 || (axis->letter != 'h' && axis->letter != 'g'));
}

/* The first axis that is divided; `count` without any. */
static size_t divided_axis(const struct axis *axes, size_t count, int members)
{
    size_t n = 0;

    while (n < count && !is_divided(&axes[n], members))
        n++;
    return n;
}

/* Returns whether a part of the operand is a range of its elements. */
static bool is_range(const struct axis *axes, size_t count, int members)
{
    const size_t divided = divided_axis(axes, count, members);

    for (size_t n = 0; n < count && divided < count; n++)
        if (n < divided ? axes[n].count > 1 : n > divided && is_divided(&axes[n], members))
            return false;
    return true;
}

/* Returns whether a source reads p.queries or p.keys, by whatever name of the pair. */
static bool asks_for_lengths(const clattn_function *function)
{
    static const char *const members[] = {"queries", "keys"};
    const char *const source = function ? clattn_function_source(function) : "";

    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        const size_t length = strlen(members[m]);
        for (const char *at = strstr(source, members[m]); at; at = strstr(at + 1, members[m])) {
            const char *before = at;
            while (before > source && isspace((unsigned char)before[-1]))
                before--;
            if (before > source && (before[-1] == '.' || before[-1] == '>') &&
                !isalnum((unsigned char)at[length]) && at[length] != '_')
                return true;
        }
    }
    return false;
}

const char *functions_refusal(const clattn_problem *whole, int members)
{
    struct axis axes[MOST_AXES];
    size_t count;

    if (!whole->score_function && !whole->mask_function)
        return NULL;
    if (whole->total_q || whole->total_kv)
        return "functions of packed batches are not distributed";
    if (whole->dfunction)
        return "gradients of a function's operands are not added up over ranks";
    if (asks_for_lengths(whole->score_function) || asks_for_lengths(whole->mask_function))
        return "a function that asks for p.queries or p.keys is not distributed: a part has others";
    for (size_t n = 0; (count = axes_of(whole, n, axes)) > 0; n++)
        if (!is_range(axes, count, members))
            return "a function's operand is distributed where its part is a range of its elements: "
                   "one axis of batches, queries, keys or exchanged heads, and the first";
    return NULL;
}

clattn_buffer function_operand(const clattn_mpi_plan *plan, const struct part *part, size_t n,
                               clattn_buffer all)
{
    const int members = plan->heads < plan->whole.heads ? 2 : 1;
    struct axis axes[MOST_AXES];
    const size_t count = axes_of(&plan->whole, n, axes);
    const size_t divided = divided_axis(axes, count, members);
    const char letter = divided < count ? axes[divided].letter : '\0';
    size_t first = letter == 'b'   ? part->batch
                   : letter == 'h' ? plan->first_head
                   : letter == 'g' ? plan->first_head / (plan->heads / plan->kv_heads)
                   : letter == 'q' ? part->q.first
                   : letter == 'k' ? part->kv.first
                                   : 0;

    for (size_t m = divided + 1; m < count; m++)
        first *= axes[m].count;
    all.offset += all.buffer ? first : 0;
    return all;
}
