/* clattn-replay: searches recorded tuning spaces without a device, to compare search strategies. */
#include "cli/standard_streams.h"
#include "tuner/replay/portfolio.h"
#include "tuner/replay/replay_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct session {
    struct replay_options options;
    struct ca_recording **recordings, **seeders; /* as many as files and seed files */
    json_t *rows, *means;                        /* NULL unless JSON is wanted */
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static bool read_all(const char *const *files, size_t count, struct ca_recording **recordings)
{
    struct message why;

    for (size_t n = 0; n < count; n++) {
        recordings[n] = ca_recording_read(files[n], &why);
        if (!recordings[n]) {
            fprintf(stderr, "clattn-replay: %s\n", why.text);
            return false;
        }
    }
    return true;
}

/* The seed files but the file itself. */
static size_t choose_seeds(const struct session *session, size_t file, size_t *seeds)
{
    const struct replay_options *options = &session->options;
    const struct ca_recording **others = malloc((options->num_seed_files + 1) * sizeof *others);
    size_t count = 0;

    for (size_t n = 0; others && n < options->num_seed_files; n++)
        if (strcmp(options->seed_files[n], options->files[file]) != 0)
            others[count++] = session->seeders[n];
    if (count > 0)
        count = ca_portfolio_choose(session->recordings[file], others, count, seeds,
                                    options->num_seeds);
    free(others);
    return count;
}

static size_t budget_of(const struct replay_options *options, size_t count)
{
    const size_t least = ca_replay_checkpoints[CA_REPLAY_CHECKPOINTS - 1], part = count / 20;

    if (options->budget)
        return options->budget;
    if (options->budget_percent > 0.0) {
        const size_t budget = (size_t)(options->budget_percent / 100.0 * (double)count);
        return budget ? budget : 1;
    }
    return part > least ? part : least;
}

static bool replay_file(const struct session *session, enum ca_strategy strategy, size_t file,
                        struct ca_replay_result *sum)
{
    const struct replay_options *options = &session->options;
    const struct ca_recording *recording = session->recordings[file];
    const char *name = base_name(options->files[file]);
    struct ca_replay_result result;
    size_t seeds[CA_REPLAY_MAX_SEEDS];
    struct message why;
    const struct ca_replay_plan plan = {
        .recording = recording,
        .strategy = strategy,
        .runs = options->runs,
        .budget = budget_of(options, recording->space->count),
        .seed = options->seed,
        .first = seeds,
        .num_first = choose_seeds(session, file, seeds),
        .threads = options->threads,
        .confidence = options->confidence,
    };

    if (!ca_replay(&plan, &result, &why)) {
        message_say(stderr, "clattn-replay: %s: %s", options->files[file], why.text);
        return false;
    }
    replay_sum_add(sum, &result);
    if (session->rows)
        json_array_append_new(session->rows, replay_json(options, name, &plan, &result));
    else
        replay_print_row(options, name, &plan, &result);
    return true;
}

static bool replay_strategy(const struct session *session, enum ca_strategy strategy)
{
    const struct replay_options *options = &session->options;
    const char *name = ca_strategy_name(strategy);
    struct ca_replay_result mean = {.part = 0};
    char title[40];

    if (!session->rows)
        printf("\n%s\n", name);
    for (size_t file = 0; file < options->num_files; file++)
        if (!replay_file(session, strategy, file, &mean))
            return false;
    replay_sum_divide(&mean, options->num_files);
    snprintf(title, sizeof title, "mean of %s", name);
    if (session->rows)
        json_array_append_new(session->means, replay_json(options, name, NULL, &mean));
    else
        replay_print_row(options, title, NULL, &mean);
    return true;
}

static bool print_json(const struct session *session)
{
    const struct replay_options *options = &session->options;
    const time_t now = time(NULL);
    char date[32];

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:O, s:O}", "schema", "clattn-tune-replay-1",
                  "date", date, "clattn", CA_TUNE_VERSION, "runs", (json_int_t)options->runs,
                  "seed", (json_int_t)options->seed, "margin", CA_REPLAY_MARGIN, "results",
                  session->rows, "means", session->means);
    const bool good =
        root && json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0;

    printf("\n");
    json_decref(root);
    return good;
}

static bool replay(struct session *session)
{
    const struct replay_options *options = &session->options;

    session->recordings = calloc(options->num_files + 1, sizeof *session->recordings);
    session->seeders = calloc(options->num_seed_files + 1, sizeof *session->seeders);
    if (!session->recordings || !session->seeders ||
        !read_all(options->files, options->num_files, session->recordings) ||
        !read_all(options->seed_files, options->num_seed_files, session->seeders))
        return false;
    if (options->json) {
        session->rows = json_array();
        session->means = json_array();
    } else {
        replay_print_head(options);
    }
    for (int n = 0; n < CA_NUM_STRATEGIES; n++)
        if (options->wanted[n] && !replay_strategy(session, (enum ca_strategy)n))
            return false;
    return !options->json || print_json(session);
}

static void close_session(struct session *session)
{
    const struct replay_options *options = &session->options;

    for (size_t n = 0; session->recordings && n < options->num_files; n++)
        ca_recording_destroy(session->recordings[n]);
    for (size_t n = 0; session->seeders && n < options->num_seed_files; n++)
        ca_recording_destroy(session->seeders[n]);
    json_decref(session->means);
    json_decref(session->rows);
    free(session->seeders);
    free(session->recordings);
    free(options->seed_files);
    free(options->files);
}

static int run(int argc, char **argv)
{
    struct session session = {.recordings = NULL};
    int status = EXIT_SUCCESS;

    switch (replay_options_parse(argc, argv, &session.options)) {
    case REPLAY_RUN:
        status = replay(&session) ? EXIT_SUCCESS : EXIT_FAILURE;
        break;
    case REPLAY_USAGE:
        status = 2;
        break;
    case REPLAY_DONE:
        break;
    }
    close_session(&session);
    return status;
}

int main(int argc, char **argv)
{
    ca_standard_streams_begin();
    return ca_standard_streams_end("clattn-replay", run(argc, argv));
}
