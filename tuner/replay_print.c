#include "replay_print.h"

#include <math.h>
#include <stdio.h>

void replay_sum_add(struct ca_replay_result *sum, const struct ca_replay_result *result)
{
    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++) {
        sum->within[n] += result->within[n];
        sum->claimed[n] += result->claimed[n];
    }
    sum->within_part += result->within_part;
    sum->mean_to_find += result->mean_to_find;
    sum->mean_loss += result->mean_loss;
}

void replay_sum_divide(struct ca_replay_result *sum, size_t count)
{
    const double share = 1.0 / (double)count;

    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++) {
        sum->within[n] *= share;
        sum->claimed[n] *= share;
    }
    sum->within_part *= share;
    sum->mean_to_find *= share;
    sum->mean_loss *= share;
}

void replay_print_head(const struct replay_options *options)
{
    printf("%% of %zu runs within %.0f %% of the optimum after so many evaluations\n\n",
           options->runs, 100.0 * CA_REPLAY_MARGIN);
    printf("%-36s %7s %6s %5s", "file", "configs", "budget", "seeds");
    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++)
        printf(" %5zu", ca_replay_checkpoints[n]);
    printf(" %5s %6s", "5 %", "needed");
    if (options->outlook)
        printf("   stated");
    printf("\n");
}

void replay_print_row(const struct replay_options *options, const char *file,
                      const struct ca_replay_plan *plan, const struct ca_replay_result *result)
{
    if (plan)
        printf("%-36.36s %7zu %6zu %5zu", file, plan->recording->space->count, plan->budget,
               plan->num_first);
    else
        printf("%-36.36s %7s %6s %5s", file, "", "", "");
    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++)
        printf(" %5.1f", 100.0 * result->within[n]);
    printf(" %5.1f %6.1f", 100.0 * result->within_part, result->mean_to_find);
    if (options->outlook)
        for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++)
            printf(" %5.1f", 100.0 * result->claimed[n]);
    printf("\n");
    fflush(stdout);
}

/* {"25": share, ...} */
static json_t *shares_json(const double *shares)
{
    json_t *object = json_object();
    char key[24];

    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++) {
        snprintf(key, sizeof key, "%zu", ca_replay_checkpoints[n]);
        json_object_set_new(object, key, json_real(shares[n]));
    }
    return object;
}

json_t *replay_json(const struct replay_options *options, const char *file,
                    const struct ca_replay_plan *plan, const struct ca_replay_result *result)
{
    json_t *object = json_object();

    json_object_set_new(object, plan ? "file" : "strategy", json_string(file));
    if (plan) {
        json_object_set_new(object, "device", json_string(plan->recording->device_name));
        json_object_set_new(object, "kernel", json_string(plan->recording->kernel_name));
        json_object_set_new(object, "strategy", json_string(ca_strategy_name(plan->strategy)));
        json_object_set_new(object, "configurations",
                            json_integer((json_int_t)plan->recording->space->count));
        json_object_set_new(object, "budget", json_integer((json_int_t)plan->budget));
        json_object_set_new(object, "seeds", json_integer((json_int_t)plan->num_first));
    }
    json_object_set_new(object, "within", shares_json(result->within));
    json_object_set_new(object, "within_at_5_percent_of_space", json_real(result->within_part));
    json_object_set_new(object, "mean_evaluations_to_find", json_real(result->mean_to_find));
    json_object_set_new(object, "mean_loss", json_real(result->mean_loss));
    if (options->outlook)
        json_object_set_new(object, "stated", shares_json(result->claimed));
    return object;
}
