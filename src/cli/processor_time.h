/* Whether a process had its chance: what of the processors' time it got, and what it waited for. */
#ifndef CA_PROCESSOR_TIME_H
#define CA_PROCESSOR_TIME_H

#include <stdbool.h>
#include <sys/types.h>

/* Of all threads of a process together, in seconds since they began. */
struct ca_processor_time {
    double ran, waited; /* waited: ready to run, while others ran */
    bool stopped;       /* by a signal, or by a debugger */
};

/* Zeros where the system does not say; Linux does. */
struct ca_processor_time ca_processor_time(pid_t pid);

/* Whether others, not the process itself, are why it has got nowhere between two moments that are
 * so many seconds apart: it waited for most of them, and got less than half of the time that it
 * wanted, or it was stopped. One that sleeps wants none. */
bool ca_was_starved(const struct ca_processor_time *begin, const struct ca_processor_time *end,
                    double seconds);

#endif
