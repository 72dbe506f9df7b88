/* SPDX-License-Identifier: Apache-2.0 */
/* clattn-bench verify --mpi: cases in files, computed by all ranks. */
#include "bench/commands/verify_engine.h"
#include "bench/mpi/commands.h"
#include "bench/mpi/sharded.h"

#include <stdlib.h>
#include <string.h>

static bool open_target(struct target *target, const char *selector, struct message *why)
{
    const struct ranks ranks = ranks_open();

    return mpi_target_open(&ranks, target, selector, why);
}

static bool agree(bool ok, struct message *why)
{
    const struct ranks ranks = ranks_open();

    return ranks_agree(&ranks, ok, why);
}

static int agree_status(int status)
{
    const struct ranks ranks = ranks_open();

    return mpi_agree_status(&ranks, "verify", status);
}

static const char *refuse_mode(const char *mode)
{
    clattn_mpi_options options;

    return sharded_mode(mode, &options)
               ? NULL
               : "--mode takes all-gather, ring, heads, heads-ring:N, split-kv or auto";
}

static bool execute(const struct target *target, const struct attention_case *attention,
                    const char *mode, const clattn_plan_options *plan, void *o, bool *unsupported,
                    struct message *why)
{
    const struct view view = case_output_view(&attention->job, OUTPUT_O);
    const struct ranks ranks = ranks_open();
    clattn_mpi_options options = {.struct_size = sizeof options, .plan = plan};
    struct results results = {{NULL}};
    struct sharded sharded;
    clattn_status status;

    (void)sharded_mode(mode, &options);
    const bool opened =
        sharded_open(&sharded, &ranks, target, &attention->job, attention, &options, &status, why);
    *unsupported = status == CLATTN_UNSUPPORTED;
    if (!opened)
        return false;
    const bool ok = sharded_results(&sharded, &results, why);
    if (ok && ranks.rank == 0)
        memcpy(o, results.out[OUTPUT_O], view_extent_bytes(&view));
    results_release(&results);
    sharded_close(&sharded);
    return ok;
}

int mpi_verify_command(int argc, char **argv)
{
    const struct ranks ranks = ranks_open();
    const struct verify_engine engine = {.open = open_target,
                                         .agree = agree,
                                         .agree_status = agree_status,
                                         .refuse_mode = refuse_mode,
                                         .execute = execute,
                                         .speaks = ranks.rank == 0};

    return verify_on(&engine, argc, argv);
}
