/* SPDX-License-Identifier: Apache-2.0 */
/** @file clattn.h  Attention for every OpenCL device. Includes every public header. @ingroup basics */
#ifndef CLATTN_CLATTN_H
#define CLATTN_CLATTN_H

#include <clattn/append.h>
#include <clattn/attention.h>
#include <clattn/blocks.h>
#include <clattn/context.h>
#include <clattn/device.h>
#include <clattn/double_backward.h>
#include <clattn/dropout.h>
#include <clattn/family.h>
#include <clattn/function.h>
#include <clattn/indexer.h>
#include <clattn/merge.h>
#include <clattn/multihead.h>
#include <clattn/plan.h>
#include <clattn/problem.h>
#include <clattn/projection.h>
#include <clattn/quantize.h>
#include <clattn/status.h>
#include <clattn/tensors.h>
#include <clattn/tuning.h>
#include <clattn/version.h>

#endif
