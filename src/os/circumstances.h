/* SPDX-License-Identifier: Apache-2.0 */
/* Causes outside of a program that may end a process: the machine and its limits. */
#ifndef CA_CIRCUMSTANCES_H
#define CA_CIRCUMSTANCES_H

/* One line without its end: which boot this is, and the limits of memory and of open files. Where a system does not
 * tell, a part is left out. */
enum { CA_CIRCUMSTANCES_TEXT = 192 };
void ca_circumstances(char text[CA_CIRCUMSTANCES_TEXT]);

/* The least of the limits of memory of the process's control group and those above it, in bytes; ULLONG_MAX without
 * one. The file is /proc/self/cgroup's text, root where the groups lie (/sys/fs/cgroup). */
unsigned long long ca_group_limit(const char *file, const char *root);

#endif
