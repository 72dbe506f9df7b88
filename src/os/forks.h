/* SPDX-License-Identifier: Apache-2.0 */
/* Counts forks, to tell whether this process is another one than before. */
#ifndef CA_FORKS_H
#define CA_FORKS_H

/* Begins to count forks, once in a process; without this call ca_forks() counts none. */
void ca_forks_watch(void);

/* Returns how many forks, since the first call above, led to this process. It reads a counter,
 * without a system call. */
unsigned ca_forks(void);

#endif
