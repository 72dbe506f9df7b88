/* SPDX-License-Identifier: Apache-2.0 */
/** @file export.h  Visibility of public symbols, C linkage and the OpenCL headers. @ingroup basics */
#ifndef CLATTN_EXPORT_H
#define CLATTN_EXPORT_H

/** @def CL_TARGET_OPENCL_VERSION
 *  OpenCL's own macro. A program that names no version of OpenCL gets the newest, as OpenCL's headers decide
 *  by themselves; saying so spares it their note. clattn needs 1.2. */
#if !defined(CL_TARGET_OPENCL_VERSION)
#define CL_TARGET_OPENCL_VERSION 300
#endif
#if defined(__APPLE__)
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

/** @def CLATTN_API
 *  Before every public function, which the shared library exports. On Windows programs that link the
 *  static library define CLATTN_STATIC; CMake's target clattn::clattn_static does. */
#if defined(CLATTN_STATIC)
#define CLATTN_API
#elif defined(_WIN32)
#if defined(CLATTN_BUILDING)
#define CLATTN_API __declspec(dllexport)
#else
#define CLATTN_API __declspec(dllimport)
#endif
#else
#define CLATTN_API __attribute__((visibility("default")))
#endif

/** @def CLATTN_BEGIN
 *  Begins declarations with C linkage, also where C++ includes them. */
/** @def CLATTN_END
 *  Ends what CLATTN_BEGIN begins. */
#if defined(__cplusplus)
#define CLATTN_BEGIN extern "C" {
#define CLATTN_END }
#else
#define CLATTN_BEGIN
#define CLATTN_END
#endif

#endif
