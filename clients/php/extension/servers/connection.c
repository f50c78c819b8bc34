/* Implements Undercroft\Native\Connection, which runs commands over a socket. */
#include "idle.h"
#include "resp.h"
#include "socket.h"
#include "zend_exceptions.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* The maximum size in bytes of a command buffer that is reused by later calls. */
#define KEPT (64 * 1024)

/*
 * The minimum number of bytes requested per read, and the maximum number requested before any bytes
 * of a long reply have arrived.
 */
#define LEAST (16 * 1024)
#define MOST (1024 * 1024)

/*
 * Exception codes for calls that sent nothing, because a child used its parent's connection, the
 * program had ended in the middle of a call, or the connection was already closed.
 */
#define INHERITED 1
#define ABANDONED 2
#define CLOSED 3

typedef struct connection {
    int descriptor;
    /*
     * The value of undercroft_forks in the process that opened the connection, used to detect a
     * forked child.
     */
    unsigned int forks;
    /* The PHP frame of the running call. */
    const zend_execute_data *frame;
    /* Whether the running call began in a shutdown function, after the end of the program. */
    bool is_late;
    /* Whether a call is running, which a signal handler may interrupt. */
    bool is_busy;
    /* Whether unread replies to send() may still arrive. */
    bool is_unread;
    /* Whether an earlier object has used this connection. */
    bool is_reused;
    zend_string *address;
    /* The name of a connection that outlives the request, or NULL. */
    zend_string *name;
    double timeout;
    /* The time in seconds to poll for a reply before sleeping. */
    double spin;
    undercroft_input input;
    smart_str output;
    zend_object std;
} connection;

static zend_object_handlers handlers;

static connection *connection_of(zend_object *object)
{
    return (connection *)((char *)object - XtOffsetOf(connection, std));
}

static zend_object *create(zend_class_entry *class)
{
    connection *this = zend_object_alloc(sizeof(connection), class);
    zend_object_std_init(&this->std, class);
    object_properties_init(&this->std, class);
    this->descriptor = -1;
    this->std.handlers = &handlers;
    return &this->std;
}

static void hang_up(connection *this)
{
    if (this->descriptor >= 0) {
        close(this->descriptor);
        this->descriptor = -1;
    }
    undercroft_input_free(&this->input);
    smart_str_free(&this->output);
}

/*
 * Leaves a persistent connection open for the next request if no call, reply or unread byte is
 * pending, and closes any other connection. A request that ended in the middle of a call, for
 * example by a fatal error, leaves the connection busy.
 */
static void leave(connection *this)
{
    bool is_clean = !this->is_busy && !this->is_unread && this->input.start == this->input.end &&
                    this->forks == undercroft_forks;
    if (this->name != NULL && this->descriptor >= 0 && is_clean) {
        undercroft_leave_idle(this->address, this->name, this->descriptor);
        this->descriptor = -1;
    }
    hang_up(this);
}

static void release(zend_object *object)
{
    connection *this = connection_of(object);
    leave(this);
    if (this->name != NULL) {
        zend_string_release(this->name);
        this->name = NULL;
    }
    if (this->address != NULL) {
        zend_string_release(this->address);
        this->address = NULL;
    }
    zend_object_std_dtor(object);
}

/* Closes the connection and throws an exception. */
static ZEND_COLD bool lost(connection *this, const char *why)
{
    hang_up(this);
    if (!EG(exception)) {
        zend_throw_exception_ex(undercroft_connection_exception, 0, "lost the connection to %s: %s",
                                ZSTR_VAL(this->address), why);
    }
    return false;
}

static ZEND_COLD bool late(connection *this, double seconds)
{
    zend_throw_exception_ex(undercroft_timeout_exception, 0, "no reply from %s within %g s", ZSTR_VAL(this->address),
                            seconds);
    return false;
}

static bool is_shutdown(void)
{
    return (EG(flags) & EG_FLAGS_IN_SHUTDOWN) != 0;
}

/*
 * Returns whether a fatal error (memory or time limit) ended the running call, so that PHP left it
 * by longjmp and now runs shutdown functions. If a signal handler has only interrupted the call,
 * the call is still on PHP's stack.
 */
static bool is_abandoned(const connection *this)
{
    const zend_execute_data *frame;
    if (!is_shutdown()) {
        return false;
    }
    for (frame = EG(current_execute_data)->prev_execute_data; this->is_late && frame != NULL;
         frame = frame->prev_execute_data) {
        if (frame == this->frame) {
            return false;
        }
    }
    return true;
}

/* Starts a call. Returns false if an exception was thrown. */
static bool begin(connection *this)
{
    if (UNEXPECTED(this->is_busy) && is_abandoned(this)) {
        hang_up(this);
        this->is_busy = false;
        zend_throw_exception_ex(undercroft_connection_exception, ABANDONED, "a fatal error ended a call to %s",
                                ZSTR_VAL(this->address));
        return false;
    }
    if (UNEXPECTED(this->descriptor < 0)) {
        zend_throw_exception_ex(undercroft_connection_exception, is_shutdown() ? ABANDONED : CLOSED,
                                "the connection%s%s is closed",
                                this->address == NULL ? "" : " to ",
                                this->address == NULL ? "" : ZSTR_VAL(this->address));
        return false;
    }
    if (UNEXPECTED(this->forks != undercroft_forks)) {
        zend_throw_exception_ex(undercroft_connection_exception, INHERITED,
                                "the connection to %s belongs to the parent process; connect after the fork", ZSTR_VAL(this->address));
        return false;
    }
    if (UNEXPECTED(this->is_busy)) {
        zend_throw_exception_ex(undercroft_connection_exception, 0,
                                "the connection to %s is in use by the call that the signal interrupted",
                                ZSTR_VAL(this->address));
        return false;
    }
    this->is_busy = true;
    this->frame = EG(current_execute_data);
    this->is_late = is_shutdown();
    return true;
}

/*
 * Continues a call after a system call was interrupted. Returns false if an exception was thrown.
 */
static bool go_on(connection *this)
{
    if (UNEXPECTED(!undercroft_interrupt())) {
        return lost(this, "a signal handler threw an exception");
    }
    return EXPECTED(this->forks == undercroft_forks) ||
           lost(this, "a signal handler forked, and the reply belongs to the parent's call");
}

static bool read_some(connection *this, int flags)
{
    size_t room = LEAST;
    ssize_t got;
    if (this->input.wanted > this->input.end) {
        room = this->input.wanted - this->input.end;
        /*
         * The server may announce a length but never send that many bytes, so limit the allocation.
         */
        if (room > MOST && room > this->input.size) {
            room = this->input.size > MOST ? this->input.size : MOST;
        }
    } else if (this->input.missing > 0) {
        /*
         * Request as many bytes as the buffer already holds, within limits, so that long replies
         * need few reads.
         */
        room = this->input.size > MOST ? MOST : this->input.size < LEAST ? LEAST : this->input.size;
    }
    undercroft_input_reserve(&this->input, room);
    if (this->spin > 0 && !(flags & MSG_DONTWAIT)) {
        double end = undercroft_clock() + this->spin;
        do {
            got = recv(this->descriptor, this->input.data + this->input.end, this->input.size - this->input.end,
                       flags | MSG_DONTWAIT);
        } while (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && undercroft_clock() < end);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            got = recv(this->descriptor, this->input.data + this->input.end, this->input.size - this->input.end, flags);
        }
    } else {
        got = recv(this->descriptor, this->input.data + this->input.end, this->input.size - this->input.end, flags);
    }
    if (got == 0) {
        errno = EPIPE;
        return false;
    }
    if (got < 0) {
        return false;
    }
    this->input.end += (size_t)got;
    return true;
}

/*
 * Reads until a reply is complete. If `is_own` is true, `timeout` applies to this call only, and
 * its expiry leaves the connection open.
 */
static bool read_reply(connection *this, zval *reply, bool is_own, double timeout)
{
    double end = is_own && timeout >= 0 ? undercroft_clock() + timeout : 0;
    for (;;) {
        switch (undercroft_input_scan(&this->input, ZSTR_VAL(this->address))) {
            case UNDERCROFT_BROKEN:
                hang_up(this);
                return false;
            case UNDERCROFT_WHOLE:
                if (!undercroft_input_take(&this->input, reply, ZSTR_VAL(this->address))) {
                    hang_up(this);
                    return false;
                }
                return true;
            default:
                break;
        }
        if (is_own) {
            double left = timeout < 0 ? -1 : end - undercroft_clock();
            int found = undercroft_wait(this->descriptor, false, left < 0 && timeout >= 0 ? 0 : left);
            if (found == 0) {
                return late(this, timeout);
            }
            if (found < 0) {
                if (errno == EINTR && go_on(this)) {
                    continue;
                }
                return lost(this, strerror(errno));
            }
        }
        while (UNEXPECTED(!read_some(this, is_own ? MSG_DONTWAIT : 0))) {
            int error = errno;
            if (error == EINTR) {
                if (!go_on(this)) {
                    return false;
                }
                continue;
            }
            if (error == EAGAIN || error == EWOULDBLOCK) {
                if (is_own) {
                    break;
                }
                late(this, this->timeout);
                hang_up(this);
                return false;
            }
            return lost(this, error == EPIPE ? "the server closed it" : strerror(error));
        }
    }
}

/*
 * Sends the buffered commands. While the server accepts no more bytes, reads replies, because the
 * server may be waiting until its replies are read.
 */
static bool flush(connection *this)
{
    const char *data = ZSTR_VAL(this->output.s);
    size_t length = ZSTR_LEN(this->output.s), sent = 0;
    while (sent < length) {
        ssize_t took = send(this->descriptor, data + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (EXPECTED(took >= 0)) {
            sent += (size_t)took;
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            int found = undercroft_wait(this->descriptor, true, this->timeout > 0 ? this->timeout : -1);
            if (found == 0) {
                late(this, this->timeout);
                hang_up(this);
                return false;
            }
            if (found == 2 && !read_some(this, MSG_DONTWAIT) && errno != EAGAIN && errno != EINTR) {
                return lost(this, errno == EPIPE ? "the server closed it" : strerror(errno));
            }
            if (found > 0 || errno == EINTR) {
                if (!go_on(this)) {
                    return false;
                }
                continue;
            }
        } else if (errno == EINTR) {
            if (!go_on(this)) {
                return false;
            }
            continue;
        }
        return lost(this, errno == EPIPE ? "the server closed it" : strerror(errno));
    }
    return true;
}

/* Empties the output buffer, and frees it if it is unusually large. */
static void clean(connection *this)
{
    if (this->output.s == NULL) {
        return;
    }
    if (this->output.a > KEPT) {
        smart_str_free(&this->output);
    } else {
        ZSTR_LEN(this->output.s) = 0;
    }
}

static ZEND_METHOD(Undercroft_Native_Connection, __construct)
{
    connection *this = connection_of(Z_OBJ_P(ZEND_THIS));
    zend_string *address, *name = NULL;
    double connect_timeout = 5, timeout = 0;
    zend_long spin = 0;
    undercroft_trouble trouble;
    ZEND_PARSE_PARAMETERS_START(1, 5)
        Z_PARAM_PATH_STR(address)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE(connect_timeout)
        Z_PARAM_DOUBLE(timeout)
        Z_PARAM_STR_OR_NULL(name)
        Z_PARAM_LONG(spin)
    ZEND_PARSE_PARAMETERS_END();
    if (this->address != NULL) {
        zend_throw_error(NULL, "Undercroft\\Native\\Connection is already constructed");
        RETURN_THROWS();
    }
    if (spin < 0 || spin > 1000) {
        zend_argument_value_error(5, "must be a number of microseconds from 0 to 1000");
        RETURN_THROWS();
    }
    this->address = zend_string_copy(address);
    this->forks = undercroft_forks;
    this->timeout = timeout;
    this->spin = (double)spin / 1e6;
    if (name != NULL) {
        this->name = zend_string_copy(name);
        this->descriptor = undercroft_take_idle(address, name);
        this->is_reused = this->descriptor >= 0;
        if (this->is_reused) {
            undercroft_limit_reads(this->descriptor, timeout);
            return;
        }
    }
    this->descriptor = undercroft_connect(ZSTR_VAL(address), connect_timeout, &trouble);
    if (this->descriptor < 0) {
        zend_throw_exception_ex(trouble.is_late ? undercroft_timeout_exception : undercroft_connection_exception, 0,
                                "cannot connect to %s: %s", ZSTR_VAL(address), trouble.text);
        RETURN_THROWS();
    }
    undercroft_limit_reads(this->descriptor, timeout);
}

/* Reads the words of a command and appends them to the output buffer. */
static bool write_words(connection *this, HashTable *given)
{
    undercroft_words words;
    if (!undercroft_read_words(&words, given)) {
        return false;
    }
    undercroft_write_command(&this->output, words.count, words.words);
    undercroft_release_words(&words);
    return true;
}

static bool write_all(connection *this, HashTable *given, size_t *count)
{
    undercroft_words words;
    size_t at;
    if (!undercroft_read_commands(&words, given)) {
        return false;
    }
    for (at = 0; at < words.command_count; at++) {
        undercroft_write_command(&this->output, words.commands[at].count, words.commands[at].words);
    }
    *count = words.command_count;
    undercroft_release_words(&words);
    return true;
}

/* Parses a call's optional timeout. A negative timeout means no limit. */
#define OWN_TIMEOUT(minimum, maximum, first) \
    ZEND_PARSE_PARAMETERS_START(minimum, maximum) \
        first \
        Z_PARAM_OPTIONAL \
        Z_PARAM_DOUBLE_OR_NULL(timeout, is_default) \
    ZEND_PARSE_PARAMETERS_END()

/*
 * Reads the next reply and drops push messages. A timeout closes the connection, because the late
 * reply may still arrive.
 */
static bool answer(connection *this, zval *reply, bool is_own, double timeout)
{
    for (;;) {
        if (!read_reply(this, reply, is_own, timeout)) {
            hang_up(this);
            return false;
        }
        if (EXPECTED(!this->input.is_push)) {
            return true;
        }
        zval_ptr_dtor(reply);
    }
}

static ZEND_METHOD(Undercroft_Native_Connection, execute)
{
    connection *this = connection_of(Z_OBJ_P(ZEND_THIS));
    HashTable *words;
    double timeout = 0;
    bool is_default = true, is_answered;
    zval reply;
    OWN_TIMEOUT(1, 2, Z_PARAM_ARRAY_HT(words));
    if (ZEND_NUM_ARGS() < 2) {
        is_default = true;
    }
    /* Discard the output that an earlier failed call left in the buffer. */
    if (!this->is_busy) {
        clean(this);
    }
    if (!begin(this)) {
        RETURN_THROWS();
    }
    is_answered = write_words(this, words) && flush(this) && answer(this, &reply, !is_default, timeout);
    clean(this);
    this->is_busy = false;
    if (UNEXPECTED(!is_answered)) {
        RETURN_THROWS();
    }
    if (UNEXPECTED(Z_TYPE(reply) == IS_OBJECT)) {
        zend_throw_exception_object(&reply);
        RETURN_THROWS();
    }
    ZVAL_COPY_VALUE(return_value, &reply);
}

static ZEND_METHOD(Undercroft_Native_Connection, pipeline)
{
    connection *this = connection_of(Z_OBJ_P(ZEND_THIS));
    HashTable *commands;
    size_t count = 0, at;
    bool is_good;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(commands)
    ZEND_PARSE_PARAMETERS_END();
    if (zend_hash_num_elements(commands) == 0) {
        RETURN_EMPTY_ARRAY();
    }
    if (!this->is_busy) {
        clean(this);
    }
    if (!begin(this)) {
        RETURN_THROWS();
    }
    is_good = write_all(this, commands, &count) && flush(this);
    clean(this);
    if (is_good) {
        undercroft_new_list(return_value, count);
        for (at = 0; is_good && at < count; at++) {
            zval reply;
            is_good = answer(this, &reply, false, 0);
            if (is_good) {
                zend_hash_next_index_insert_new(Z_ARRVAL_P(return_value), &reply);
            }
        }
    }
    this->is_busy = false;
    if (!is_good) {
        RETURN_THROWS();
    }
}

static ZEND_METHOD(Undercroft_Native_Connection, send)
{
    connection *this = connection_of(Z_OBJ_P(ZEND_THIS));
    HashTable *commands;
    size_t count;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(commands)
    ZEND_PARSE_PARAMETERS_END();
    if (zend_hash_num_elements(commands) == 0) {
        return;
    }
    if (!this->is_busy) {
        clean(this);
    }
    if (!begin(this)) {
        RETURN_THROWS();
    }
    this->is_unread = true;
    if (write_all(this, commands, &count)) {
        flush(this);
    }
    clean(this);
    this->is_busy = false;
}

static ZEND_METHOD(Undercroft_Native_Connection, receive)
{
    connection *this = connection_of(Z_OBJ_P(ZEND_THIS));
    double timeout = 0;
    bool is_default = true, is_there;
    zval reply;
    OWN_TIMEOUT(0, 1, );
    if (!begin(this)) {
        RETURN_THROWS();
    }
    is_there = read_reply(this, &reply, ZEND_NUM_ARGS() > 0 && !is_default, timeout);
    this->is_busy = false;
    if (!is_there) {
        RETURN_THROWS();
    }
    ZVAL_COPY_VALUE(return_value, &reply);
}

static ZEND_METHOD(Undercroft_Native_Connection, isOpen)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(connection_of(Z_OBJ_P(ZEND_THIS))->descriptor >= 0);
}

static ZEND_METHOD(Undercroft_Native_Connection, isReused)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(connection_of(Z_OBJ_P(ZEND_THIS))->is_reused);
}

static ZEND_METHOD(Undercroft_Native_Connection, isPush)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(connection_of(Z_OBJ_P(ZEND_THIS))->input.is_push);
}

static ZEND_METHOD(Undercroft_Native_Connection, close)
{
    connection *this = connection_of(Z_OBJ_P(ZEND_THIS));
    ZEND_PARSE_PARAMETERS_NONE();
    /*
     * In a forked child, the descriptor is closed when the object is destroyed, because a call
     * further down the stack may still use the object's buffer.
     */
    if (this->is_busy && this->forks != undercroft_forks) {
        return;
    }
    if (this->is_busy && !is_abandoned(this)) {
        begin(this);
        RETURN_THROWS();
    }
    hang_up(this);
    this->is_busy = false;
}

#include "connection_arginfo.h"

static const zend_function_entry methods[] = {
    ZEND_ME(Undercroft_Native_Connection, __construct, construct_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Connection, execute, execute_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Connection, pipeline, pipeline_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Connection, send, send_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Connection, receive, receive_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Connection, isOpen, bool_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Connection, isReused, bool_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Connection, isPush, bool_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Connection, close, close_arguments, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

void undercroft_register_connection(void)
{
    zend_class_entry entry, *class;
    INIT_CLASS_ENTRY(entry, "Undercroft\\Native\\Connection", methods);
    class = zend_register_internal_class(&entry);
    class->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_NO_DYNAMIC_PROPERTIES | ZEND_ACC_NOT_SERIALIZABLE;
    zend_declare_class_constant_long(class, "INHERITED", strlen("INHERITED"), INHERITED);
    zend_declare_class_constant_long(class, "ABANDONED", strlen("ABANDONED"), ABANDONED);
    zend_declare_class_constant_long(class, "CLOSED", strlen("CLOSED"), CLOSED);
    class->create_object = create;
    memcpy(&handlers, &std_object_handlers, sizeof(handlers));
    handlers.offset = XtOffsetOf(connection, std);
    handlers.free_obj = release;
    handlers.clone_obj = NULL;
}
