/* SPDX-License-Identifier: Apache-2.0 */
/* What clattn-tune and clattn-bench use of the library besides its public headers: the only header of
 * src/, beside those of src/cli/, that they include (tests/layers.sh). They link the static library, so
 * nothing here is of its interface. */
#ifndef CA_INTERNAL_H
#define CA_INTERNAL_H

#include "base/disk.h"             /* the journal is a file of the cache */
#include "base/json_reader.h"      /* workers' and journals' JSON is read as the store's is */
#include "base/text.h"             /* copies of texts are made in one place */
#include "base/utf8.h"             /* texts of others become printable in one place */
#include "context/context.h"       /* a program that a signal ends excuses the builds under way */
#include "device/capacity.h"       /* the instructions that peaks are measured with */
#include "execute/bare.h"          /* the cost of an execution beside its kernels */
#include "families/candidate.h"    /* journals and workers name configurations */
#include "families/registry.h"     /* ... and the kernels that they were measured with */
#include "multihead/multihead.h"   /* a layer's steps are problems to be tuned */
#include "os/clock.h"              /* one clock for all that is timed */
#include "os/processor.h"          /* ... and the registers that some of them need */
#include "problem/options.def"     /* the options that other libraries are told of */
#include "problem/tensors.h"       /* the operands of a problem, which are declared once */
#include "program/build_log.h"     /* why the driver refuses a program of their own */
#include "program/program.h"       /* seconds of building, part by part */
#include "program/program_cache.h" /* the number and size of its files */
#include "search/search.h"         /* recorded spaces are searched without a device */
#include "search/statistics.h"     /* both programs decide between timings as tuning does */
#include "tune/tune.h"             /* tuning with a measurer, which works in a child process */

#endif
