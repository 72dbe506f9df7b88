/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what compilers printed: kernels, their resources, their innermost loops. */
#ifndef OFFLINE_ASSEMBLY_H
#define OFFLINE_ASSEMBLY_H

#include "instruction.h"

#include <stddef.h>

enum { MAX_PRODUCTS = 64, MAX_KERNELS = 8, NOT_KNOWN = -1 };

/* An item is one of a work-group's. */
struct kernel {
    char name[64];
    enum dialect dialect;
    long registers, spills; /* of an item; NOT_KNOWN */
    unsigned lanes;         /* items that go together, where the compiler chooses; else 0 */
    long local_bytes, private_bytes;
    struct counts counts; /* of the whole kernel */
    /* The innermost loops that multiply what was staged in local memory. */
    struct counts products[MAX_PRODUCTS];
    size_t num_products;
};

/* Reads an assembly file. Returns how many kernels there are, 0 if it cannot be read. */
size_t assembly_read(const char *path, enum dialect dialect, struct kernel kernels[MAX_KERNELS]);

/* Adds what ptxas -v printed to the kernels that it names. False if one of them is not in it. */
int assembly_read_ptxas(const char *path, struct kernel *kernels, size_t count);

#endif
