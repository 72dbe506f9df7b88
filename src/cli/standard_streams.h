/* The program's standard streams, for both programs: what they were given is checked once at the
 * beginning and once at the end of main(), so that no printf() needs a check of its own. */
#ifndef CA_STANDARD_STREAMS_H
#define CA_STANDARD_STREAMS_H

/* To be called before anything is opened. A standard descriptor that the caller has closed would be
 * given to the next file that is opened, which would then be printed into: such a one is opened so
 * that every use of it fails. */
void ca_standard_streams_begin(void);

/* Writes out what stdout still holds. The exit status: `status`, or EXIT_FAILURE after a sentence
 * on stderr if that is EXIT_SUCCESS and something that was printed got lost. */
int ca_standard_streams_end(const char *program, int status);

#endif
