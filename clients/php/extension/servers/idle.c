/*
 * Manages connections that outlive their request, in a per-thread table of descriptors and names.
 *
 * A connection is either in the table or used by one object, so two objects never share a
 * connection. A connection with a pending reply is never added to the table (see leave() in
 * connection.c).
 */
#include "idle.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static void forget(undercroft_idle *one)
{
    close(one->descriptor);
    free(one->name);
    one->name = NULL;
}

void undercroft_close_idle(zend_undercroft_globals *globals)
{
    size_t at;
    for (at = 0; at < UNDERCROFT_IDLE; at++) {
        if (globals->idle[at].name != NULL) {
            forget(&globals->idle[at]);
        }
    }
}

/*
 * The first zero byte in an entry's name ends the address, which contains no zero byte. Different
 * pairs of address and name therefore never compare equal.
 */
static bool is_called(const undercroft_idle *one, const zend_string *address, const zend_string *name)
{
    size_t length = ZSTR_LEN(address) + 1;
    return one->name != NULL && one->length == length + ZSTR_LEN(name) &&
           memcmp(one->name, ZSTR_VAL(address), length) == 0 &&
           memcmp(one->name + length, ZSTR_VAL(name), ZSTR_LEN(name)) == 0;
}

/*
 * Returns whether the server is waiting for a command, which means that it has neither closed the
 * connection nor sent unsolicited bytes.
 */
static bool is_waiting(int descriptor)
{
    char byte;
    return recv(descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

int undercroft_take_idle(const zend_string *address, const zend_string *name)
{
    pid_t process = getpid();
    size_t at;
    for (at = 0; at < UNDERCROFT_IDLE; at++) {
        undercroft_idle *one = &UNDERCROFT_G(idle)[at];
        int descriptor = one->descriptor;
        if (!is_called(one, address, name)) {
            continue;
        }
        /* A connection that the parent process left open still belongs to the parent. */
        if (one->process != process || !is_waiting(descriptor)) {
            forget(one);
            continue;
        }
        free(one->name);
        one->name = NULL;
        return descriptor;
    }
    return -1;
}

void undercroft_leave_idle(const zend_string *address, const zend_string *name, int descriptor)
{
    size_t length = ZSTR_LEN(address) + 1, at;
    undercroft_idle *place = NULL;
    for (at = 0; at < UNDERCROFT_IDLE && place == NULL; at++) {
        place = UNDERCROFT_G(idle)[at].name == NULL ? &UNDERCROFT_G(idle)[at] : NULL;
    }
    if (place == NULL) {
        place = &UNDERCROFT_G(idle)[UNDERCROFT_G(oldest_idle)++ % UNDERCROFT_IDLE];
        forget(place);
    }
    place->name = malloc(length + ZSTR_LEN(name));
    if (place->name == NULL) {
        close(descriptor);
        return;
    }
    memcpy(place->name, ZSTR_VAL(address), length);
    memcpy(place->name + length, ZSTR_VAL(name), ZSTR_LEN(name));
    place->length = length + ZSTR_LEN(name);
    place->descriptor = descriptor;
    place->process = getpid();
}
