/* SPDX-License-Identifier: Apache-2.0 */
/* The effect of an interruption (os/interrupt.h) on a context. */
#ifndef CA_INTERRUPT_H
#define CA_INTERRUPT_H

#include "os/interrupt.h"

#include <clattn/context.h>

/* From now on, programs that the context is building are not blamed if an interruption ends the
 * process (src/context/first_run.h). NULL ends this, before the context is released. */
void ca_interrupt_excuses(clattn_context *context);

#endif
