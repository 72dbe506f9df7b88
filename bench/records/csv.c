/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/records/csv.h"
#include "os/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char header[] =
    "date,clattn,device,platform,driver,workload,problem,implementation,version,state,why,"
    "configuration,median_ms,low_ms,high_ms,min_ms,gflops,gbytes,roof,share,ratio_low,ratio_high,"
    "host_us,first_source_ms,first_cache_ms,error_ratio,workspace_bytes,copies,noise\r\n";

static void separate(struct csv_row *row)
{
    if (row->begun)
        fputc(',', row->to);
    row->begun = true;
}

void csv_text(struct csv_row *row, const char *text)
{
    separate(row);
    if (text == NULL || text[0] == '\0')
        return;
    const bool quoted = text[strcspn(text, ",\"\r\n")] != '\0';
    if (quoted)
        fputc('"', row->to);
    if (strchr("=+-@\t\r", text[0]) != NULL)
        fputc('\'', row->to);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"')
            fputc('"', row->to);
        fputc((c < 0x20 && strchr("\t\r\n", c) == NULL) || c == 0x7f ? '?' : c, row->to);
    }
    if (quoted)
        fputc('"', row->to);
}

void csv_number(struct csv_row *row, double value)
{
    char text[64];

    separate(row);
    if (!isfinite(value))
        return;
    snprintf(text, sizeof text, "%.9g", value);
    for (const char *c = text; *c != '\0';) {
        const size_t other = strcspn(c, "0123456789+-e");
        fputc(other > 0 ? '.' : *c, row->to);
        c += other > 0 ? other : 1;
    }
}

void csv_end(struct csv_row *row)
{
    fputs("\r\n", row->to);
    row->begun = false;
}

static const char *version_of(const struct run_results *results, const struct device_run *run,
                              const struct outcome *outcome)
{
    if (strncmp(outcome->implementation, "clattn", 6) == 0)
        return results->clattn;
    for (size_t n = 0; n < run->num_peers; n++)
        if (strcmp(run->peer[n].name, outcome->implementation) == 0)
            return run->peer[n].version;
    return "";
}

static void put_times(struct csv_row *row, const struct record *record,
                      const struct outcome *outcome)
{
    const bool timed = outcome_timed(outcome);
    const struct ca_interval none = {NAN, NAN, NAN};
    const struct ca_interval seconds =
        timed ? ca_median(outcome->seconds.value, outcome->seconds.count) : none;
    const bool compared = timed && outcome->ratio.middle > 0.0;
    const struct ca_interval ratio = compared ? outcome->ratio : none;

    csv_number(row, seconds.middle * 1e3);
    csv_number(row, seconds.low * 1e3);
    csv_number(row, seconds.high * 1e3);
    csv_number(row, timed ? samples_minimum(&outcome->seconds) * 1e3 : NAN);
    csv_number(row, record_flops(record, outcome) / seconds.middle * 1e-9);
    csv_number(row, record_bytes(record, outcome) / seconds.middle * 1e-9);
    csv_text(row, roof_keys[record->roof]);
    csv_number(row, timed && record->share.count > 0 ? record_share(record, outcome) : NAN);
    csv_number(row, ratio.low);
    csv_number(row, ratio.high);
    csv_number(row, timed && outcome->host.count > 0 ? samples_median(&outcome->host) * 1e6 : NAN);
}

static void put_outcome(FILE *to, const struct run_results *results, const struct device_run *run,
                        const struct record *record, const struct outcome *outcome)
{
    const bool ours = strcmp(outcome->implementation, "clattn") == 0;
    struct csv_row row = {.to = to};

    csv_text(&row, results->date);
    csv_text(&row, results->clattn);
    csv_text(&row, run->info.name);
    csv_text(&row, run->info.platform_name);
    csv_text(&row, run->info.driver_version);
    csv_text(&row, record->name);
    csv_text(&row, record->problem);
    csv_text(&row, outcome->implementation);
    csv_text(&row, version_of(results, run, outcome));
    csv_text(&row, outcome_state_name(outcome->state));
    csv_text(&row, outcome->why.text);
    csv_text(&row, outcome->configuration);
    put_times(&row, record, outcome);
    csv_number(&row, outcome->cold_start_source * 1e3);
    csv_number(&row, outcome->cold_start_cache * 1e3);
    csv_number(&row, outcome->worst.results > 0 ? outcome->worst.ratio : NAN);
    csv_number(&row, ours ? (double)record->workspace_bytes : NAN); /* a peer's is not known */
    csv_number(&row, (double)record->copies);
    csv_number(&row, run->count > 0 ? device_run_noise(run) : NAN);
    csv_end(&row);
}

static bool write_all(FILE *to, const struct run_results *results)
{
    fputs(header, to);
    for (size_t d = 0; d < results->count; d++) {
        const struct device_run *run = &results->devices[d];
        for (size_t r = 0; r < run->count; r++)
            for (size_t n = 0; n < run->records[r].count; n++)
                put_outcome(to, results, run, &run->records[r], &run->records[r].outcome[n]);
    }
    return fflush(to) == 0 && !ferror(to);
}

bool csv_write(const char *path, const struct run_results *results, struct message *why)
{
    const bool file = strcmp(path, "-") != 0;
    FILE *to = file ? ca_stream_open(path, "w") : stdout;

    if (to == NULL)
        return message_set(why, "%.300s cannot be written: %s", path, strerror(errno));
    bool ok = write_all(to, results);
    const int reason = errno;
    if (file && fclose(to) != 0)
        ok = false;
    return ok || message_set(why, "%.300s cannot be written: %s", path,
                             strerror(reason != 0 ? reason : errno));
}
