/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of the API reference, by what a program does; each header names its own. Doxygen alone reads this. */
/** @defgroup describing Describing a problem
 * What is to be computed: sizes, options, the one-line text form, functions of the caller's, block lists. */
/** @defgroup preparing Devices, contexts and plans
 * From a device to kernels that are ready: contexts, facts of devices, plans. */
/** @defgroup tuning Tuning
 * Finding the fastest kernels for a device, keeping and sharing what was found. */
/** @defgroup attention Attention and its gradients
 * Executing plans, forward and backward, on buffers or on host memory. */
/** @defgroup layers Projections and layers
 * Products that split and merge heads, and whole multi-head layers. */
/** @defgroup serving Serving
 * Caches: appending tokens, merging states, quantizing. */
/** @defgroup basics Statuses and versions
 * What every call returns, versions, linkage. */
/** @defgroup ranks Several ranks
 * Attention over the ranks of an MPI communicator, in libclattn_mpi. */
