#include "tuner/replay/replay_print.h"
#include "cli/message.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

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

/* Of the table's cells. */
enum {
    FILE_COLUMNS = 36,
    CONFIGS = 7,
    BUDGET = 6,
    SEEDS = 5,
    SHARE = 5,
    NEEDED = 6,
    INDENTATION = 2
};

/* Begins a row: the file, or on a narrow terminal all of its name above the figures. */
static struct ca_row begin_row(const char *file)
{
    const bool narrow = ca_columns(stdout) < CA_MOST_COLUMNS;
    struct ca_row row = {.to = stdout, .indentation = narrow ? INDENTATION : FILE_COLUMNS + 1};
    struct message name;

    message_set(&name, "%s", file);
    if (narrow)
        ca_print_line(stdout, name.text, 0);
    else
        row.column = printf("%-*.*s", FILE_COLUMNS, FILE_COLUMNS, name.text);
    return row;
}

static void add_count(struct ca_row *row, int width, size_t count)
{
    char text[24];

    snprintf(text, sizeof text, "%zu", count);
    ca_row_cell(row, width, text);
}

static void add_number(struct ca_row *row, int width, double number)
{
    char text[32];

    snprintf(text, sizeof text, "%.1f", number);
    ca_row_cell(row, width, text);
}

/* Below the shares that came true. */
static void add_stated(struct ca_row *row, const struct ca_replay_result *result)
{
    ca_row_end(row);
    ca_row_cell(row, CONFIGS + 1 + BUDGET + 1 + SEEDS, "stated");
    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++)
        add_number(row, SHARE, 100.0 * result->claimed[n]);
}

void replay_print_head(const struct replay_options *options)
{
    ca_print_paragraph(stdout, 0,
                       "%% of %zu runs within %.0f %% of the optimum after so many evaluations",
                       options->runs, 100.0 * CA_REPLAY_MARGIN);
    putchar('\n');
    struct ca_row row = begin_row("file");
    ca_row_cell(&row, CONFIGS, "configs");
    ca_row_cell(&row, BUDGET, "budget");
    ca_row_cell(&row, SEEDS, "seeds");
    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++)
        add_count(&row, SHARE, ca_replay_checkpoints[n]);
    ca_row_cell(&row, SHARE, "5 %");
    ca_row_cell(&row, NEEDED, "needed");
    ca_row_end(&row);
}

void replay_print_row(const struct replay_options *options, const char *file,
                      const struct ca_replay_plan *plan, const struct ca_replay_result *result)
{
    struct ca_row row = begin_row(file);

    if (plan) {
        add_count(&row, CONFIGS, plan->recording->space->count);
        add_count(&row, BUDGET, plan->budget);
        add_count(&row, SEEDS, plan->num_first);
    } else {
        ca_row_cell(&row, CONFIGS, "");
        ca_row_cell(&row, BUDGET, "");
        ca_row_cell(&row, SEEDS, "");
    }
    for (size_t n = 0; n < CA_REPLAY_CHECKPOINTS; n++)
        add_number(&row, SHARE, 100.0 * result->within[n]);
    add_number(&row, SHARE, 100.0 * result->within_part);
    add_number(&row, NEEDED, result->mean_to_find);
    if (options->confidence)
        add_stated(&row, result);
    ca_row_end(&row);
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
    if (options->confidence)
        json_object_set_new(object, "stated", shares_json(result->claimed));
    return object;
}
