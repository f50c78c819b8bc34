/*
 * Declarations that the extension's source files share.
 *
 * One rule applies everywhere: PHP's allocator and its errors may leave a function by longjmp.
 * Therefore no PHP memory is allocated while the library runs, and the library never calls back
 * into PHP code. Every resource that a call uses belongs to PHP, which frees it at the end of the
 * request, to an object, or to the thread's globals below.
 */
#ifndef PHP_UNDERCROFT_H
#define PHP_UNDERCROFT_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php.h"
#include "undercroft.h"

#define PHP_UNDERCROFT_VERSION "0.1.0"

extern zend_module_entry undercroft_module_entry;

/* The maximum number of stores that stay open in a process after their requests. */
#define UNDERCROFT_KEPT 16

/*
 * A store that stays open between requests, with its URL and the time at which its file was last
 * checked. The structure's memory comes from malloc, because PHP's memory is freed with the
 * request.
 */
typedef struct undercroft_kept {
    char *url;
    uint64_t database;
    uint64_t timeout_ms;
    uint64_t looked_at;
    uc_store *store;
} undercroft_kept;

/* The maximum number of connections that a process retains for later requests. */
#define UNDERCROFT_IDLE 64

/*
 * A connection that a request left open for the next request. The name of an empty entry is NULL.
 */
typedef struct undercroft_idle {
    /* The address, a zero byte, and the name of the connection. */
    char *name;
    size_t length;
    int descriptor;
    pid_t process;
} undercroft_idle;

/* A PHP frame in the middle of a call, with its function and the calling instruction. */
typedef struct undercroft_call {
    const zend_execute_data *frame;
    const zend_function *function;
    const zend_op *at;
} undercroft_call;

/*
 * The maximum number of frames between the native method and the program, including the program's
 * frame, and the maximum depth of calls that these frames make while they pass a result to the
 * program.
 */
#define UNDERCROFT_CALLS 8
#define UNDERCROFT_DEPTH 16

/* The result of the last call that may have removed data from a store. */
typedef struct undercroft_result {
    /*
     * The object whose session has recorded the removed data, or NULL if no result is on its way to
     * the program.
     */
    struct undercroft_store *owner;
    /* The frames from the native method's caller to the program. */
    size_t count;
    undercroft_call calls[UNDERCROFT_CALLS];
} undercroft_result;

ZEND_BEGIN_MODULE_GLOBALS(undercroft)
    /*
     * The reply object that all calls use. Its contents become PHP values before any other code
     * runs.
     */
    uc_reply *reply;
    /* Whether the reply is so large that it is freed at the end of the request. */
    bool is_large;
    undercroft_result result;
    /* Stores that requests have closed but that stay open for later requests. */
    undercroft_kept kept[UNDERCROFT_KEPT];
    /* Whether a store whose file was checked recently is used without another check. */
    bool is_trusting;
    /* The index of the retained store to replace next, modulo UNDERCROFT_KEPT. */
    unsigned int oldest;
    /* Persistent connections that no object is using. */
    undercroft_idle idle[UNDERCROFT_IDLE];
    unsigned int oldest_idle;
ZEND_END_MODULE_GLOBALS(undercroft)

ZEND_EXTERN_MODULE_GLOBALS(undercroft)
#define UNDERCROFT_G(name) ZEND_MODULE_GLOBALS_ACCESSOR(undercroft, name)

#if defined(ZTS) && defined(COMPILE_DL_UNDERCROFT)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

/*
 * Returns the thread's reply object. Throws an exception and returns NULL if it cannot be created.
 */
uc_reply *undercroft_reply(void);

/* Returns whether PHP has pending work, such as a signal handler or an expired time limit. */
bool undercroft_is_interrupted(void);

/*
 * Runs PHP's pending interrupt handlers. Returns false if a handler threw an exception. Does not
 * return if the time limit has expired.
 */
bool undercroft_interrupt(void);

/*
 * ---- Memory: memory.c. Some builds of PHP stop a script that exceeds memory_limit only after the
 * current call, and end the process if the call allocates much more. Large allocations therefore
 * use the functions of these builds that can fail, and code that makes many small allocations
 * checks UNDERCROFT_IS_OVER() between them.
 */

/*
 * Returns whether PHP will stop the script after this call for exceeding memory_limit. In that
 * case, the call's result does not matter.
 */
#ifdef ZEND_HAS_OOM
#define UNDERCROFT_IS_OVER() ZEND_HAS_OOM()
#else
#define UNDERCROFT_IS_OVER() false
#endif

/* The maximum size in bytes of an allocation that does not need the functions below. */
#define UNDERCROFT_SMALL (64 * 1024)

zend_string *undercroft_new_string(size_t length);
void *undercroft_allocate(size_t count, size_t size, size_t more);
void *undercroft_reallocate(void *memory, size_t size);

/* Creates an array with room for `items` numbered or named items. */
void undercroft_new_list(zval *to, size_t items);
void undercroft_new_map(zval *to, size_t items);

/* ---- Exceptions: exceptions.c */

extern zend_class_entry *undercroft_exception;
extern zend_class_entry *undercroft_server_exception;
extern zend_class_entry *undercroft_store_exception;
extern zend_class_entry *undercroft_connection_exception;
extern zend_class_entry *undercroft_timeout_exception;
extern zend_class_entry *undercroft_protocol_exception;

void undercroft_register_exceptions(void);

/* Creates a ServerException from an error text, without throwing it. */
void undercroft_error_value(zval *to, const char *text, size_t length);

/* Throws the exception that matches a status of the library, with the library's message. */
void undercroft_throw(int status);

/* ---- Words of commands: words.c */

#define UNDERCROFT_FEW_WORDS 12
#define UNDERCROFT_NUMBER 32

/* The words of one or more commands, valid during a call. */
typedef struct undercroft_words {
    size_t count;
    uc_bytes *words;
    /* The commands, if the words belong to several commands. */
    size_t command_count;
    uc_words *commands;
    /*
     * Copies of arrays whose bytes could not be used in place. The caller must release these
     * copies.
     */
    zval held;
    void *memory;
    uc_bytes few[UNDERCROFT_FEW_WORDS];
    char numbers[UNDERCROFT_FEW_WORDS][UNDERCROFT_NUMBER];
} undercroft_words;

/*
 * Reads the words of a command. Returns false if an exception was thrown, in which case the caller
 * has nothing to release.
 */
bool undercroft_read_words(undercroft_words *to, HashTable *words);

/*
 * Reads the words of several commands. Returns false if an exception was thrown, in which case the
 * caller has nothing to release.
 */
bool undercroft_read_commands(undercroft_words *to, HashTable *commands);

void undercroft_release_words(undercroft_words *words);

/* ---- Library replies: values.c */

/* Converts a library value to a PHP value. */
void undercroft_from_value(zval *to, const uc_value *value);

/* Converts the thread's reply to a PHP value. */
void undercroft_from_reply(zval *to);

/* Creates a PHP string. Strings of at most one byte need no allocation. */
static zend_always_inline void undercroft_string(zval *to, const char *text, size_t length)
{
    if (length > 1) {
        zend_string *string = UNEXPECTED(length > UNDERCROFT_SMALL) ? undercroft_new_string(length)
                                                                    : zend_string_alloc(length, 0);
        memcpy(ZSTR_VAL(string), text, length);
        ZSTR_VAL(string)[length] = 0;
        ZVAL_NEW_STR(to, string);
    } else if (length == 1) {
        ZVAL_CHAR(to, (zend_uchar)text[0]);
    } else {
        ZVAL_EMPTY_STRING(to);
    }
}

/*
 * Sets an item of a map. Returns false if the key is neither a string nor an integer, in which case
 * the caller still owns the value.
 */
bool undercroft_set_item(zval *map, zval *key, zval *value);

/* ---- Waits for other processes: messages.c */

/* The rest of a wait in milliseconds, which is negative if it has no limit, and its end. */
typedef struct undercroft_deadline {
    int64_t left;
    int64_t end;
} undercroft_deadline;

/*
 * Begins a wait. Returns false after an exception, because the method's argument with the number
 * `argument` is no time.
 */
bool undercroft_set_deadline(undercroft_deadline *deadline, double seconds, bool is_forever, uint32_t argument);

/* Sets the rest of a wait that a signal handler has interrupted. */
void undercroft_update_deadline(undercroft_deadline *deadline);

/* ---- Classes */

typedef struct undercroft_store {
    uc_store *store;
    uc_session *session;
    uc_subscription *subscription;
    zend_string *url;
    uint64_t database;
    uint64_t timeout_ms;
    uint64_t looked_at;
    zend_object std;
} undercroft_store;

/*
 * These functions must enclose every call that may remove data from a store, and the conversion of
 * its result. If a signal handler then throws before the result has reached the program, the data
 * is put back.
 */
void undercroft_begin_result(void);
void undercroft_end_result(undercroft_store *owner);

extern zend_class_entry *undercroft_store_class;

static zend_always_inline undercroft_store *undercroft_store_of(zend_object *object)
{
    return (undercroft_store *)((char *)object - XtOffsetOf(undercroft_store, std));
}

void undercroft_register_store(void);
void undercroft_register_parser(void);
void undercroft_register_connection(void);
void undercroft_register_channel(void);

/* Closes the stores that stay open between requests. */
void undercroft_close_kept(zend_undercroft_globals *globals);

/* Closes the connections that requests left open. */
void undercroft_close_idle(zend_undercroft_globals *globals);

/* Throws the exception for a closed store. */
ZEND_COLD void undercroft_closed_store(void);

/* Declares the methods of Store that commands.c and messages.c define. */
ZEND_METHOD(Undercroft_Native_Store, execute);
ZEND_METHOD(Undercroft_Native_Store, pipeline);
ZEND_METHOD(Undercroft_Native_Store, transaction);
ZEND_METHOD(Undercroft_Native_Store, publish);
ZEND_METHOD(Undercroft_Native_Store, subscribe);
ZEND_METHOD(Undercroft_Native_Store, unsubscribe);
ZEND_METHOD(Undercroft_Native_Store, message);

#endif
