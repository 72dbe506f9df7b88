/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/duel.h"
#include "bench/records/place.h"
#include "bench/records/results.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

const char *duel_verdict(const struct ca_interval *ratio)
{
    return ratio->low > 1.0 ? "slower" : ratio->high < 1.0 ? "faster" : "tie";
}

/* Between an entry's own time and what it is to the first's: narrow terminals have no room for both
 * in a line. */
static const char *gap(void)
{
    enum { WIDEST = 78 };

    return ca_columns(stdout) < WIDEST ? "\n    " : "  ";
}

static void print_row(const struct duel *duel, size_t index)
{
    const struct duellist *d = &duel->duellist[index];

    printf("%2zu %10.4f  %9.4f .. %-9.4f", index + 1, d->median.middle * 1e3, d->median.low * 1e3,
           d->median.high * 1e3);
    if (index > 0)
        printf("%s%8.4f  %7.4f .. %-7.4f  %s", gap(), d->outcome.ratio.middle, d->outcome.ratio.low,
               d->outcome.ratio.high, duel_verdict(&d->outcome.ratio));
    putchar('\n');
    ca_print_line(stdout, d->measurement.engine.configuration, 3);
    ca_print_line(stdout, d->measurement.engine.reason, 3);
}

void duel_print(const struct duel *duel)
{
    const clattn_device_info *info = duel->target.info;

    ca_print_line(stdout, duel->problem, 0);
    ca_print_wrapped(stdout, 0, "%.75s, driver %.20s\n", info->name, info->driver_version);
    printf("%zu rounds\n\n", duel->duellist[0].outcome.seconds.count);
    printf("   %10s  %-22s%s%8s  %-18s  %s\n", "ms", "95 % of its median", gap(), "to first",
           "95 % of the ratio", "verdict");
    for (size_t n = 0; n < duel->count; n++)
        print_row(duel, n);
}

static json_t *make_duellist(const struct duel *duel, size_t index)
{
    const struct duellist *d = &duel->duellist[index];
    const char *verdict = index > 0 ? duel_verdict(&d->outcome.ratio) : NULL;

    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:s?, s:o, s:b}", "name", d->name, "configuration",
        d->measurement.engine.configuration, "origin", record_origin(d->measurement.engine.reason),
        "milliseconds", results_milliseconds(&d->outcome.seconds), "ratio",
        index > 0 ? place_interval_json(&d->outcome.ratio) : json_null(), "verdict", verdict,
        "error", results_error(&d->outcome.worst, "reference"), "ok", worst_ok(&d->outcome.worst));
}

bool duel_write(const char *path, const struct duel *duel, struct message *why)
{
    json_t *object = results_new("clattn-bench-duel-1", &duel->target);
    json_t *list = json_array();

    for (size_t n = 0; n < duel->count; n++)
        json_array_append_new(list, make_duellist(duel, n));
    json_object_set_new(object, "problem", json_string(duel->problem));
    json_object_set_new(object, "duellists", list);
    return results_dump(path, object, why);
}
