/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the library that clattn-tune and clattn-bench use besides its public headers. They include no
 * other header of src/, besides those of src/cli/ (tests/layers.sh). They link the static library, so
 * nothing here belongs to its interface. */
#ifndef CA_INTERNAL_H
#define CA_INTERNAL_H

#include "base/disk.h"             /* the journal is a file of the cache */
#include "base/json_reader.h"      /* reading JSON of workers, journals and results */
#include "base/text.h"             /* copies of texts, lines of files */
#include "base/utf8.h"             /* printable texts of files and drivers */
#include "context/context.h"       /* builds that a signal interrupts do not count as failures */
#include "device/capacity.h"       /* the instructions of a device, for peaks */
#include "execute/bare.h"          /* what an execution costs besides its kernels */
#include "families/candidate.h"    /* configurations, in journals and messages to workers */
#include "families/registry.h"     /* hashes of the kernels that they were measured with */
#include "multihead/multihead.h"   /* the steps of layers, which are tuned */
#include "os/clock.h"              /* the clock */
#include "os/processor.h"          /* the number of processors */
#include "problem/options.def"     /* the options that other libraries are told of */
#include "problem/tensors.h"       /* the operands of problems */
#include "program/build_log.h"     /* why a driver refuses the programs that measure peaks */
#include "program/program.h"       /* seconds of building, part by part */
#include "program/program_cache.h" /* number and size of the cache's files */
#include "search/search.h"         /* names of strategies */
#include "search/statistics.h"     /* medians, and which of two timings is faster */
#include "tune/tune.h"             /* tuning with a measurer in a child process */

#endif
