/* Kernels for tests of something else than kernels. */
#ifndef TEST_UNOPTIMISED_H
#define TEST_UNOPTIMISED_H

/* From now on PoCL compiles without optimising, in a fifth of the time: for tests of calls and of
 * what a family computes. That it does so optimised as well is for the sweeps, the properties and
 * whatever leaves the family to the library. Before the process's first call of OpenCL. */
void unoptimised(void);

#endif
