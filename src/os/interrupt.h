/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C and its like (on POSIX SIGINT, SIGTERM and SIGHUP): the first ends the work in an orderly way, the second
 * the process. */
#ifndef CA_OS_INTERRUPT_H
#define CA_OS_INTERRUPT_H

#include <stdbool.h>

/* Catches interruptions from now on; a write to a pipe without a reader gives an error and does not
 * end the process. */
void ca_interrupt_catch(void);

/* From now on act() is called before an interruption ends the process; NULL: nothing any more. It
 * may be called at any moment. */
void ca_interrupt_before_end(void (*act)(void));

/* From open to close they are only counted, up to two, and none ends the process: for who has children
 * to end. Whoever caught them before learns of them when all is as before again. */
void ca_interrupts_open(void);
void ca_interrupts_close(void);
unsigned ca_interrupts(void);

bool ca_interrupted(void);

/* Seconds since an interruption was noticed first, by this function; 0 before. */
double ca_interrupt_age(void);

/* Interrupts this process. */
void ca_interrupt_self(void);

#endif
