/* SPDX-License-Identifier: Apache-2.0 */
/* What an interruption (os/interrupt.h) means to a context. */
#ifndef CA_INTERRUPT_H
#define CA_INTERRUPT_H

#include "os/interrupt.h"

#include <clattn/context.h>

/* From now on an interruption that ends the process is not blamed on the context's programs that
 * are being made (src/context/first_run.h). Null: none any more, before the context is released. */
void ca_interrupt_excuses(clattn_context *context);

#endif
