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

/* Between open and close interruptions are only counted, up to two, and end no process; a caller
 * that has to end children needs this. The previous handler learns of them when it is restored. */
void ca_interrupts_open(void);
void ca_interrupts_close(void);
unsigned ca_interrupts(void);

bool ca_interrupted(void);

/* Seconds since an interruption was noticed first, by this function; 0 before. */
double ca_interrupt_age(void);

/* Interrupts this process. */
void ca_interrupt_self(void);

#endif
