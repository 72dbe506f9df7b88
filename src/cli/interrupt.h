/* Ctrl-C and its like: the first ends the work in an orderly way, the second the process. */
#ifndef CA_INTERRUPT_H
#define CA_INTERRUPT_H

#include <clattn/context.h>
#include <stdbool.h>

/* Catches SIGINT, SIGTERM and SIGHUP from now on, and ignores SIGPIPE: a worker that died may be
 * written to. */
void ca_interrupt_catch(void);

/* From now on, when one of these signals ends the process, the context's programs that are being made
 * are not taken for what ended it (src/context/first_run.h). Null: before it is released. */
void ca_interrupt_excuses(clattn_context *context);

bool ca_interrupted(void);

/* Seconds since an interruption was noticed first, by this function; 0 before. */
double ca_interrupt_age(void);

#endif
