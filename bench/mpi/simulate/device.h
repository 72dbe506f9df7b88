/* SPDX-License-Identifier: Apache-2.0 */
/* The device of the simulation: how fast it is, and what it counted. */
#ifndef SIMULATE_DEVICE_H
#define SIMULATE_DEVICE_H

#include "mpi/internal.h"

/* All ranks have the same, in one process. */
extern struct device_speeds {
    clattn_mpi_rates rates;
    double memory_bandwidth; /* bytes a second of the device's own memory */
} device_speeds;

/* Bytes that a plan's pools hold. */
double device_memory(const clattn_mpi_plan *plan);

#endif
