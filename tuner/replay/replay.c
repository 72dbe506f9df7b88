#include "tuner/replay/replay.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

const size_t ca_replay_checkpoints[CA_REPLAY_CHECKPOINTS] = {25, 50, 100, 200};

struct run {
    bool good;    /* false without memory */
    size_t found; /* evaluations until within the margin; 0 if never */
    double loss;
    double claimed[CA_REPLAY_CHECKPOINTS];
};

/* Shared by the threads; each run is its own, so their order changes nothing. */
struct work {
    const struct ca_replay_plan *plan;
    const double *times; /* per configuration */
    double optimum;
    struct run *runs;
    size_t next;
    pthread_mutex_t lock;
};

static void ask(struct ca_search *search, struct run *run)
{
    const size_t done = ca_search_num_evaluations(search);
    struct ca_confidence confidence;

    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++) {
        if (done != ca_replay_checkpoints[n])
            continue;
        if (ca_search_confidence(search, &confidence))
            run->claimed[n] = confidence.within_2;
    }
}

static void run_once(const struct work *work, size_t number, struct run *run)
{
    const struct ca_replay_plan *plan = work->plan;
    const struct ca_search_options options = {
        .strategy = plan->strategy,
        .seed = plan->seed + number,
        .max_evaluations = plan->budget,
        .first = plan->first,
        .num_first = plan->num_first,
    };
    struct ca_search *search = ca_search_create(plan->recording->space, &options);
    double best = INFINITY;
    size_t config;

    *run = (struct run){.good = search != NULL};
    /* Once it has the optimum nothing can change but what it thinks of its chances. */
    while (search && (best > work->optimum || plan->confidence) &&
           ca_search_suggest(search, &config)) {
        ca_search_report(search, config, work->times[config]);
        best = fmin(best, work->times[config]);
        if (run->found == 0 && best <= work->optimum * (1.0 + CA_REPLAY_MARGIN))
            run->found = ca_search_num_evaluations(search);
        if (plan->confidence)
            ask(search, run);
    }
    run->loss = best / work->optimum - 1.0;
    ca_search_destroy(search);
}

static void *work_on(void *user)
{
    struct work *work = user;

    for (;;) {
        pthread_mutex_lock(&work->lock);
        const size_t number = work->next++;
        pthread_mutex_unlock(&work->lock);
        if (number >= work->plan->runs)
            return NULL;
        run_once(work, number, &work->runs[number]);
    }
}

static void run_all(struct work *work)
{
    enum { MAX_THREADS = 64 };
    pthread_t threads[MAX_THREADS];
    size_t started = 0;

    pthread_mutex_init(&work->lock, NULL);
    while (started < MAX_THREADS && started + 1 < work->plan->threads &&
           pthread_create(&threads[started], NULL, work_on, work) == 0)
        started++;
    work_on(work);
    for (size_t n = 0; n < started; n++)
        pthread_join(threads[n], NULL);
    pthread_mutex_destroy(&work->lock);
}

static bool summarize(const struct work *work, struct ca_replay_result *result)
{
    const struct ca_replay_plan *plan = work->plan;
    const double share = 1.0 / (double)plan->runs;

    *result = (struct ca_replay_result){.part = plan->recording->space->count / 20};
    for (size_t n = 0; n < plan->runs; n++) {
        const struct run *run = &work->runs[n];
        if (!run->good)
            return false;
        for (size_t c = 0; c < CA_REPLAY_CHECKPOINTS; c++) {
            result->within[c] += run->found && run->found <= ca_replay_checkpoints[c] ? share : 0.0;
            result->claimed[c] += plan->confidence ? run->claimed[c] * share : NAN;
        }
        result->within_part += run->found && run->found <= result->part ? share : 0.0;
        result->mean_to_find += (double)(run->found ? run->found : plan->budget) * share;
        result->mean_loss += run->loss * share;
    }
    return true;
}

bool ca_replay(const struct ca_replay_plan *plan, struct ca_replay_result *result,
               struct message *why)
{
    const struct ca_recording *recording = plan->recording;
    double *times = malloc((recording->space->count + 1) * sizeof *times);
    struct run *runs = malloc((plan->runs + 1) * sizeof *runs);
    struct work work = {.plan = plan, .times = times, .optimum = INFINITY, .runs = runs};
    bool good = times && runs;

    for (size_t config = 0; good && config < recording->space->count; config++)
        times[config] = INFINITY;
    for (size_t n = 0; good && n < recording->num_attempts; n++) {
        times[recording->attempts[n].config] = recording->attempts[n].time;
        work.optimum = fmin(work.optimum, recording->attempts[n].time);
    }
    if (good && work.optimum == INFINITY) {
        good = message_set(why, "no configuration in it succeeded");
    } else {
        if (good)
            run_all(&work);
        if (!good || !summarize(&work, result))
            good = message_set(why, "not enough memory to replay it");
    }
    free(runs);
    free(times);
    return good;
}
