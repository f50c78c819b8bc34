/* Sockets of connections: nothing of PHP's is allocated here. */
#ifndef UNDERCROFT_SOCKET_H
#define UNDERCROFT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

/* What went wrong, as text. */
typedef struct undercroft_trouble {
    char text[200];
    bool is_late;
} undercroft_trouble;

/* Connects to "tcp://host:port" or "unix:///path" within so many seconds; 0 or less is without end. Returns a
 * descriptor, or -1. */
int undercroft_connect(const char *address, double seconds, undercroft_trouble *trouble);

/* Has every read end after so many seconds; 0 or less is without end. */
void undercroft_limit_reads(int descriptor, double seconds);

/* Waits until a descriptor can be read, or written where that is asked for as well. 1: it can; 2: it can be read; 0:
 * the time is up; -1: errno says why not. */
int undercroft_wait(int descriptor, bool for_writing, double seconds);

/* How many forks lie between the module's start and this process. Every fork of glibc's counts, not pcntl's alone. */
extern unsigned int undercroft_forks;
void undercroft_count_forks(void);

/* Seconds of a clock that only goes forward. */
double undercroft_clock(void);

#endif
