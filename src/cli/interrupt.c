#define _POSIX_C_SOURCE 200809L /* sigaction */
#include "cli/interrupt.h"
#include "cli/worker_process.h"
#include "internal.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
enum { NUM_NUMBERS = sizeof numbers / sizeof *numbers };

static volatile sig_atomic_t interrupted;
static double noticed; /* 0: not yet */
static _Atomic(clattn_context *) making;

/* Ends the process as the signal does without a handler. */
static void end(int signal_number)
{
    clattn_context *context = atomic_load(&making);

    if (context)
        ca_first_runs_excuse(&context->first_runs);
    signal(signal_number, SIG_DFL);
    raise(signal_number); /* delivered when the handler returns */
}

static void interrupt(int signal_number)
{
    if (interrupted)
        end(signal_number);
    interrupted = 1;
}

void ca_interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = interrupt};

    sigemptyset(&action.sa_mask);
    for (size_t n = 0; n < NUM_NUMBERS; n++)
        sigaction(numbers[n], &action, NULL);
    action = (struct sigaction){.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
}

void ca_interrupt_excuses(clattn_context *context)
{
    struct sigaction action;

    atomic_store(&making, context);
    for (size_t n = 0; n < NUM_NUMBERS; n++) {
        const int number = numbers[n];
        if (sigaction(number, NULL, &action) != 0 || action.sa_handler != (context ? SIG_DFL : end))
            continue;
        action = (struct sigaction){.sa_handler = context ? end : SIG_DFL};
        sigemptyset(&action.sa_mask);
        sigaction(number, &action, NULL);
    }
}

bool ca_interrupted(void)
{
    return interrupted;
}

double ca_interrupt_age(void)
{
    const double now = ca_process_clock();

    if (interrupted && noticed == 0.0)
        noticed = now;
    return interrupted ? now - noticed : 0.0;
}
