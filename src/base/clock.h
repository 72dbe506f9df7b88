/* The host's clock. */
#ifndef CA_CLOCK_H
#define CA_CLOCK_H

/* Seconds since some moment; never set back. */
double ca_stopwatch_now(void);

#endif
