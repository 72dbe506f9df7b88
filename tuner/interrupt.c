#define _POSIX_C_SOURCE 200809L /* sigaction */
#include "interrupt.h"
#include "worker_process.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted;
static double noticed; /* 0: not yet */

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void ca_interrupt_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&action.sa_mask);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        sigaction(numbers[n], &action, NULL);
    action = (struct sigaction){.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
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
