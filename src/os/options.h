/* SPDX-License-Identifier: Apache-2.0 */
/* Declares getopt_long(), for the programs' command lines. */
#ifndef CA_OS_OPTIONS_H
#define CA_OS_OPTIONS_H

#include <getopt.h>

#endif
