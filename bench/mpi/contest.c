/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mpi/contest.h"
#include "bench/timing/measure.h"
#include "bench/timing/roof.h"
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SAMPLES = 9, FEWEST_SAMPLES = 3, MOST_COMPETITORS = 2 * RUN_MOST_MODES };

#define SLOW_SECONDS 1.0 /* Executions that take longer get fewer samples. */

/* A mode of strong or of weak scaling. */
struct competitor {
    const char *mode;
    bool asked_for; /* The mode was asked for; others are left out where they are unsupported. */
    bool weak, open;
    struct sharded sharded;
    struct outcome *outcome; /* The mode's outcome, on all ranks with the same state. */
    struct spent *spent;     /* On rank 0: for each sample, each rank's time. */
    size_t samples;
};

struct contest {
    struct mpi_run *run;
    struct record *record;
    struct attention_case strong, weak; /* Data on rank 0, jobs on all. */
    struct measurement alone;           /* On rank 0: the problem on one rank alone. */
    bool alone_open;
    struct competitor competitor[MOST_COMPETITORS];
    size_t count;
};

static bool first(const struct contest *contest)
{
    return contest->run->ranks.rank == 0;
}

static bool agree(const struct contest *contest, bool ok, struct message *why)
{
    return ranks_agree(&contest->run->ranks, ok, why);
}

/* ---- problems -------------------------------------------------------------------------------- */

/* The job with `times` as many tokens; for packed batches, with as many times the sequences. */
static struct job grown(const struct job *job, size_t times)
{
    struct job more = *job;
    clattn_problem *p = &more.problem;

    if (p->total_q != 0 || p->total_kv != 0) {
        p->batch *= times;
        p->total_q *= times;
        p->total_kv *= times;
    } else {
        p->seq_q *= times;
        p->seq_kv *= times;
    }
    return more;
}

/* Returns whether strides of the caller's say where rows lie: then a longer sequence has no place.
 * */
static bool has_layouts(const clattn_problem *p)
{
    const clattn_layout *const all[] = {&p->q, &p->k,           &p->v,
                                        &p->o, &p->bias_layout, &p->mask_layout};
    bool any = false;

    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        for (int d = 0; d < 4; d++)
            any = any || all[n]->stride[d] != 0;
    return any;
}

static const char *cannot_grow(const struct contest *contest)
{
    const struct attention_case *strong = &contest->strong;

    return strong->o.data != NULL || contest->record->from_file
               ? "the tensors of a file have one size"
           : has_layouts(&strong->job.problem) ? "its layout is that of one size"
                                               : NULL;
}

/* The case on rank 0, and its job on all ranks. */
static bool load(struct contest *contest, const struct item *item, struct message *why)
{
    struct attention_case *attention = &contest->strong;

    const bool ok = !first(contest) || item_load(item, attention, why);
    if (!agree(contest, ok, why))
        return false;
    ranks_copy(&attention->job, sizeof attention->job);
    ranks_copy(attention->name, sizeof attention->name);
    return ranks_function(&contest->run->ranks, &attention->job.problem.score_function, why) &&
           ranks_function(&contest->run->ranks, &attention->job.problem.mask_function, why);
}

static bool describe(struct contest *contest, const char *name, struct message *why)
{
    const struct attention_case *attention = &contest->strong;
    struct record *record = contest->record;

    memset(record, 0, sizeof *record);
    snprintf(record->name, sizeof record->name, "%s", name);
    record->from_file = ranks_number(attention->o.data != NULL) > 0.0;
    record->overhead = NAN;
    record->roof = ROOF_FMA;
    record->copies = 1;
    record->problem = job_text(&attention->job);
    if (first(contest)) {
        record->flops = case_flops(attention);
        record->bytes = case_bytes(attention);
    }
    return agree(contest, record->problem != NULL || message_set(why, "no memory for the results"),
                 why);
}

/* Prepares the longer problem, and the forward results that gradients need. */
static bool prepare(struct contest *contest, struct message *why)
{
    struct mpi_run *run = contest->run;
    struct attention_case *weak = &contest->weak;
    const bool grows = run->request->mpi.weak && cannot_grow(contest) == NULL;

    if (!sharded_forward(&run->ranks, &run->target, &contest->strong, why))
        return false;
    if (!grows)
        return true;
    const struct job job = grown(&contest->strong.job, (size_t)run->ranks.count);
    weak->job = job;
    return agree(contest, !first(contest) || case_random(weak, &job, 1, why), why) &&
           sharded_forward(&run->ranks, &run->target, weak, why);
}

/* ---- who takes part -------------------------------------------------------------------------- */

static struct outcome *add_outcome(struct record *record, const char *mode, bool weak)
{
    struct outcome *outcome = &record->outcome[record->count++];

    snprintf(outcome->implementation, sizeof outcome->implementation, "clattn%s%s%.18s",
             weak ? " weak" : "", mode[0] != '\0' ? " " : "", mode);
    outcome->cold_start_source = outcome->cold_start_cache = NAN;
    return outcome;
}

static void add_mode(struct contest *contest, const char *mode, bool asked_for, bool weak)
{
    contest->competitor[contest->count++] =
        (struct competitor){.mode = mode, .asked_for = asked_for, .weak = weak};
}

static void list_modes(struct contest *contest)
{
    static const char *const usual[] = {"ring", "heads"};
    const struct run_mpi *mpi = &contest->run->request->mpi;
    const size_t count = mpi->num_modes > 0 ? mpi->num_modes : sizeof usual / sizeof *usual;
    const char *const *modes = mpi->num_modes > 0 ? mpi->modes : usual;

    for (int weak = 0; weak < 2; weak++)
        for (size_t n = 0; n < count; n++)
            if (weak ? mpi->weak : mpi->strong)
                add_mode(contest, modes[n], mpi->num_modes > 0, weak != 0);
}

/* Once for problems of one kind: rates do not depend on lengths. */
static bool find_rates(struct mpi_run *run, const clattn_problem *p, struct message *why)
{
    const clattn_problem *r = &run->rated;

    if (run->rates.flops > 0 && r->operation == p->operation && r->dtype == p->dtype &&
        r->heads == p->heads && r->kv_heads == p->kv_heads && r->dim_qk == p->dim_qk &&
        r->dim_v == p->dim_v && r->strict == p->strict)
        return true;
    run->rates = (clattn_mpi_rates){.struct_size = sizeof run->rates};
    clattn_status status = clattn_mpi_measure(MPI_COMM_WORLD, run->target.context, p, &run->rates);
    if (status == CLATTN_SUCCESS && run->request->mpi.measured)
        status = clattn_mpi_measure_speed(MPI_COMM_WORLD, run->target.context, p,
                                          &run->request->settings.plan, &run->speed);
    if (status != CLATTN_SUCCESS)
        return message_set(why, "%s: %s", clattn_status_string(status), run->target.log.text);
    run->rated = *p;
    return true;
}

static bool note_plan(struct contest *contest, struct competitor *c, struct message *why)
{
    const struct attention_case *attention = c->weak ? &contest->weak : &contest->strong;
    clattn_mpi_plan_info info = {.struct_size = sizeof info};
    const size_t ranks = (size_t)contest->run->ranks.count;
    struct distributed *d = distributed_new(ranks);

    c->outcome->distributed = d;
    c->spent = calloc(ranks * RECORD_MOST_SAMPLES, sizeof *c->spent);
    if (d != NULL)
        d->problem = job_text(&attention->job);
    if (!agree(contest,
               (d != NULL && c->spent != NULL && d->problem != NULL) ||
                   message_set(why, "no memory for the results"),
               why))
        return false;
    static const char *const names[] = {"", "ring", "heads", "heads-ring", "split-kv"};
    (void)clattn_mpi_plan_describe(c->sharded.plan, &info);
    snprintf(d->mode, sizeof d->mode, "%s", names[info.mode]);
    d->heads_ranks = (size_t)info.heads_ranks;
    d->weak = c->weak;
    d->predicted = info.seconds_predicted;
    d->flops = first(contest) ? case_flops(attention) : 0.0;
    d->bytes = first(contest) ? case_bytes(attention) : 0.0;
    return true;
}

/* Makes its plan and tensors; false if the run cannot go on. */
static bool open_mode(struct contest *contest, struct competitor *c, struct message *why)
{
    struct mpi_run *run = contest->run;
    const struct run_mpi *mpi = &run->request->mpi;
    const struct attention_case *attention = c->weak ? &contest->weak : &contest->strong;
    clattn_mpi_options options = {.struct_size = sizeof options,
                                  .speed = mpi->measured ? run->speed : mpi->speed,
                                  .plan = &run->request->settings.plan,
                                  .rates = run->rates.flops > 0 ? &run->rates : NULL};
    clattn_status status = CLATTN_UNSUPPORTED;
    struct message reason;

    (void)sharded_mode(c->mode, &options);
    const char *fixed = c->weak ? cannot_grow(contest) : NULL;
    c->open = fixed == NULL && sharded_open(&c->sharded, &run->ranks, &run->target, &attention->job,
                                            attention, &options, &status, &reason);
    if (!c->open && status == CLATTN_UNSUPPORTED && !c->asked_for)
        return true; /* unsupported modes are skipped unless asked for */
    c->outcome = add_outcome(contest->record, c->mode, c->weak);
    if (fixed != NULL)
        message_set(&reason, "no weak scaling: %s", fixed);
    if (!c->open)
        outcome_give_up(c->outcome,
                        status == CLATTN_UNSUPPORTED ? OUTCOME_UNSUPPORTED : OUTCOME_FAILED, "%s",
                        reason.text);
    return !c->open || note_plan(contest, c, why);
}

/* Rank 0 computes the whole by itself. */
static void open_alone(struct contest *contest)
{
    struct mpi_run *run = contest->run;
    struct outcome *outcome = &contest->record->outcome[0];
    const double patience = run->request->settings.patience;
    struct message why;

    contest->alone_open = measurement_open(&contest->alone, &run->target, &contest->strong,
                                           &run->request->settings.plan, 1, &why);
    if (!contest->alone_open) {
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", why.text);
        return;
    }
    contest->record->workspace_bytes = contest->alone.engine.workspace_bytes;
    contest->record->reason = ca_text_copy(contest->alone.engine.reason);
    outcome->configuration = ca_text_copy(contest->alone.engine.configuration);
    if (contest->alone.first_seconds > patience)
        outcome_give_up(outcome, OUTCOME_FAILED,
                        "too slow: an execution took %.3g s, --patience allows %.3g s",
                        contest->alone.first_seconds, patience);
}

static bool open_all(struct contest *contest, struct message *why)
{
    struct outcome *alone = add_outcome(contest->record, "", false);

    list_modes(contest);
    for (size_t n = 0; n < contest->count; n++)
        if (!open_mode(contest, &contest->competitor[n], why))
            return false;
    if (first(contest))
        open_alone(contest);
    ranks_rest();
    ranks_copy(&alone->state, sizeof alone->state);
    return true;
}

static void close_all(struct contest *contest)
{
    for (size_t n = 0; n < contest->count; n++) {
        if (contest->competitor[n].open)
            sharded_close(&contest->competitor[n].sharded);
        free(contest->competitor[n].spent);
    }
    if (contest->alone_open)
        measurement_close(&contest->alone);
    case_free(&contest->strong);
    case_free(&contest->weak);
}

/* ---- checking and timing --------------------------------------------------------------------- */

static bool takes_part(const struct competitor *c)
{
    return c->open && c->outcome->state == OUTCOME_MEASURED;
}

/* Makes rank 0's verdict on the results the outcome of all ranks. */
static void judge(const struct contest *contest, struct outcome *outcome, bool ok,
                  struct message *why)
{
    if (!ranks_agree(&contest->run->ranks, ok, why))
        outcome_give_up(outcome, OUTCOME_FAILED, "%s", why->text);
    else if (ranks_number(!first(contest) || worst_ok(&outcome->worst)) == 0.0)
        outcome_wrong(outcome, &outcome->worst);
}

static void check_mode(const struct contest *contest, struct competitor *c)
{
    const struct attention_case *attention = c->weak ? &contest->weak : &contest->strong;
    struct results results;
    struct message why;

    bool ok = sharded_results(&c->sharded, &results, &why);
    if (ok && first(contest))
        ok = measurement_compare(attention, &results, &c->outcome->worst, &why);
    results_release(&results);
    judge(contest, c->outcome, ok, &why);
}

static void check_all(struct contest *contest)
{
    struct outcome *alone = &contest->record->outcome[0];
    struct message why;

    if (alone->state == OUTCOME_MEASURED)
        judge(contest, alone,
              !first(contest) ||
                  measurement_check(&contest->alone, &contest->strong, &alone->worst, &why),
              &why);
    for (size_t n = 0; n < contest->count; n++)
        if (takes_part(&contest->competitor[n]))
            check_mode(contest, &contest->competitor[n]);
}

/* Time by the host's clock, as for ranks: from the call to the end of the commands that it
 * enqueued. */
static double time_alone(struct contest *contest, struct message *why)
{
    const struct engine *engine = &contest->alone.engine;
    const double begun = MPI_Wtime();

    if (!engine_run(engine, &contest->alone.sets[0], NULL, why))
        return NAN;
    const cl_int err = clFinish(engine->target->queue);
    if (err != CL_SUCCESS)
        message_set(why, "clFinish failed with %d", err);
    return err == CL_SUCCESS ? MPI_Wtime() - begun : NAN;
}

static void sample_alone(struct contest *contest)
{
    struct outcome *alone = &contest->record->outcome[0];
    struct message why;
    double seconds = 0.0;

    if (first(contest))
        seconds = time_alone(contest, &why);
    ranks_rest();
    if (!agree(contest, !isnan(seconds), &why))
        outcome_give_up(alone, OUTCOME_FAILED, "%s", why.text);
    else
        samples_add(&alone->seconds, ranks_number(seconds));
}

/* Rows of this rank's shard. */
static double queries_of(const struct sharded *sharded)
{
    const clattn_problem *local = &sharded->local.problem;

    return (double)(local->total_q != 0 ? local->total_q : local->seq_q);
}

/* A sample is the time from the moment when all ranks are ready until the slowest is done. */
static void sample_mode(const struct contest *contest, struct competitor *c)
{
    const size_t ranks = (size_t)contest->run->ranks.count;
    clattn_mpi_plan_info info = {.struct_size = sizeof info};
    struct message why;
    double slowest;

    ranks_rest();
    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    if (!sharded_execute(&c->sharded, &why)) {
        outcome_give_up(c->outcome, OUTCOME_FAILED, "%s", why.text);
        return;
    }
    const double mine = MPI_Wtime() - begun;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    samples_add(&c->outcome->seconds, slowest);
    (void)clattn_mpi_plan_describe(c->sharded.plan, &info);
    const struct spent spent = {info.seconds_computing, info.seconds_waiting, info.seconds_staging,
                                info.seconds - info.seconds_computing - info.seconds_waiting -
                                    info.seconds_staging,
                                queries_of(&c->sharded)};
    MPI_Gather(&spent, sizeof spent, MPI_BYTE, c->spent + ranks * c->samples, sizeof spent,
               MPI_BYTE, 0, MPI_COMM_WORLD);
    c->samples++;
    c->outcome->distributed->bytes_sent = (double)info.bytes_sent;
}

static void sample_all(struct contest *contest)
{
    if (contest->record->outcome[0].state == OUTCOME_MEASURED)
        sample_alone(contest);
    for (size_t n = 0; n < contest->count; n++)
        if (takes_part(&contest->competitor[n]))
            sample_mode(contest, &contest->competitor[n]);
}

/* After the first round, which is one to warm up: how many more. */
static size_t samples_wanted(struct contest *contest)
{
    const size_t asked = contest->run->request->settings.repeat;
    double slowest = 0.0;

    for (size_t n = 0; n < contest->record->count; n++)
        slowest = fmax(slowest, samples_minimum(&contest->record->outcome[n].seconds));
    const double affordable = DEFAULT_SAMPLES / fmax(slowest / SLOW_SECONDS, 1.0);
    if (asked > 0)
        return asked;
    return affordable > FEWEST_SAMPLES ? (size_t)affordable : FEWEST_SAMPLES;
}

static void forget_samples(struct contest *contest)
{
    for (size_t n = 0; n < contest->record->count; n++)
        contest->record->outcome[n].seconds.count = 0;
    for (size_t n = 0; n < contest->count; n++)
        contest->competitor[n].samples = 0;
}

/* ---- what it came to ------------------------------------------------------------------------- */

/* The medians over samples of each of a rank's times. */
static struct spent median_spent(const struct competitor *c, size_t ranks, size_t rank)
{
    struct spent medians = {.computing = 0.0};
    double values[RECORD_MOST_SAMPLES];

    for (size_t key = 0; c->samples > 0 && key < SPENT_NUMBERS; key++) {
        for (size_t n = 0; n < c->samples; n++)
            values[n] = *spent_number(&c->spent[ranks * n + rank], key);
        *spent_number(&medians, key) = ca_median(values, c->samples).middle;
    }
    return medians;
}

/* Computes, for strong scaling, the time over one rank's alone; and the efficiency: the rate over that
 * of as many ranks as fast as rank 0 alone. */
static void compare(const struct record *record, struct competitor *c)
{
    const struct samples *alone = &record->outcome[0].seconds;
    struct outcome *outcome = c->outcome;
    struct distributed *d = outcome->distributed;

    for (size_t rank = 0; rank < d->ranks; rank++)
        d->spent[rank] = median_spent(c, d->ranks, rank);
    if (alone->count == 0 || alone->count != outcome->seconds.count)
        return;
    const struct ca_interval ratio =
        ca_paired_ratio(outcome->seconds.value, alone->value, alone->count);
    const double more = d->flops / record->flops / (double)d->ranks;
    d->efficiency = (struct ca_interval){more / ratio.middle, more / ratio.high, more / ratio.low};
    if (!c->weak)
        outcome->ratio = ratio;
}

static void compare_all(struct contest *contest)
{
    struct record *record = contest->record;
    struct outcome *alone = &record->outcome[0];

    if (alone->seconds.count > 0)
        alone->ratio = (struct ca_interval){1.0, 1.0, 1.0};
    for (size_t n = 0; n < contest->count; n++)
        if (takes_part(&contest->competitor[n]))
            compare(record, &contest->competitor[n]);
}

static bool hold(struct contest *contest, struct message *why)
{
    if (!prepare(contest, why) || !find_rates(contest->run, &contest->strong.job.problem, why) ||
        !open_all(contest, why))
        return false;
    check_all(contest);
    sample_all(contest);
    const size_t wanted = samples_wanted(contest);
    forget_samples(contest);
    for (size_t n = 0; n < wanted; n++)
        sample_all(contest);
    check_all(contest); /* a kernel may go wrong when run often */
    if (first(contest))
        compare_all(contest);
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

bool contest_item(struct mpi_run *run, const struct item *item, const char *heading,
                  struct record *record, struct message *why)
{
    struct contest contest = {.run = run, .record = record};

    if (!load(&contest, item, why) ||
        !describe(&contest, item->path != NULL ? contest.strong.name : heading, why)) {
        case_free(&contest.strong);
        return false;
    }
    const enum job_kind kind = job_kind(&contest.strong.job);
    bool ok = true;
    if (kind == JOB_FORWARD || kind == JOB_BACKWARD)
        ok = hold(&contest, why);
    else
        outcome_give_up(add_outcome(record, "", false), OUTCOME_UNSUPPORTED,
                        "ranks share attention and its gradients, not '%s'", job_kind_name(kind));
    close_all(&contest);
    if (!ok)
        record_free(record);
    return ok;
}
