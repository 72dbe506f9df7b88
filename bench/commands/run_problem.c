/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/interleaved.h"
#include "bench/commands/run_device.h"
#include "bench/timing/cold_start.h"
#include "bench/timing/roof.h"
#include "cli/interrupt.h"
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SAMPLES 9 /* The interval of their median leaves out the lowest and the highest. */
#define FEWEST_SAMPLES 3
#define SLOW_SECONDS 1.0 /* Executions that take longer get fewer samples. */
#define MOST_PLAUSIBLE_SHARE 1.02
#define SAMPLING_PART 0.85 /* Part of a problem's time; the rest is for its first call. */
/* Allowance for compiling, besides the time limit of an execution. */
#define COLD_START_SECONDS 60.0

/* A problem while it is measured. */
struct race {
    struct run *run;
    const struct attention_case *attention;
    struct record *record;
    struct interleaved interleaved;
    struct measurement clattn, untuned;
    double peak[2]; /* Peaks measured just before and just after clattn's sample. */
    size_t peaks;
    bool given_up; /* Nothing is tried: it would take too long. */
};

static void show_progress(const struct race *race, double part)
{
    progress_update(&race->run->progress, race->record->problem, race->run->weight, part);
}

double run_problem_weight(const struct job *job)
{
    return 5e10 + job_flops(job);
}

/* ---- what is to be measured ------------------------------------------------------------------ */

/* The arithmetic that bounds it: two multiply-adds of bf16 in each lane, where the device has them and the
 * problem's precision allows it. */
static enum roof arithmetic_of_case(const struct attention_case *attention,
                                    const struct peak_samples *peaks)
{
    const clattn_problem *p = &attention->job.problem;

    return ca_problem_own_dtype(p) == CLATTN_BF16 && !p->strict && peaks->fma[PEAK_BF16].count > 0
               ? ROOF_FMA_BF16
               : ROOF_FMA;
}

static bool describe(struct race *race, const char *name, struct message *why)
{
    const struct attention_case *attention = race->attention;
    const struct peak_samples *peaks = &race->run->device->peaks;
    struct record *record = race->record;
    const enum roof arithmetic = arithmetic_of_case(attention, peaks);
    const double gflops = peak_of_roof_median(peaks, arithmetic),
                 gigabytes = samples_median(&peaks->read);
    const double most = (double)race->run->target.info->global_memory_bytes / 8.0;

    memset(record, 0, sizeof *record);
    snprintf(record->name, sizeof record->name, "%s", name);
    record->flops = case_flops(attention);
    record->bytes = case_bytes(attention);
    record->from_file = attention->o.data != NULL;
    record->overhead = NAN;
    record->roof = record->bytes * gflops > record->flops * gigabytes ? ROOF_READ : arithmetic;
    record->copies =
        roof_copies(record->flops, record->bytes, gflops, gigabytes,
                    peaks_read_bytes(&race->run->peaks), case_set_bytes(attention), most);
    record->problem = job_text(&attention->job);
    return record->problem != NULL || message_set(why, "no memory for the results");
}

static struct outcome *add_outcome(struct record *record, const char *implementation)
{
    struct outcome *outcome = &record->outcome[record->count++];

    snprintf(outcome->implementation, sizeof outcome->implementation, "%s", implementation);
    outcome->cold_start_source = outcome->cold_start_cache = NAN;
    return outcome;
}

/* ---- our own plans --------------------------------------------------------------------------- */

static void check_patience(const struct race *race, double seconds, struct outcome *outcome)
{
    const double patience = race->run->settings->patience;

    if (seconds > patience)
        outcome_give_up(outcome, OUTCOME_FAILED,
                        "too slow: an execution took %.3g s, --patience allows %.3g s", seconds,
                        patience);
}

/* A slow device would be lost in a large problem for hours before its time was known. */
static bool expect_patience(const struct race *race, struct outcome *outcome)
{
    const double patience = race->run->settings->patience, fastest = race->run->fastest;
    const double expected = fastest > 0.0 ? race->record->flops / fastest : 0.0;

    if (expected > patience)
        outcome_give_up(outcome, OUTCOME_FAILED,
                        "too slow: at the best rate so far an execution would take %.3g s, "
                        "--patience allows %.3g s",
                        expected, patience);
    return expected <= patience;
}

static void note_rate(struct race *race, double seconds)
{
    if (seconds > 0.0)
        race->run->fastest = fmax(race->run->fastest, race->record->flops / seconds);
}

static void open_clattn(struct race *race, struct outcome *outcome)
{
    const clattn_plan_options *options = &race->run->settings->plan;
    const struct target *target = &race->run->target;
    struct record *record = race->record;
    struct message why;

    if (!engine_supports(target, &race->attention->job, options, &why)) {
        outcome_give_up(outcome, OUTCOME_UNSUPPORTED, "%s", why.text);
        return;
    }
    race->given_up = !expect_patience(race, outcome);
    if (race->given_up)
        return;
    if (!measurement_open(&race->clattn, target, race->attention, options, record->copies, &why)) {
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", why.text);
        return;
    }
    record->workspace_bytes = race->clattn.engine.workspace_bytes;
    record->reason = ca_text_copy(race->clattn.engine.reason);
    outcome->configuration = ca_text_copy(race->clattn.engine.configuration);
    if (record->reason == NULL || outcome->configuration == NULL)
        outcome_give_up(outcome, OUTCOME_FAILED, "no memory for the results");
    note_rate(race, race->clattn.first_seconds);
    check_patience(race, race->clattn.first_seconds, outcome);
}

/* The plan that a device would get without tuning also takes part if it differs. */
static void open_untuned(struct race *race)
{
    const clattn_plan_options options = {.struct_size = sizeof options,
                                         .flags = CLATTN_PLAN_UNTUNED};
    struct message why = {""};
    const bool opened =
        measurement_open_beside(&race->untuned, &race->clattn, race->attention, &options, &why);

    if (opened &&
        strcmp(race->untuned.engine.configuration, race->clattn.engine.configuration) == 0)
        return;
    struct outcome *outcome = add_outcome(race->record, "clattn untuned");
    race->interleaved.competitor[race->interleaved.count++] =
        (struct competitor){.measurement = &race->untuned, .outcome = outcome};
    if (!opened) {
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", why.text);
        return;
    }
    outcome->configuration = ca_text_copy(race->untuned.engine.configuration);
    check_patience(race, race->untuned.first_seconds, outcome);
}

/* ---- other libraries ------------------------------------------------------------------------- */

/* Many libraries compile in their first computation. If that took too long, the time of a second one decides. */
static void check_peers_patience(const struct race *race, struct run_peer *peer,
                                 struct outcome *outcome)
{
    double seconds = peer->peer.first_seconds, host;

    if (seconds > race->run->settings->patience &&
        peer_sample(&peer->peer, 0.0, &seconds, &host, &peer->why) != PEER_OK)
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", peer->why.text);
    else
        check_patience(race, seconds, outcome);
}

static void open_peer(struct race *race, struct run_peer *peer)
{
    const char *name = race->run->device->peer[peer->note].name;
    struct outcome *outcome = add_outcome(race->record, name);

    if (race->given_up) {
        outcome_give_up(outcome, OUTCOME_FAILED, "not tried, as clattn is too slow here");
        return;
    }
    if (!run_peer_ready(&race->run->peers, peer)) {
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", peer->why.text);
        return;
    }
    const enum peer_answer answer =
        peer_open(&peer->peer, race->attention, race->record->copies, &peer->why);
    if (answer != PEER_OK) {
        outcome_give_up(outcome, answer == PEER_UNSUPPORTED ? OUTCOME_UNSUPPORTED : OUTCOME_FAILED,
                        "%s", peer->why.text);
        return;
    }
    outcome->cold_start_source = peer->peer.first_seconds;
    if (peer->peer.configuration[0] != '\0')
        outcome->configuration = ca_text_copy(peer->peer.configuration);
    check_peers_patience(race, peer, outcome);
    race->interleaved.competitor[race->interleaved.count++] =
        (struct competitor){.peer = &peer->peer, .outcome = outcome};
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void open_all(struct race *race)
{
    struct run_peers *peers = &race->run->peers;
    const clattn_plan_options *options = &race->run->settings->plan;
    const bool forced = options->family != NULL || (options->flags & CLATTN_PLAN_UNTUNED) != 0;
    struct outcome *outcome = add_outcome(race->record, "clattn");

    race->interleaved.competitor[race->interleaved.count++] =
        (struct competitor){.measurement = &race->clattn, .outcome = outcome};
    open_clattn(race, outcome);
    if (!forced && race->clattn.copies > 0)
        open_untuned(race);
    for (size_t n = 0; n < peers->count && !ca_interrupted(); n++) {
        show_progress(race, 0.0);
        open_peer(race, &peers->peer[n]);
    }
}

static void close_all(struct race *race)
{
    struct run_peers *peers = &race->run->peers;

    for (size_t n = 0; n < peers->count; n++)
        peer_close(&peers->peer[n].peer);
    measurement_close(&race->untuned);
    measurement_close(&race->clattn);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static bool sample_peak(void *user, struct message *why)
{
    struct race *race = user;
    struct peak_samples *peaks = &race->run->device->peaks;
    double *peak = &race->peak[race->peaks++ % 2];

    const enum roof roof = race->record->roof;

    if (roof == ROOF_READ ? !peaks_read(&race->run->peaks, peak, why)
                          : !peaks_fma(&race->run->peaks, roof == ROOF_FMA ? PEAK_F32 : PEAK_BF16,
                                       race->clattn.seconds, peak, why))
        return false;
    samples_add(peak_of_roof(peaks, roof), *peak);
    return true;
}

static size_t samples_wanted(const struct race *race)
{
    const double slowest = interleaved_slowest(&race->interleaved);
    const double affordable = DEFAULT_SAMPLES / fmax(slowest / SLOW_SECONDS, 1.0);

    if (race->run->settings->repeat > 0)
        return race->run->settings->repeat;
    return affordable > FEWEST_SAMPLES ? (size_t)affordable : FEWEST_SAMPLES;
}

/* Returns whether the roof is what bounds the problem: not where a GPU multiplies halves, which its
 * matrix units may do, whose peak nobody has measured. */
static bool roof_is_known(const struct race *race)
{
    return race->record->roof != ROOF_FMA ||
           ca_problem_own_dtype(&race->attention->job.problem) == CLATTN_F32 ||
           (race->run->target.info->type & CL_DEVICE_TYPE_CPU) != 0;
}

static void add_share(struct race *race)
{
    const struct record *record = race->record;
    const struct samples *seconds = &record->outcome[0].seconds;
    const double peak = (race->peak[0] + race->peak[1]) / 2.0;
    const double work = record->roof == ROOF_READ ? record->bytes : record->flops;

    if (roof_is_known(race) && seconds->count > record->share.count)
        samples_add(&race->record->share, work / seconds->value[seconds->count - 1] * 1e-9 / peak);
}

static void measure(struct race *race, struct message *why)
{
    struct interleaved *interleaved = &race->interleaved;

    show_progress(race, 0.0);
    interleaved_check(interleaved, race->attention);
    interleaved_warm_up(interleaved);
    const size_t wanted = samples_wanted(race);
    for (size_t n = 0; n < wanted && interleaved_goes_on(interleaved); n++) {
        show_progress(race, SAMPLING_PART * (double)n / (double)wanted);
        if (!interleaved_round(interleaved, why))
            break;
        add_share(race);
    }
    note_rate(race, samples_minimum(&race->record->outcome[0].seconds));
    interleaved_check(interleaved, race->attention); /* a kernel may go wrong when run often */
}

/* Measures the overhead of a call; where that fails, the table has none. */
static void measure_overhead(struct race *race)
{
    struct record *record = race->record;
    struct message why;

    if (outcome_timed(&record->outcome[0]) && !race->attention->job.is_layer && !ca_interrupted() &&
        !measurement_overhead(&race->clattn, &record->overhead, &why))
        record->overhead = NAN;
}

static void compare(struct record *record, const struct message *why)
{
    const struct samples *ours = &record->outcome[0].seconds;

    for (size_t n = 0; n < record->count; n++) {
        struct outcome *outcome = &record->outcome[n];
        const bool in = outcome->state == OUTCOME_MEASURED || outcome->state == OUTCOME_LOOSE;
        if (in && outcome->seconds.count == 0)
            outcome_give_up(outcome, OUTCOME_FAILED, "%s",
                            why->text[0] != '\0' ? why->text : "interrupted");
        else if (in && ours->count > 0)
            outcome->ratio = ca_paired_ratio(outcome->seconds.value, ours->value, ours->count);
    }
    if (ours->count == 0)
        record->share.count = 0;
}

static bool any_timed(const struct record *record)
{
    for (size_t n = 0; n < record->count; n++)
        if (outcome_timed(&record->outcome[n]))
            return true;
    return false;
}

/* ---- the first call -------------------------------------------------------------------------- */

static void tick(void *user)
{
    show_progress(user, SAMPLING_PART);
}

static void measure_cold_start(struct race *race)
{
    struct outcome *outcome = &race->record->outcome[0];
    const struct cold_start call = {
        .program = race->run->settings->program,
        .device = race->run->device->index,
        .problem = race->record->problem,
        .configuration = race->attention->job.is_layer ? NULL : outcome->configuration,
        .seconds = COLD_START_SECONDS + race->run->settings->patience,
        .tick = tick,
        .user = race,
    };
    struct message why;

    if (outcome_timed(outcome) && !race->run->settings->no_cold_start && !ca_interrupted() &&
        !cold_start_measure(&call, &outcome->cold_start_source, &outcome->cold_start_cache,
                            &outcome->cold_start_parts, &why) &&
        !ca_interrupted())
        run_complain(race->run, why.text);
}

/* ---------------------------------------------------------------------------------------------- */

bool run_problem(struct run *run, const struct attention_case *attention, const char *name,
                 struct record *record)
{
    struct race race = {.run = run,
                        .attention = attention,
                        .record = record,
                        .interleaved = {.random = 1, .beside = sample_peak}};
    struct message why = {""};

    race.interleaved.user = &race;
    if (!describe(&race, name, &why))
        return run_complain(run, why.text);
    open_all(&race);
    measure(&race, &why);
    measure_overhead(&race);
    if (why.text[0] != '\0')
        outcome_give_up(&record->outcome[0], OUTCOME_FAILED, "%s", why.text);
    compare(record, &why);
    if (samples_median(&record->share) > MOST_PLAUSIBLE_SHARE)
        run->device->peaks.exceeded = true;
    close_all(&race);
    measure_cold_start(&race);
    return any_timed(record) || !ca_interrupted();
}
