/* SPDX-License-Identifier: Apache-2.0 */
/* What an interruption (os/interrupt.h) means to a context. */
#ifndef CA_INTERRUPT_H
#define CA_INTERRUPT_H

#include "os/interrupt.h"

#include <clattn/context.h>

/* From now on, when an interruption ends the process, the context's programs that are being made
 * are not taken for what ended it (src/context/first_run.h). Null: before it is released. */
void ca_interrupt_excuses(clattn_context *context);

#endif
