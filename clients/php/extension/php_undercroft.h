/* The extension undercroft: what its files share.
 *
 * What holds everywhere: PHP's allocator and its errors may leave a function by longjmp. So nothing is allocated from
 * PHP while the library runs, the library never calls back into PHP's code, and what a call holds is either PHP's
 * (which frees it at the request's end), an object's, or the thread's (the globals below). */
#ifndef PHP_UNDERCROFT_H
#define PHP_UNDERCROFT_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php.h"
#include "undercroft.h"

#define PHP_UNDERCROFT_VERSION "0.1.0"

extern zend_module_entry undercroft_module_entry;

/* So many stores stay open in a process behind the requests that opened them. */
#define UNDERCROFT_KEPT 16

/* A store that stays open, its URL, and when its file was last looked for. Not of PHP's memory, as requests end. */
typedef struct undercroft_kept {
    char *url;
    uint64_t database;
    uint64_t timeout_ms;
    uint64_t looked_at;
    uc_store *store;
} undercroft_kept;

/* So many connections are kept for later requests. */
#define UNDERCROFT_IDLE 64

/* A connection that a request has left for the next one. Where there is none its name is NULL. */
typedef struct undercroft_idle {
    /* Its address, a zero byte, and what it is called. */
    char *name;
    size_t length;
    int descriptor;
    pid_t process;
} undercroft_idle;

/* A frame of PHP's while it makes a call. */
typedef struct undercroft_call {
    const zend_execute_data *frame;
    const zend_function *function;
    const zend_op *at;
} undercroft_call;

/* So many calls lie between the program and a native method, the program's own with them; and so many below one of these
 * while a result is handed on. */
#define UNDERCROFT_CALLS 8
#define UNDERCROFT_DEPTH 16

/* The result of the last call that may have taken something out of a store. */
typedef struct undercroft_result {
    /* Whose session knows what was taken; NULL where there is no result on its way. */
    struct undercroft_store *owner;
    /* From the native method's caller to the program. */
    size_t count;
    undercroft_call calls[UNDERCROFT_CALLS];
} undercroft_result;

ZEND_BEGIN_MODULE_GLOBALS(undercroft)
    /* Every reply is read into this one, and made PHP's before anything else runs. */
    uc_reply *reply;
    /* Its memory is to be given back at the request's end. */
    bool is_large;
    undercroft_result result;
    /* Stores that requests have closed, for the next ones. */
    undercroft_kept kept[UNDERCROFT_KEPT];
    /* Whether a store that was found a moment ago is taken without another look at its file. */
    bool is_trusting;
    /* Which of them makes room for the next one. */
    unsigned int oldest;
    /* Persistent connections that no object has. */
    undercroft_idle idle[UNDERCROFT_IDLE];
    unsigned int oldest_idle;
ZEND_END_MODULE_GLOBALS(undercroft)

ZEND_EXTERN_MODULE_GLOBALS(undercroft)
#define UNDERCROFT_G(name) ZEND_MODULE_GLOBALS_ACCESSOR(undercroft, name)

#if defined(ZTS) && defined(COMPILE_DL_UNDERCROFT)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

/* The thread's reply; NULL where it cannot be made, and an exception is thrown. */
uc_reply *undercroft_reply(void);

/* Whether PHP has something to do before it goes on: a signal's handler, the end of its time. */
bool undercroft_is_interrupted(void);

/* Does it. False: an exception was thrown. Does not return where the time is up. */
bool undercroft_interrupt(void);

/* ---- Memory: memory.c. Some builds of PHP end a script that reached memory_limit only when the call is over, and the
 * process where much more is allocated until then. So large allocations are made by those builds' calls that may fail,
 * and what is made of many small ones asks in between. */

/* Whether the script will be ended for its memory when the call is over: what the call returns does not matter any
 * more. */
#ifdef ZEND_HAS_OOM
#define UNDERCROFT_IS_OVER() ZEND_HAS_OOM()
#else
#define UNDERCROFT_IS_OVER() false
#endif

/* What is no larger needs none of these. */
#define UNDERCROFT_SMALL (64 * 1024)

zend_string *undercroft_new_string(size_t length);
void *undercroft_allocate(size_t count, size_t size, size_t more);
void *undercroft_reallocate(void *memory, size_t size);

/* An array with room for so many items, which are numbered or have names. */
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

/* Makes a ServerException of an error's text. Nothing is thrown. */
void undercroft_error_value(zval *to, const char *text, size_t length);

/* Throws what fits to a status of the library, with its message. */
void undercroft_throw(int status);

/* ---- Words of commands: words.c */

#define UNDERCROFT_FEW_WORDS 12
#define UNDERCROFT_NUMBER 32

/* Words of one command or of several, for the time of a call. */
typedef struct undercroft_words {
    size_t count;
    uc_bytes *words;
    /* Where there are several commands. */
    size_t command_count;
    uc_words *commands;
    /* Arrays that hold the words' bytes, where the caller's do not do; to be released. */
    zval held;
    void *memory;
    uc_bytes few[UNDERCROFT_FEW_WORDS];
    char numbers[UNDERCROFT_FEW_WORDS][UNDERCROFT_NUMBER];
} undercroft_words;

/* Reads the words of a command. False: an exception was thrown, and there is nothing to release. */
bool undercroft_read_words(undercroft_words *to, HashTable *words);

/* Reads the words of several commands. */
bool undercroft_read_commands(undercroft_words *to, HashTable *commands);

void undercroft_release_words(undercroft_words *words);

/* ---- Replies of the library: values.c */

/* Makes a value of the library's PHP's. */
void undercroft_from_value(zval *to, const uc_value *value);

/* Makes the thread's reply PHP's. */
void undercroft_from_reply(zval *to);

/* A string, for which short ones need no memory. */
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

/* Sets an item of a map. False where the key is neither a string nor a number. What is not taken stays the caller's. */
bool undercroft_set_item(zval *map, zval *key, zval *value);

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

/* Surround a call that may take something out of a store, and the making of its result. From the end on it goes back where a
 * signal's handler throws before the result has arrived in the program. */
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

/* Closes the stores that were kept open. */
void undercroft_close_kept(zend_undercroft_globals *globals);

/* Closes the connections that requests have left. */
void undercroft_close_idle(zend_undercroft_globals *globals);

/* Throws that a store is closed. */
ZEND_COLD void undercroft_closed_store(void);

/* Methods of Store that are in files of their own. */
ZEND_METHOD(Undercroft_Native_Store, execute);
ZEND_METHOD(Undercroft_Native_Store, pipeline);
ZEND_METHOD(Undercroft_Native_Store, transaction);
ZEND_METHOD(Undercroft_Native_Store, publish);
ZEND_METHOD(Undercroft_Native_Store, subscribe);
ZEND_METHOD(Undercroft_Native_Store, unsubscribe);
ZEND_METHOD(Undercroft_Native_Store, message);

#endif
