/* Ctrl-C and its like: the first ends the work in an orderly way, the second the process. */
#ifndef CA_INTERRUPT_H
#define CA_INTERRUPT_H

#include <clattn/context.h>
#include <stdbool.h>

/* SIGINT, SIGTERM and SIGHUP. */
enum { CA_INTERRUPTS = 3 };
extern const int ca_interrupt_numbers[CA_INTERRUPTS];

/* Catches SIGINT, SIGTERM and SIGHUP from now on, and ignores SIGPIPE: a worker that died may be
 * written to. */
void ca_interrupt_catch(void);

/* From now on, when one of these signals ends the process, the context's programs that are being made
 * are not taken for what ended it (src/context/first_run.h). Null: before it is released. */
void ca_interrupt_excuses(clattn_context *context);

/* From open to close they are only counted, up to two, and none ends the process: for who has children
 * to end. Whoever caught them before learns of them when all is as before again. */
void ca_interrupts_open(void);
void ca_interrupts_close(void);
unsigned ca_interrupts(void);

bool ca_interrupted(void);

/* Seconds since an interruption was noticed first, by this function; 0 before. */
double ca_interrupt_age(void);

#endif
