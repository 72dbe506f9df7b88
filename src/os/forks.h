/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this process is another one than it was. */
#ifndef CA_FORKS_H
#define CA_FORKS_H

/* Begins to count forks, once in a process; without this call ca_forks() counts none. */
void ca_forks_watch(void);

/* How often a process was forked, from the first call above on, to make this one of that: a counter's value, without a
 * call of the system. */
unsigned ca_forks(void);

#endif
