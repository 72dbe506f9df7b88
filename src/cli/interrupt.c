/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/interrupt.h"
#include "internal.h"

#include <stdatomic.h>

static _Atomic(clattn_context *) making;

static void excuse(void)
{
    clattn_context *context = atomic_load(&making);

    if (context)
        ca_first_runs_excuse(&context->first_runs);
}

void ca_interrupt_excuses(clattn_context *context)
{
    atomic_store(&making, context);
    ca_interrupt_before_end(context ? excuse : NULL);
}
