/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/comparison.h"
#include "bench/records/shift.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct verdict_kind verdict_kinds[] = {
    [VERDICT_NONE] = {"", "", ' ', false},
    [VERDICT_FEW] = {"few", "few samples", '?', false},
    [VERDICT_SAME] = {"same", "", ' ', false},
    [VERDICT_FASTER] = {"faster", "faster", '+', false},
    [VERDICT_SLOWER] = {"slower", "slower", '!', true},
    [VERDICT_MISSING] = {"missing", "missing", '!', true},
    [VERDICT_UNSUPPORTED] = {"unsupported", "unsupported", '!', true},
    [VERDICT_FAILED] = {"failed", "failed", '!', true},
    [VERDICT_WRONG] = {"wrong", "wrong", '!', true},
    [VERDICT_LOOSE] = {"loose", "less exact", '!', true},
};

/* ---- devices --------------------------------------------------------------------------------- */

static bool same_device(const struct device_run *a, const struct device_run *b)
{
    return strcmp(a->info.name, b->info.name) == 0 &&
           strcmp(a->info.platform_name, b->info.platform_name) == 0 &&
           a->info.compute_units == b->info.compute_units;
}

static bool same_platform(const struct device_run *a, const struct device_run *b)
{
    return strcmp(a->info.platform_name, b->info.platform_name) == 0 &&
           a->info.type == b->info.type;
}

const struct device_run *comparison_device(const struct comparison_group *group)
{
    size_t file = 0;

    while (group->run[file] == NULL)
        file++;
    return group->run[file];
}

/* The group without a device of this file whose device is `alike`; NULL if there is none. */
static struct comparison_group *
find_group(const struct comparison *c, size_t file, const struct device_run *run,
           bool (*alike)(const struct device_run *, const struct device_run *))
{
    for (size_t n = 0; n < c->num_groups; n++)
        if (c->groups[n].run[file] == NULL && alike(comparison_device(&c->groups[n]), run))
            return &c->groups[n];
    return NULL;
}

static bool add_group(struct comparison *c, size_t file, const struct device_run *run)
{
    struct comparison_group *groups = realloc(c->groups, (c->num_groups + 1) * sizeof *c->groups);

    if (groups == NULL)
        return false;
    c->groups = groups;
    memset(&groups[c->num_groups], 0, sizeof *groups);
    groups[c->num_groups++].run[file] = run;
    return true;
}

/* Returns whether the file's device went into a group. */
static bool placed(const struct comparison *c, size_t file, const struct device_run *run)
{
    for (size_t n = 0; n < c->num_groups; n++)
        if (c->groups[n].run[file] == run)
            return true;
    return false;
}

/* None of the file's devices was known: they stand beside others. */
static void place_others(struct comparison *c, size_t file)
{
    const struct run_results *results = &c->files[file];

    for (size_t n = 0; n < results->count; n++) {
        const struct device_run *run = &results->devices[n];
        struct comparison_group *group = find_group(c, file, run, same_platform);
        if (group == NULL && c->num_groups == 1 && results->count == 1)
            group = c->groups;
        if (group != NULL) {
            group->run[file] = run;
            group->other[file] = true;
        }
    }
}

static bool place_devices(struct comparison *c, size_t file)
{
    const struct run_results *results = &c->files[file];
    const size_t known = c->num_groups;
    bool any = false;

    for (size_t n = 0; n < results->count; n++) {
        struct comparison_group *group = find_group(c, file, &results->devices[n], same_device);
        if (group != NULL) {
            group->run[file] = &results->devices[n];
            any = true;
        }
    }
    if (!any && known > 0)
        place_others(c, file);
    for (size_t n = 0; n < results->count; n++)
        if (!placed(c, file, &results->devices[n]) && !add_group(c, file, &results->devices[n]))
            return false;
    return true;
}

/* ---- problems -------------------------------------------------------------------------------- */

/* The row without a record of this file that has the problem, by the name as well if `named`. */
static struct comparison_row *find_row(struct comparison_group *group, size_t file,
                                       const struct record *record, bool named)
{
    for (size_t n = 0; n < group->num_rows; n++) {
        struct comparison_row *row = &group->rows[n];
        if (row->cell[file].record == NULL && strcmp(row->problem, record->problem) == 0 &&
            (!named || strcmp(row->name, record->name) == 0))
            return row;
    }
    return NULL;
}

static bool filtered(const struct comparison_options *options, const struct record *record)
{
    return options->filter != NULL && strstr(record->name, options->filter) == NULL &&
           strstr(record->problem, options->filter) == NULL;
}

/* Puts the file's records where they belong, in new rows at the end if nowhere. `left` has room for
 * all of them: what is not yet placed. */
static void place_records(struct comparison_group *group, size_t file,
                          const struct comparison_options *options, const struct record **left)
{
    const struct device_run *run = group->run[file];

    for (size_t n = 0; n < run->count; n++)
        left[n] = filtered(options, &run->records[n]) ? NULL : &run->records[n];
    for (int named = 1; named >= 0; named--)
        for (size_t n = 0; n < run->count; n++) {
            struct comparison_row *row =
                left[n] != NULL ? find_row(group, file, left[n], named) : NULL;
            if (row != NULL) {
                row->cell[file].record = left[n];
                left[n] = NULL;
            }
        }
    for (size_t n = 0; n < run->count; n++)
        if (left[n] != NULL) {
            struct comparison_row *row = &group->rows[group->num_rows++];
            row->name = left[n]->name;
            row->problem = left[n]->problem;
            row->cell[file].record = left[n];
        }
}

static bool make_rows(const struct comparison *c, struct comparison_group *group)
{
    size_t most = 1;

    for (size_t file = 0; file < c->num_files; file++)
        most += group->run[file] != NULL ? group->run[file]->count : 0;
    const struct record **left = calloc(most, sizeof *left);
    group->rows = calloc(most, sizeof *group->rows);
    const bool ok = left != NULL && group->rows != NULL;
    for (size_t file = 0; ok && file < c->num_files; file++)
        if (group->run[file] != NULL)
            place_records(group, file, &c->options, left);
    free(left);
    return ok;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* The parts of a roof that an implementation reached. Beside the peaks as they were from sample to
 * sample where the run has that, else against their median: problems between the roofs may be
 * under another one from run to run. */
static void find_shares(const struct device_run *run, const struct record *record,
                        const struct outcome *outcome, enum roof roof, struct samples *shares)
{
    const struct samples *clattn = &record->outcome[0].seconds, *seconds = &outcome->seconds;
    const bool beside = record->roof == roof && record->share.count == seconds->count &&
                        clattn->count == seconds->count;
    const double peak = peak_of_roof_median(&run->peaks, roof);
    const double work = roof == ROOF_READ ? record->bytes : record->flops;

    for (size_t n = 0; n < seconds->count && (beside || (peak > 0.0 && work > 0.0)); n++)
        samples_add(shares, beside ? record->share.value[n] * clattn->value[n] / seconds->value[n]
                                   : work / seconds->value[n] * 1e-9 / peak);
}

/* Fills a cell with the file's values, before anything is compared. `first` is the first file's
 * record, or NULL. */
static void fill_cell(const struct comparison *c, const struct device_run *run,
                      const struct record *first, struct comparison_cell *cell,
                      struct samples *figures)
{
    struct samples shares = {.count = 0};

    cell->seconds = NAN;
    cell->share = NAN;
    figures->count = 0;
    if (cell->record == NULL)
        return;
    cell->outcome = record_find(cell->record, c->options.implementation);
    if (cell->outcome == NULL || !outcome_timed(cell->outcome))
        return;
    find_shares(run, cell->record, cell->outcome, (first != NULL ? first : cell->record)->roof,
                &shares);
    cell->seconds = samples_median(&cell->outcome->seconds);
    cell->share = shares.count > 0 ? samples_median(&shares) : NAN;
    *figures = c->options.by_share ? shares : cell->outcome->seconds;
}

static enum verdict lost(const struct comparison_cell *cell)
{
    static const enum verdict by_state[] = {
        [OUTCOME_UNSUPPORTED] = VERDICT_UNSUPPORTED,
        [OUTCOME_WRONG] = VERDICT_WRONG,
        [OUTCOME_FAILED] = VERDICT_FAILED,
    };

    return cell->outcome != NULL ? by_state[cell->outcome->state] : VERDICT_MISSING;
}

static void compare_cell(const struct comparison *c, const struct comparison_cell *first,
                         const struct samples *before, struct comparison_cell *cell,
                         const struct samples *now, bool other)
{
    const double limit = 1.0 + c->options.threshold;

    if (first->outcome == NULL || !outcome_timed(first->outcome))
        return;
    if (cell->outcome == NULL || !outcome_timed(cell->outcome)) {
        cell->verdict = lost(cell);
        return;
    }
    if (before->count == 0 || now->count == 0) /* without a peak there is no share */
        return;
    const bool sure = c->options.by_share ? shift_ratio(before, now, &cell->ratio)
                                          : shift_ratio(now, before, &cell->ratio);
    cell->compared = true;
    if (cell->outcome->state == OUTCOME_LOOSE && first->outcome->state == OUTCOME_MEASURED)
        cell->verdict = VERDICT_LOOSE;
    else if (!other)
        cell->verdict = !sure                            ? VERDICT_FEW
                        : cell->ratio.low > limit        ? VERDICT_SLOWER
                        : cell->ratio.high < 1.0 / limit ? VERDICT_FASTER
                                                         : VERDICT_SAME;
}

static void compare_row(const struct comparison *c, const struct comparison_group *group,
                        struct comparison_row *row)
{
    struct samples before, now;

    fill_cell(c, group->run[0], row->cell[0].record, &row->cell[0], &before);
    for (size_t file = 1; file < c->num_files; file++) {
        fill_cell(c, group->run[file], row->cell[0].record, &row->cell[file], &now);
        compare_cell(c, &row->cell[0], &before, &row->cell[file], &now, group->other[file]);
    }
}

/* Rows of which no file has the implementation say nothing. */
static void drop_empty_rows(const struct comparison *c, struct comparison_group *group)
{
    size_t kept = 0;

    for (size_t n = 0; n < group->num_rows; n++) {
        bool there = false;
        for (size_t file = 0; file < c->num_files; file++)
            there = there || group->rows[n].cell[file].outcome != NULL;
        if (there)
            group->rows[kept++] = group->rows[n];
    }
    group->num_rows = kept;
}

/* ---- all together ---------------------------------------------------------------------------- */

static bool check_filter(const struct comparison *c, struct message *why)
{
    size_t rows = 0;

    for (size_t g = 0; g < c->num_groups; g++)
        rows += c->groups[g].num_rows;
    return rows > 0 || c->options.filter == NULL ||
           message_set(why, "no problem contains '%.200s', which --filter wants",
                       c->options.filter);
}

/* The first file must have something to compare with. */
static bool check_first(const struct comparison *c, struct message *why)
{
    for (size_t g = 0; g < c->num_groups; g++)
        for (size_t n = 0; n < c->groups[g].num_rows; n++)
            if (isfinite(c->groups[g].rows[n].cell[0].seconds))
                return true;
    return message_set(why, "%.300s has no times of '%.60s'%s to compare with", c->files[0].path,
                       c->options.implementation,
                       c->options.filter != NULL ? " among these problems" : "");
}

bool comparison_open(struct comparison *c, const struct run_results *files, size_t num_files,
                     const struct comparison_options *options, struct message *why)
{
    *c = (struct comparison){.files = files, .num_files = num_files, .options = *options};
    bool ok = true;
    for (size_t file = 0; ok && file < num_files; file++)
        ok = place_devices(c, file);
    for (size_t g = 0; ok && g < c->num_groups; g++)
        ok = make_rows(c, &c->groups[g]);
    if (!ok)
        message_set(why, "no memory to compare the files");
    ok = ok && check_filter(c, why);
    for (size_t g = 0; ok && g < c->num_groups; g++) {
        for (size_t n = 0; n < c->groups[g].num_rows; n++)
            compare_row(c, &c->groups[g], &c->groups[g].rows[n]);
        drop_empty_rows(c, &c->groups[g]);
    }
    ok = ok && check_first(c, why);
    if (!ok)
        comparison_free(c);
    return ok;
}

void comparison_free(struct comparison *c)
{
    for (size_t n = 0; n < c->num_groups; n++)
        free(c->groups[n].rows);
    free(c->groups);
    memset(c, 0, sizeof *c);
}

size_t comparison_count(const struct comparison *c, enum verdict verdict)
{
    size_t count = 0;

    for (size_t g = 0; g < c->num_groups; g++)
        for (size_t n = 0; n < c->groups[g].num_rows; n++)
            for (size_t file = 1; file < c->num_files; file++)
                count += c->groups[g].rows[n].cell[file].verdict == verdict;
    return count;
}

size_t comparison_regressions(const struct comparison *c)
{
    size_t count = 0;

    for (enum verdict v = VERDICT_NONE; v <= VERDICT_LOOSE; v++)
        count += verdict_kinds[v].regression ? comparison_count(c, v) : 0;
    return count;
}

struct comparison_mean comparison_mean(const struct comparison *c,
                                       const struct comparison_group *group, size_t file)
{
    struct comparison_mean mean = {.ratio = NAN};
    double sum = 0.0;

    for (size_t g = 0; g < c->num_groups; g++) {
        if (group != NULL && group != &c->groups[g])
            continue;
        for (size_t n = 0; n < c->groups[g].num_rows; n++) {
            const struct comparison_cell *cell = &c->groups[g].rows[n].cell[file];
            if (!cell->compared)
                continue;
            sum += log(cell->ratio.middle);
            mean.count++;
        }
    }
    if (mean.count > 0)
        mean.ratio = exp(sum / (double)mean.count);
    return mean;
}
