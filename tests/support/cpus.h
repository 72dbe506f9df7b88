/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs as OpenCL drivers describe them, whatever the CPU below: those of several vendors, each with
 * vectors of 4, 8 and 16 floats. */
#ifndef TEST_CPUS_H
#define TEST_CPUS_H

#include <clattn/device.h>

enum { NUM_CPU_VENDORS = 8, NUM_CPUS = 3 * NUM_CPU_VENDORS };

/* With null platform and device. Vendors follow one another, then widths. */
clattn_device_info cpu_described(size_t index);

#endif
