/* SPDX-License-Identifier: Apache-2.0 */
#include "os/windows.h"

#include "os/clock.h"
#include "os/interrupt.h"

#include <stdatomic.h>
#include <stddef.h>

/* What an interruption does. A console calls the handler in a thread of its own. */
enum manner {
    MANNER_DEFAULT, /* it ends the process */
    MANNER_CATCH,   /* the first is noticed, the second ends the process */
    MANNER_COUNT    /* all are counted, up to two */
};
static _Atomic(enum manner) manner;
static enum manner manner_before;
static atomic_uint interrupts;
static unsigned interrupts_before;
static double noticed; /* 0: not yet */
static void (*_Atomic before_end)(void);

enum { ENDED_BY_INTERRUPT = (int)0xC000013A }; /* STATUS_CONTROL_C_EXIT */

/* Returns TRUE where the process goes on. */
static BOOL WINAPI handle(DWORD event)
{
    const unsigned had = atomic_load(&interrupts);
    (void)event;

    switch (atomic_load(&manner)) {
    case MANNER_COUNT:
        if (had < 2)
            atomic_store(&interrupts, had + 1);
        return TRUE;
    case MANNER_CATCH:
        atomic_store(&interrupts, 1);
        if (had == 0)
            return TRUE;
        break;
    default:
        break;
    }
    void (*act)(void) = atomic_load(&before_end);
    if (act)
        act();
    return FALSE;
}

static void install(void)
{
    static atomic_flag installed = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&installed))
        SetConsoleCtrlHandler(handle, TRUE);
}

void ca_interrupt_catch(void)
{
    atomic_store(&manner, MANNER_CATCH);
    SetConsoleCtrlHandler(NULL, FALSE); /* a parent may have had Ctrl-C ignored */
    install();
}

void ca_interrupts_open(void)
{
    install();
    interrupts_before = atomic_exchange(&interrupts, 0);
    manner_before = atomic_exchange(&manner, MANNER_COUNT);
}

void ca_interrupts_close(void)
{
    const bool counted = atomic_exchange(&interrupts, interrupts_before) > 0;

    atomic_store(&manner, manner_before);
    if (counted && manner_before == MANNER_CATCH)
        ca_interrupt_self();
}

unsigned ca_interrupts(void)
{
    return atomic_load(&interrupts);
}

void ca_interrupt_before_end(void (*act)(void))
{
    atomic_store(&before_end, act);
    if (act)
        install();
}

bool ca_interrupted(void)
{
    return atomic_load(&interrupts) > 0;
}

double ca_interrupt_age(void)
{
    const double now = ca_stopwatch_now();

    if (ca_interrupted() && noticed == 0.0)
        noticed = now;
    return ca_interrupted() ? now - noticed : 0.0;
}

void ca_interrupt_self(void)
{
    if (!handle(CTRL_BREAK_EVENT))
        TerminateProcess(GetCurrentProcess(), (UINT)ENDED_BY_INTERRUPT);
}
