/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses of clattn-tune and clattn-bench besides EXIT_SUCCESS and EXIT_FAILURE. */
#ifndef CA_EXIT_STATUS_H
#define CA_EXIT_STATUS_H

enum {
    EXIT_USAGE = 2,        /* The command line is not valid. */
    EXIT_INTERRUPTED = 130 /* The user interrupted the run; what was measured is kept. */
};

#endif
