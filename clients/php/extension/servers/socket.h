/* Declares socket functions, none of which allocates PHP memory. */
#ifndef UNDERCROFT_SOCKET_H
#define UNDERCROFT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

/* The reason for a failure, and whether the failure was a timeout. */
typedef struct undercroft_trouble {
    char text[200];
    bool is_late;
} undercroft_trouble;

/*
 * Connects to "tcp://host:port" or "unix:///path" within `seconds`, where 0 or less means no limit.
 * Returns a descriptor, or -1 after a failure.
 */
int undercroft_connect(const char *address, double seconds, undercroft_trouble *trouble);

/* Sets a descriptor's read timeout in seconds, where 0 or less means no limit. */
void undercroft_limit_reads(int descriptor, double seconds);

/*
 * Waits until a descriptor is readable or, if `for_writing` is true, writable. Returns 2 if it is
 * readable, 1 for any other event, 0 after a timeout, or -1 with errno set.
 */
int undercroft_wait(int descriptor, bool for_writing, double seconds);

/*
 * The number of forks between the module's startup and the start of this process. All forks through
 * glibc are counted, not only those made by pcntl.
 */
extern unsigned int undercroft_forks;
void undercroft_count_forks(void);

/* Returns a monotonic clock's time in seconds. */
double undercroft_clock(void);

#endif
