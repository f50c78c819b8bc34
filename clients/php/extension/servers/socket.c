/* Connects sockets and waits on them. */
#include "socket.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

unsigned int undercroft_forks;

static void count_fork(void)
{
    undercroft_forks++;
}

void undercroft_count_forks(void)
{
    /*
     * The result is ignored: if the process has no memory for the handler, a fork cannot succeed
     * either.
     */
    (void)pthread_atfork(NULL, NULL, count_fork);
}

double undercroft_clock(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int failed(undercroft_trouble *trouble, const char *what, const char *why)
{
    snprintf(trouble->text, sizeof(trouble->text), "%s: %s", what, why);
    return -1;
}

/*
 * Stores only the reason for a failure, because the caller's message already says that connecting
 * failed, and to which address.
 */
static int failed_by(undercroft_trouble *trouble, const char *why)
{
    snprintf(trouble->text, sizeof(trouble->text), "%s", why);
    return -1;
}

static struct timeval seconds_of(double seconds)
{
    struct timeval time = { 0, 0 };
    if (seconds > 0 && seconds < 1e9) {
        time.tv_sec = (time_t)seconds;
        time.tv_usec = (suseconds_t)((seconds - (double)time.tv_sec) * 1e6);
        /* A timeout of zero means no limit, so use at least one microsecond. */
        if (time.tv_sec == 0 && time.tv_usec == 0) {
            time.tv_usec = 1;
        }
    }
    return time;
}

void undercroft_limit_reads(int descriptor, double seconds)
{
    struct timeval time = seconds_of(seconds);
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

int undercroft_wait(int descriptor, bool for_writing, double seconds)
{
    struct pollfd wanted = { descriptor, (short)(for_writing ? POLLIN | POLLOUT : POLLIN), 0 };
    double milliseconds = seconds * 1000 + 0.999;
    int found = poll(&wanted, 1, seconds < 0 ? -1 : milliseconds > INT_MAX ? INT_MAX : (int)milliseconds);
    if (found <= 0) {
        return found;
    }
    return wanted.revents & POLLIN ? 2 : 1;
}

/*
 * Connects one socket. SO_SNDTIMEO makes the kernel enforce the timeout. Returns 0, or -1 with
 * errno set.
 */
static int connect_one(int descriptor, const struct sockaddr *address, socklen_t length, double seconds)
{
    struct timeval time = seconds_of(seconds), none = { 0, 0 };
    double end = undercroft_clock() + seconds;
    int error = 0;
    socklen_t size = sizeof(error);
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
    if (connect(descriptor, address, length) != 0) {
        /*
         * If a signal interrupts connect(), the kernel continues to connect, so wait for the
         * result.
         */
        while (errno == EINTR) {
            struct pollfd wanted = { descriptor, POLLOUT, 0 };
            double left = seconds > 0 ? end - undercroft_clock() : 3600;
            int found = poll(&wanted, 1, left < 0 ? 0 : (int)(left * 1000));
            if (found == 0) {
                errno = ETIMEDOUT;
            } else if (found > 0) {
                getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
                errno = error;
            }
        }
        if (errno != 0) {
            return -1;
        }
    }
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
    return 0;
}

static int fail_to_connect(undercroft_trouble *trouble, int error, double seconds)
{
    trouble->is_late = error == EINPROGRESS || error == EAGAIN || error == ETIMEDOUT;
    if (trouble->is_late) {
        snprintf(trouble->text, sizeof(trouble->text), "no connection within %g s", seconds);
        return -1;
    }
    return failed_by(trouble, strerror(error));
}

static int connect_path(const char *path, double seconds, undercroft_trouble *trouble)
{
    struct sockaddr_un address;
    int descriptor;
    memset(&address, 0, sizeof(address));
    address.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(address.sun_path)) {
        return failed_by(trouble, "the path of the socket is too long");
    }
    memcpy(address.sun_path, path, strlen(path));
    descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
        return failed(trouble, "cannot make a socket", strerror(errno));
    }
    if (connect_one(descriptor, (struct sockaddr *)&address, sizeof(address), seconds) != 0) {
        int error = errno;
        close(descriptor);
        return fail_to_connect(trouble, error, seconds);
    }
    return descriptor;
}

static int connect_host(const char *place, double seconds, undercroft_trouble *trouble)
{
    char host[256];
    const char *colon = strrchr(place, ':'), *from = place;
    struct addrinfo hints, *found, *each;
    size_t length;
    int error, on = 1, descriptor = -1;
    double end = undercroft_clock() + seconds;
    if (colon == NULL || colon[1] == 0 || strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return failed_by(trouble, "expected tcp://host:port");
    }
    length = (size_t)(colon - place);
    /* An IPv6 address that precedes a port is in brackets. */
    if (length >= 2 && place[0] == '[' && place[length - 1] == ']') {
        from++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof(host)) {
        return failed_by(trouble, "expected tcp://host:port");
    }
    memcpy(host, from, length);
    host[length] = 0;
    memset(&hints, 0, sizeof(hints));
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    error = getaddrinfo(host, colon + 1, &hints, &found);
    if (error != 0) {
        return failed(trouble, "cannot find the host", gai_strerror(error));
    }
    error = ECONNREFUSED;
    for (each = found; each != NULL; each = each->ai_next) {
        double left = seconds > 0 ? end - undercroft_clock() : 0;
        if (seconds > 0 && left <= 0) {
            error = ETIMEDOUT;
            break;
        }
        descriptor = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, each->ai_protocol);
        if (descriptor < 0) {
            error = errno;
            continue;
        }
        if (connect_one(descriptor, each->ai_addr, each->ai_addrlen, left) == 0) {
            break;
        }
        error = errno;
        close(descriptor);
        descriptor = -1;
    }
    freeaddrinfo(found);
    if (descriptor < 0) {
        return fail_to_connect(trouble, error, seconds);
    }
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    return descriptor;
}

int undercroft_connect(const char *address, double seconds, undercroft_trouble *trouble)
{
    trouble->is_late = false;
    if (strncmp(address, "unix://", 7) == 0) {
        return connect_path(address + 7, seconds, trouble);
    }
    if (strncmp(address, "tcp://", 6) == 0) {
        return connect_host(address + 6, seconds, trouble);
    }
    return failed_by(trouble, "expected tcp://host:port or unix:///path");
}
