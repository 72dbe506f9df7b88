/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/archive.h"
#include "bench/records/comparison.h"

#include <jansson.h>

static const char *state_of(const struct comparison_cell *cell)
{
    return cell->outcome != NULL ? outcome_state_name(cell->outcome->state) : "missing";
}

static json_t *make_cell(const struct comparison_cell *cell)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:s?}", "state", state_of(cell), "milliseconds",
                     number_json(cell->seconds * 1e3), "share", number_json(cell->share), "ratio",
                     cell->compared ? interval_json(&cell->ratio) : json_null(), "verdict",
                     cell->verdict != VERDICT_NONE ? verdict_kinds[cell->verdict].name : NULL);
}

static json_t *make_row(const struct comparison *c, const struct comparison_row *row)
{
    json_t *cells = json_array();

    for (size_t file = 0; file < c->num_files; file++)
        json_array_append_new(cells, make_cell(&row->cell[file]));
    return json_pack("{s:s, s:s, s:o}", "name", row->name, "problem", row->problem, "files", cells);
}

static json_t *make_run(const struct comparison_group *group, size_t file)
{
    const struct device_run *run = group->run[file];

    if (run == NULL)
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:i, s:b, s:o, s:b, s:s?}", "name", run->info.name,
                     "platform", run->info.platform_name, "driver", run->info.driver_version,
                     "compute_units", (int)run->info.compute_units, "other", group->other[file],
                     "noise", number_json(device_run_noise(run)), "interrupted", run->interrupted,
                     "failed", run->failed.text[0] != '\0' ? run->failed.text : NULL);
}

static json_t *make_group(const struct comparison *c, const struct comparison_group *group)
{
    json_t *runs = json_array(), *rows = json_array(), *means = json_array();

    for (size_t file = 0; file < c->num_files; file++) {
        json_array_append_new(runs, make_run(group, file));
        json_array_append_new(means, number_json(comparison_mean(c, group, file).ratio));
    }
    for (size_t n = 0; n < group->num_rows; n++)
        json_array_append_new(rows, make_row(c, &group->rows[n]));
    return json_pack("{s:o, s:o, s:o}", "files", runs, "geometric_mean", means, "results", rows);
}

bool comparison_write_json(const char *path, const struct comparison *c, struct message *why)
{
    json_t *files = json_array(), *groups = json_array(), *means = json_array();

    for (size_t file = 0; file < c->num_files; file++) {
        json_array_append_new(files,
                              json_pack("{s:s, s:s, s:s}", "path", c->files[file].path, "date",
                                        c->files[file].date, "clattn", c->files[file].clattn));
        json_array_append_new(means, number_json(comparison_mean(c, NULL, file).ratio));
    }
    for (size_t n = 0; n < c->num_groups; n++)
        json_array_append_new(groups, make_group(c, &c->groups[n]));
    return results_dump(path,
                        json_pack("{s:s, s:s, s:s, s:f, s:o, s:o, s:o, s:I}", "schema",
                                  "clattn-bench-compare-1", "by",
                                  c->options.by_share ? "share" : "time", "implementation",
                                  c->options.implementation, "threshold", c->options.threshold,
                                  "files", files, "devices", groups, "geometric_mean", means,
                                  "regressions", (json_int_t)comparison_regressions(c)),
                        why);
}
