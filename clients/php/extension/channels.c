/*
 * Implements Undercroft\Native\Channel, a bounded queue of messages in a store, and
 * Undercroft\Native\Held, a message that this process holds.
 */
#include "php_undercroft.h"
#include "zend_exceptions.h"

typedef struct channel {
    uc_channel *channel;
    /* The last received message, until its contents are a PHP value. */
    uc_object *message;
    zend_object std;
} channel;

typedef struct held {
    /* The message, or NULL once the hold has ended. */
    uc_object *message;
    zend_object std;
} held;

static zend_class_entry *held_class;
static zend_object_handlers channel_handlers;
static zend_object_handlers held_handlers;

static channel *channel_of(zend_object *object)
{
    return (channel *)((char *)object - XtOffsetOf(channel, std));
}

static held *held_of(zend_object *object)
{
    return (held *)((char *)object - XtOffsetOf(held, std));
}

static zend_object *create_channel(zend_class_entry *class)
{
    channel *this = zend_object_alloc(sizeof(channel), class);
    zend_object_std_init(&this->std, class);
    object_properties_init(&this->std, class);
    this->std.handlers = &channel_handlers;
    return &this->std;
}

static zend_object *create_held(zend_class_entry *class)
{
    held *this = zend_object_alloc(sizeof(held), class);
    zend_object_std_init(&this->std, class);
    object_properties_init(&this->std, class);
    this->std.handlers = &held_handlers;
    return &this->std;
}

static void release_channel(zend_object *object)
{
    channel *this = channel_of(object);
    uc_object_close(this->message);
    uc_channel_close(this->channel);
    this->message = NULL;
    this->channel = NULL;
    zend_object_std_dtor(object);
}

/* Releases the message to its channel, if it is still held. */
static void release_held(zend_object *object)
{
    held *this = held_of(object);
    uc_object_close(this->message);
    this->message = NULL;
    zend_object_std_dtor(object);
}

/* Throws an exception if a call failed, unless a signal handler has already thrown an exception. */
#define CHECK(status) \
    if (UNEXPECTED((status) < 0)) { \
        if (!EG(exception)) { \
            undercroft_throw(status); \
        } \
        RETURN_THROWS(); \
    }

/* Makes a call that waits only for locks, and repeats it if a signal handler interrupted it. */
#define CALL(status, call) \
    do { \
        status = call; \
    } while (UNEXPECTED(status == UC_INTERRUPTED) && undercroft_interrupt())

/*
 * Makes a call that may wait for other processes, and continues it if a signal handler interrupted
 * it.
 */
#define WAIT(status, deadline, call) \
    while ((status = call) == UC_INTERRUPTED && undercroft_interrupt()) { \
        undercroft_update_deadline(&(deadline)); \
    }

#define OPEN_CHANNEL(name) \
    channel *name = channel_of(Z_OBJ_P(ZEND_THIS)); \
    if (UNEXPECTED(name->channel == NULL)) { \
        zend_throw_exception(undercroft_store_exception, "the channel was not opened", 0); \
        RETURN_THROWS(); \
    }

static ZEND_METHOD(Undercroft_Native_Channel, __construct)
{
    channel *this = channel_of(Z_OBJ_P(ZEND_THIS));
    zval *store;
    zend_string *name;
    zend_long bound = 1000, ttl = 0;
    uc_channel *opened;
    int status;
    ZEND_PARSE_PARAMETERS_START(2, 4)
        Z_PARAM_OBJECT_OF_CLASS(store, undercroft_store_class)
        Z_PARAM_STR(name)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(bound)
        Z_PARAM_LONG(ttl)
    ZEND_PARSE_PARAMETERS_END();
    if (bound < 0) {
        zend_argument_value_error(3, "must be 0 or more messages");
        RETURN_THROWS();
    }
    if (ttl < 0) {
        zend_argument_value_error(4, "must be 0 or more milliseconds");
        RETURN_THROWS();
    }
    if (ZSTR_LEN(name) == 0) {
        zend_argument_value_error(2, "must not be empty");
        RETURN_THROWS();
    }
    if (undercroft_store_of(Z_OBJ_P(store))->store == NULL) {
        undercroft_closed_store();
        RETURN_THROWS();
    }
    CALL(status, uc_channel_open(undercroft_store_of(Z_OBJ_P(store))->store, ZSTR_VAL(name), ZSTR_LEN(name),
                                 (uint64_t)bound, ttl, &opened));
    CHECK(status);
    uc_channel_close(this->channel);
    this->channel = opened;
}

/* Returns true for a sent message, false for a full channel and null for a closed one. */
static void return_sent(zval *return_value, int status)
{
    CHECK(status);
    if (status == UC_CLOSED) {
        RETURN_NULL();
    }
    RETURN_BOOL(status == UC_OK);
}

/* Sends bytes or text. */
static void send_bytes(INTERNAL_FUNCTION_PARAMETERS, int (*send)(uc_channel *, const void *, size_t, int64_t))
{
    zend_string *bytes;
    double seconds = 0;
    bool is_forever = true;
    undercroft_deadline deadline;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(bytes)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(seconds, is_forever)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_CHANNEL(this);
    if (!undercroft_set_deadline(&deadline, seconds, ZEND_NUM_ARGS() < 2 || is_forever, 2)) {
        RETURN_THROWS();
    }
    WAIT(status, deadline, send(this->channel, ZSTR_VAL(bytes), ZSTR_LEN(bytes), deadline.left));
    return_sent(return_value, status);
}

static ZEND_METHOD(Undercroft_Native_Channel, send)
{
    send_bytes(INTERNAL_FUNCTION_PARAM_PASSTHRU, uc_channel_send);
}

static ZEND_METHOD(Undercroft_Native_Channel, sendText)
{
    send_bytes(INTERNAL_FUNCTION_PARAM_PASSTHRU, uc_channel_send_text);
}

/* The largest number of dimensions of an array, which is numpy's. */
#define DIMENSIONS 64

static ZEND_METHOD(Undercroft_Native_Channel, sendArray)
{
    zend_string *dtype, *items;
    HashTable *lengths;
    zval *length;
    uint64_t shape[DIMENSIONS];
    uint32_t dimensions = 0;
    double seconds = 0;
    bool is_forever = true;
    undercroft_deadline deadline;
    int status;
    ZEND_PARSE_PARAMETERS_START(3, 4)
        Z_PARAM_STR(dtype)
        Z_PARAM_ARRAY_HT(lengths)
        Z_PARAM_STR(items)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(seconds, is_forever)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_CHANNEL(this);
    if (!undercroft_set_deadline(&deadline, seconds, ZEND_NUM_ARGS() < 4 || is_forever, 4)) {
        RETURN_THROWS();
    }
    ZEND_HASH_FOREACH_VAL(lengths, length) {
        ZVAL_DEREF(length);
        if (dimensions == DIMENSIONS || Z_TYPE_P(length) != IS_LONG || Z_LVAL_P(length) < 0) {
            zend_argument_value_error(2, "must be a list of at most %d lengths of 0 or more", DIMENSIONS);
            RETURN_THROWS();
        }
        shape[dimensions++] = (uint64_t)Z_LVAL_P(length);
    } ZEND_HASH_FOREACH_END();
    WAIT(status, deadline, uc_channel_send_array(this->channel, ZSTR_VAL(dtype), dimensions, shape, ZSTR_VAL(items),
                                             ZSTR_LEN(items), deadline.left));
    return_sent(return_value, status);
}

/* Converts a message to a list of its kind, its bytes, and an array's type and shape. */
static void from_message(zval *to, const uc_object *message)
{
    zval part, length;
    size_t size, dimensions, at;
    const char *dtype;
    const uint64_t *shape;
    const void *data = uc_object_data(message, &size);
    zend_uchar kind = (zend_uchar)uc_object_kind(message);
    array_init_size(to, 4);
    ZVAL_CHAR(&part, kind);
    add_next_index_zval(to, &part);
    undercroft_string(&part, data, size);
    add_next_index_zval(to, &part);
    if (uc_object_array(message, &dtype, &dimensions, &shape) != UC_OK) {
        add_next_index_null(to);
        add_next_index_null(to);
        return;
    }
    add_next_index_string(to, dtype);
    array_init_size(&part, (uint32_t)dimensions);
    for (at = 0; at < dimensions; at++) {
        ZVAL_LONG(&length, (zend_long)shape[at]);
        add_next_index_zval(&part, &length);
    }
    add_next_index_zval(to, &part);
}

/*
 * Receives a message into `this->message`. Returns UC_OK, or after it has set the return value or
 * thrown an exception, another status.
 */
static int receive_message(INTERNAL_FUNCTION_PARAMETERS, int (*receive)(uc_channel *, int64_t, uc_object **))
{
    channel *this = channel_of(Z_OBJ_P(ZEND_THIS));
    double seconds = 0;
    bool is_forever = true;
    undercroft_deadline deadline;
    uc_object *message;
    int status;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(seconds, is_forever)
    ZEND_PARSE_PARAMETERS_END_EX(return UC_MISUSE);
    if (!undercroft_set_deadline(&deadline, seconds, ZEND_NUM_ARGS() < 1 || is_forever, 1)) {
        return UC_MISUSE;
    }
    if (UNEXPECTED(this->channel == NULL)) {
        zend_throw_exception(undercroft_store_exception, "the channel was not opened", 0);
        return UC_MISUSE;
    }
    WAIT(status, deadline, receive(this->channel, deadline.left, &message));
    if (EXPECTED(status == UC_OK)) {
        /* A message remains here if the memory limit ended the call that received it. */
        uc_object_close(this->message);
        this->message = message;
    } else if (status < 0) {
        if (!EG(exception)) {
            undercroft_throw(status);
        }
    } else if (status == UC_CLOSED) {
        ZVAL_FALSE(return_value);
    } else {
        ZVAL_NULL(return_value);
    }
    return status;
}

static ZEND_METHOD(Undercroft_Native_Channel, receive)
{
    channel *this = channel_of(Z_OBJ_P(ZEND_THIS));
    if (receive_message(INTERNAL_FUNCTION_PARAM_PASSTHRU, uc_channel_receive) == UC_OK) {
        from_message(return_value, this->message);
        uc_object_close(this->message);
        this->message = NULL;
    }
}

static ZEND_METHOD(Undercroft_Native_Channel, hold)
{
    channel *this = channel_of(Z_OBJ_P(ZEND_THIS));
    if (receive_message(INTERNAL_FUNCTION_PARAM_PASSTHRU, uc_channel_hold) == UC_OK) {
        object_init_ex(return_value, held_class);
        held_of(Z_OBJ_P(return_value))->message = this->message;
        this->message = NULL;
    }
}

static ZEND_METHOD(Undercroft_Native_Channel, length)
{
    uint64_t length;
    int status;
    ZEND_PARSE_PARAMETERS_NONE();
    OPEN_CHANNEL(this);
    CALL(status, uc_channel_length(this->channel, &length));
    CHECK(status);
    RETURN_LONG((zend_long)length);
}

static ZEND_METHOD(Undercroft_Native_Channel, isClosed)
{
    int status, is_closed;
    ZEND_PARSE_PARAMETERS_NONE();
    OPEN_CHANNEL(this);
    CALL(status, uc_channel_is_closed(this->channel, &is_closed));
    CHECK(status);
    RETURN_BOOL(is_closed);
}

static ZEND_METHOD(Undercroft_Native_Channel, close)
{
    int status;
    ZEND_PARSE_PARAMETERS_NONE();
    OPEN_CHANNEL(this);
    CALL(status, uc_channel_close_for_all(this->channel));
    CHECK(status);
}

static ZEND_METHOD(Undercroft_Native_Channel, delete)
{
    int status;
    ZEND_PARSE_PARAMETERS_NONE();
    OPEN_CHANNEL(this);
    CALL(status, uc_channel_del(this->channel));
    CHECK(status);
}

static ZEND_METHOD(Undercroft_Native_Held, message)
{
    held *this = held_of(Z_OBJ_P(ZEND_THIS));
    ZEND_PARSE_PARAMETERS_NONE();
    if (this->message == NULL) {
        RETURN_NULL();
    }
    from_message(return_value, this->message);
}

static ZEND_METHOD(Undercroft_Native_Held, end)
{
    held *this = held_of(Z_OBJ_P(ZEND_THIS));
    uc_object *message = this->message;
    bool goes_back;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_BOOL(goes_back)
    ZEND_PARSE_PARAMETERS_END();
    if (message == NULL) {
        RETURN_FALSE;
    }
    this->message = NULL;
    status = goes_back ? uc_channel_release(message) : uc_channel_ack(message);
    CHECK(status);
    RETURN_BOOL(status == UC_OK);
}

#include "channels_arginfo.h"

static const zend_function_entry channel_methods[] = {
    ZEND_ME(Undercroft_Native_Channel, __construct, channel_construct_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, send, channel_send_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, sendText, channel_send_text_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, sendArray, channel_send_array_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, receive, channel_receive_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, hold, channel_hold_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, length, channel_length_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, isClosed, channel_is_closed_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, close, channel_change_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Channel, delete, channel_change_arguments, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

static const zend_function_entry held_methods[] = {
    ZEND_ME(Undercroft_Native_Held, message, held_message_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Held, end, held_end_arguments, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

static zend_class_entry *register_class(zend_class_entry *entry, zend_object_handlers *handlers,
    zend_object *(*create)(zend_class_entry *), void (*release)(zend_object *), size_t offset)
{
    zend_class_entry *class = zend_register_internal_class(entry);
    class->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_NO_DYNAMIC_PROPERTIES | ZEND_ACC_NOT_SERIALIZABLE;
    class->create_object = create;
    memcpy(handlers, &std_object_handlers, sizeof(*handlers));
    handlers->offset = (int)offset;
    handlers->free_obj = release;
    handlers->clone_obj = NULL;
    return class;
}

void undercroft_register_channel(void)
{
    zend_class_entry entry;
    INIT_CLASS_ENTRY(entry, "Undercroft\\Native\\Channel", channel_methods);
    register_class(&entry, &channel_handlers, create_channel, release_channel, XtOffsetOf(channel, std));
    INIT_CLASS_ENTRY(entry, "Undercroft\\Native\\Held", held_methods);
    held_class = register_class(&entry, &held_handlers, create_held, release_held, XtOffsetOf(held, std));
}
