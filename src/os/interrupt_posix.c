/* SPDX-License-Identifier: Apache-2.0 */
#include "os/posix.h"

#include "os/clock.h"
#include "os/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

const int ca_interrupt_numbers[CA_INTERRUPTS] = {SIGINT, SIGTERM, SIGHUP};

static volatile sig_atomic_t interrupts; /* counted up to 2 */
static double noticed;                   /* 0: not yet */
static void (*_Atomic before_end)(void);
/* The handlers that end() restores: the default, or what a driver's compiler had installed. */
static struct sigaction replaced[CA_INTERRUPTS];

/* Ends the process as the signal does without this handler. */
static void end(int signal_number)
{
    void (*act)(void) = atomic_load(&before_end);

    if (act)
        act();
    for (size_t n = 0; n < CA_INTERRUPTS; n++)
        if (ca_interrupt_numbers[n] == signal_number)
            sigaction(signal_number, &replaced[n], NULL);
    raise(signal_number); /* delivered when the handler returns */
}

static void interrupt(int signal_number)
{
    if (interrupts > 0)
        end(signal_number);
    interrupts = 1;
}

static void count(int signal_number)
{
    (void)signal_number;
    if (interrupts < 2)
        interrupts++;
}

static void handle_all(void handler(int), struct sigaction *before)
{
    struct sigaction action = {.sa_handler = handler};

    sigemptyset(&action.sa_mask);
    for (size_t n = 0; n < CA_INTERRUPTS; n++)
        sigaction(ca_interrupt_numbers[n], &action, before ? &before[n] : NULL);
}

void ca_interrupt_catch(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    handle_all(interrupt, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

static struct sigaction before[CA_INTERRUPTS];
static sig_atomic_t interrupts_before;

void ca_interrupts_open(void)
{
    interrupts_before = interrupts;
    interrupts = 0;
    handle_all(count, before);
}

void ca_interrupts_close(void)
{
    const bool counted = interrupts > 0;

    interrupts = interrupts_before;
    for (size_t n = 0; n < CA_INTERRUPTS; n++)
        sigaction(ca_interrupt_numbers[n], &before[n], NULL);
    if (counted && before[0].sa_handler != SIG_DFL && before[0].sa_handler != SIG_IGN)
        raise(ca_interrupt_numbers[0]);
}

unsigned ca_interrupts(void)
{
    return (unsigned)interrupts;
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_handler == interrupt || action->sa_handler == count ||
           action->sa_handler == end;
}

void ca_interrupt_before_end(void (*act)(void))
{
    struct sigaction ending = {.sa_handler = end}, action;

    sigemptyset(&ending.sa_mask);
    atomic_store(&before_end, act);
    for (size_t n = 0; n < CA_INTERRUPTS; n++) {
        const int number = ca_interrupt_numbers[n];
        if (sigaction(number, NULL, &action) != 0)
            continue;
        if (!act && action.sa_handler == end) {
            sigaction(number, &replaced[n], NULL);
        } else if (act && action.sa_handler != SIG_IGN && !is_ours(&action)) {
            replaced[n] = action;
            sigaction(number, &ending, NULL);
        }
    }
}

bool ca_interrupted(void)
{
    return interrupts > 0;
}

double ca_interrupt_age(void)
{
    const double now = ca_stopwatch_now();

    if (interrupts > 0 && noticed == 0.0)
        noticed = now;
    return interrupts > 0 ? now - noticed : 0.0;
}

void ca_interrupt_self(void)
{
    raise(SIGTERM);
}
