/* Socket functions, which never allocate PHP memory. */
#ifndef UNDERCROFT_SOCKET_H
#define UNDERCROFT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

/* The reason for a failure, and whether it was a timeout. */
typedef struct undercroft_trouble {
    char text[200];
    bool is_late;
} undercroft_trouble;

/*
 * Connects to "tcp://host:port" or "unix:///path" within `seconds`; 0 or less means no limit.
 * Returns a descriptor, or -1.
 */
int undercroft_connect(const char *address, double seconds, undercroft_trouble *trouble);

/* Sets a descriptor's read timeout in seconds; 0 or less means no limit. */
void undercroft_limit_reads(int descriptor, double seconds);

/*
 * Waits until a descriptor is readable, or with `for_writing` also until it is writable. Returns 2
 * if it is readable, 1 for any other event, 0 after a timeout, or -1 with errno set.
 */
int undercroft_wait(int descriptor, bool for_writing, double seconds);

/*
 * The number of forks between the module's startup and this process. Every fork through glibc
 * counts, not only those of pcntl.
 */
extern unsigned int undercroft_forks;
void undercroft_count_forks(void);

/* Returns the seconds of a monotonic clock. */
double undercroft_clock(void);

#endif
