/*
 * Undercroft: Redis data structures in shared memory.
 *
 *     #include <stdio.h>
 *     #include <undercroft.h>
 *
 *     int main(void)
 *     {
 *         uc_store *store;
 *         char value[64];
 *         size_t length;
 *
 *         if (uc_open("undercroft://demo", NULL, &store) != UC_OK) {
 *             fprintf(stderr, "%s\n", uc_error_message());
 *             return 1;
 *         }
 *         uc_set(store, "greeting", 8, "hello", 5);
 *         if (uc_get(store, "greeting", 8, value, sizeof value, &length) == UC_OK)
 *             printf("%.*s\n", (int)length, value);
 *         uc_close(store);
 *     }
 *
 *     cc hello.c $(pkg-config --cflags --libs undercroft)
 *
 * These rules apply to every function:
 *
 * Results     A function returns a uc_status: UC_OK, a positive number for an outcome that is not a failure, or a
 *             negative number for a failure. After a failure, uc_error_message() describes it. Unless a function says
 *             otherwise, a failed call has changed nothing.
 * Arguments   Keys and values are bytes with a length and may contain zeros. NULL with the length 0 is the empty
 *             string. NULL for a required argument, an impossible length, or a handle of another kind returns
 *             UC_MISUSE. The caller keeps ownership of its arguments, and the library does not access them after the
 *             call returns. An output buffer must not overlap an input.
 * Handles     uc_store, uc_session, uc_reply, uc_subscription, uc_object and uc_channel are created by one call and
 *             closed by another. Closing NULL is not a failure. A call with a closed handle returns UC_MISUSE, but a
 *             program must not rely on that: the memory is reused once 64 more handles of that kind have been closed.
 * Threads     All threads may use a uc_store, a uc_object or a uc_channel at the same time. Close it only when no
 *             thread is using it. Each of the other handles belongs to one thread at a time, and a concurrent call
 *             from a second thread returns UC_MISUSE. A signal handler may call only uc_abi_version(), uc_version()
 *             and uc_status_name().
 * Fork        A child may use every handle that it inherits, immediately and alongside its parent, except a handle
 *             that another thread was using at the fork. The child has its own copy of the state in a uc_session
 *             (transaction, watched keys) and in a uc_subscription. Messages not yet received at the fork, or
 *             published before the child's first call with the subscription, belong to the parent. The child's first
 *             call reports them as lost.
 * Death       A process may be killed at any instruction. Other processes roll back its unfinished change and
 *             continue.
 * Time        Durations are in milliseconds. Points in time are Unix times in milliseconds.
 * Waiting     A call waits while another process holds a lock, for up to uc_options.timeout_ms, or when the command
 *             itself blocks (BLPOP, uc_subscription_next()). uc_set_interrupt() can end such a wait. It can also end
 *             a script that has not written anything yet.
 * C++         The header compiles as C11 and as C++17. No function throws.
 * Memory      If the process has no memory for a value that it reads or for a reply, the call returns UC_ERROR, and
 *             the reply is nil. Changes that the command made remain.
 * Stability   A program built with this header runs with every library whose UC_ABI_VERSION has the same upper 16
 *             bits and at least the same lower 16 bits. Only opaque handles and structures that begin with their size
 *             cross the boundary.
 *
 * Known pitfalls, with their causes and remedies:
 *
 * "memory allocation of N bytes failed", and the process aborts: an allocation failed where no
 *             error could be returned, for example in a command that sorts, combines or dumps.
 *             Remedy: raise the memory limit (ulimit -v, RLIMIT_AS) until there is room for four
 *             times the longest reply, or fetch replies in parts (HSCAN, LRANGE by ranges).
 * A handle stays in use forever (UC_MISUSE): a signal handler left a call with siglongjmp(), or the
 *             thread was cancelled in a call (pthread_cancel), so the call's frames were not
 *             unwound. If the call was writing, its lock stays held as well. All processes then
 *             wait until this process ends, and calls in this process ignore timeout_ms. Remedy:
 *             set a flag in the signal handler, and pass uc_set_interrupt() a function that checks
 *             it.
 * SIGSEGV in a thread's first call: the thread's stack is too small. Calls need 64 KiB, and scripts
 *             and their functions need 256 KiB.
 * "fatal runtime error", and the process aborts: the function passed to uc_set_interrupt() threw a
 *             C++ exception, which cannot pass through the library. Remedy: catch all exceptions in
 *             that function and return nonzero.
 */
#ifndef UNDERCROFT_H
#define UNDERCROFT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. The upper 16 bits, and the name of the shared library, change when programs must
 * be recompiled. The lower 16 bits change when something is added. */
#define UC_ABI_VERSION 7

/* Returns the UC_ABI_VERSION of the loaded library. */
uint32_t uc_abi_version(void);

/* Returns the version of the loaded library, such as "0.1.0". The text is never freed. */
const char *uc_version(void);

/* ---- Results ---------------------------------------------------------------------------------------------------- */

/* The result of a call. */
typedef enum uc_status {
    UC_OK = 0,
    /* No result: the key does not exist, a condition was not met, or the timeout expired. This is not a failure. */
    UC_NONE = 1,
    /* The value is longer than the buffer. This is not a failure. */
    UC_TOO_SMALL = 2,
    /* The channel is closed and, for a receiver, empty. This is not a failure. */
    UC_CLOSED = 3,

    /* The command replied with an error. The message is the error's text and begins with an error code, as in
     * Redis. */
    UC_ERROR = -1,
    /* The call itself is invalid: NULL, a closed handle, or conflicting options. */
    UC_MISUSE = -2,
    /* The key holds a value of another type. */
    UC_WRONG_TYPE = -3,
    /* The store is full: maxmemory or the file system's size is reached. */
    UC_FULL = -4,
    /* Another process held a lock for longer than timeout_ms. The message names the process and says whether it is
     * stopped. */
    UC_BUSY = -5,
    /* The function passed to uc_set_interrupt() ended the wait. */
    UC_INTERRUPTED = -6,
    /* The store is read-only. */
    UC_READ_ONLY = -7,
    /* The store's file was removed or replaced, and this call is tied to that store: a wait, a subscription, or a
     * session in a transaction or with watched keys. Other calls continue in the store that the name refers to
     * now. If the URL ends with "?on_removed=error", they fail too, and the program must reopen the store. */
    UC_REMOVED = -8,
    /* The store can be neither opened nor created. The message says why. */
    UC_CANNOT_OPEN = -9,
    /* A bug in Undercroft. The handle can only be closed. Please report the message. */
    UC_INTERNAL = -10
} uc_status;

/* Returns the message of this thread's last failed call, or "" if none failed. The library owns the text, which
 * stays valid until the thread's next call. In a language whose tasks move between threads, call this function in
 * the same task and thread as the failed call. In Go, call both between runtime.LockOSThread and UnlockOSThread. */
const char *uc_error_message(void);

/* Returns the name of a status, such as "UC_BUSY". The text is never freed. */
const char *uc_status_name(int status);

/* A callback that is called while a call waits and returns nonzero to end the wait. Any waiting thread may call
 * it, and several threads may call it at the same time. It may use the library, except for the handle that waits.
 * While the call runs a script, the callback must not use the library at all. */
typedef int uc_interrupt(void *data);

/*
 * Sets the callback that can end waits and scripts. Every wait of this process calls `check` at least ten times a
 * second, and immediately after a signal that interrupts a system call without restarting it (sigaction without
 * SA_RESTART). A script that has not written anything yet calls it more often. A nonzero result ends the call with
 * UC_INTERRUPTED, and the call changes nothing. NULL removes the callback. `data` must stay valid while calls may
 * wait. Set the callback once, at startup.
 */
int uc_set_interrupt(uc_interrupt *check, void *data);

/* ---- Bytes ------------------------------------------------------------------------------------------------------ */

/* Bytes that the caller owns. */
typedef struct uc_bytes {
    const void *data;
    size_t length;
} uc_bytes;

/* Returns the bytes of a null-terminated string without the terminating zero. */
static inline uc_bytes uc_text(const char *text)
{
    uc_bytes bytes;
    bytes.data = text;
    bytes.length = strlen(text);
    return bytes;
}

/* Returns `length` bytes at `data`. */
static inline uc_bytes uc_data(const void *data, size_t length)
{
    uc_bytes bytes;
    bytes.data = data;
    bytes.length = length;
    return bytes;
}

/* ---- Stores ----------------------------------------------------------------------------------------------------- */

/* An open store, with the number of one of its databases. */
typedef struct uc_store uc_store;

/* The opaque types of sessions, replies, values, subscriptions, objects and channels, which are described below. */
typedef struct uc_session uc_session;
typedef struct uc_reply uc_reply;
typedef struct uc_value uc_value;
typedef struct uc_subscription uc_subscription;
typedef struct uc_object uc_object;
typedef struct uc_channel uc_channel;

/* The value of uc_options.max_memory for no limit. */
#define UC_UNLIMITED UINT64_MAX

/*
 * Options for opening a store. Initialize them with UC_OPTIONS_INIT. Zero selects a field's default. The limits apply
 * when the store is created. An existing store keeps its own limits, and uc_store_warning() reports differences. If
 * the capacity differs, or if another limit differs and `strict` is set, uc_open() fails with UC_MISUSE and a message
 * that contains both limits. With a timeout_ms below 200, the first calls after a process dies may return UC_BUSY.
 */
typedef struct uc_options {
    size_t size;          /* sizeof(uc_options) */
    uint64_t capacity;    /* address space in bytes; default 64 GiB or the file system's size */
    uint64_t max_memory;  /* limit on the data in bytes; default 1 GiB; see UC_UNLIMITED */
    const char *policy;   /* eviction policy, such as "noeviction" (default) or "allkeys-lru" */
    uint64_t timeout_ms;  /* maximum wait for a lock; default 5000; for the whole process */
    uint64_t database;    /* 0 to 15 */
    uint64_t strict;      /* 1: fail if max_memory, policy or durability differ; since version 4 */
    /* When changes survive a power cut: "none" (default), "everysec" or "always". A store without a journal begins
     * one. Since version 6. */
    const char *durability;
    /* The folder of the journal; default PATH.journal, or NAME.journal in the user's state directory for
     * undercroft://NAME. Since version 6. */
    const char *journal;
} uc_options;

#define UC_OPTIONS_INIT { sizeof(uc_options), 0, 0, NULL, 0, 0, 0, NULL, NULL }

/*
 * Opens a store, creating it if it does not exist. "undercroft://name" is a file in the user's directory in /dev/shm,
 * and "undercroft://name/1" is its database 1. "undercroft:///path", or a path that contains a '/', names that file.
 * Any other text returns UC_MISUSE. A URL may end with "?on_removed=error" (see UC_REMOVED) or
 * "?durability=everysec&journal=/path", which override the options. If the file is gone or dates from another boot,
 * and the store has a journal, the call recovers the store, which uc_set_interrupt() can end (UC_INTERRUPTED).
 * `options` may be NULL. Close *store with uc_close(). It is NULL after a failure: UC_MISUSE for an invalid name or
 * option, UC_INTERRUPTED, or UC_CANNOT_OPEN. To use another database, open the store again: a process maps each file
 * only once.
 */
int uc_open(const char *url, const uc_options *options, uc_store **store);

/* Returns one line that lists the limits of an existing store that differ from uc_options and says how to change
 * them. Returns NULL if no limit differs, or if this process has already received the warning. The store owns the
 * text until uc_close(). Since version 4. */
const char *uc_store_warning(const uc_store *store);

/* Closes a uc_store, which no other thread may be using. The mapping remains until the last handle made from the
 * store is closed. */
int uc_close(uc_store *store);

/* ---- Strings ---------------------------------------------------------------------------------------------------- */

/*
 * Copies the string at a key into a buffer. *length is always the string's length, or 0 if the key does not exist.
 * UC_NONE: the key does not exist. UC_TOO_SMALL: *length exceeds `capacity`. In that case, enlarge the buffer and
 * call again in a loop, because other processes may change the value in the meantime. The contents of the buffer are
 * unspecified unless the result is UC_OK. No terminating zero is added. The buffer may be NULL if `capacity` is 0.
 * Makes no allocation and no system call. O(length).
 */
int uc_get(uc_store *store, const void *key, size_t key_length, void *buffer, size_t capacity, size_t *length);

/* Sets a key to a string that does not expire. O(length). */
int uc_set(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_length);

#define UC_SET_NX 1       /* only if the key does not exist */
#define UC_SET_XX 2       /* only if the key exists */
#define UC_SET_KEEPTTL 4  /* the key's expiry does not change */

/* Options for setting a string. Initialize them with UC_SET_OPTIONS_INIT. */
typedef struct uc_set_options {
    size_t size;           /* sizeof(uc_set_options) */
    uint64_t flags;        /* UC_SET_* */
    int64_t expire_ms;     /* time to live; 0 if not set */
    int64_t expire_at_ms;  /* expiry as a Unix time; 0 if not set */
} uc_set_options;

#define UC_SET_OPTIONS_INIT { sizeof(uc_set_options), 0, 0, 0 }

/* Like uc_set(), but with options, which may be NULL. UC_NONE: the condition was not met, and nothing was set. If
 * `old` is not NULL, it receives the key's previous string or nil, whether or not the key was set. The result is
 * then UC_OK or UC_WRONG_TYPE. */
int uc_set_with(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_length,
                const uc_set_options *options, uc_reply *old);

/* Adds to the integer at a key, which counts as 0 if the key does not exist. *sum receives the new value, and
 * `sum` may be NULL. UC_ERROR: the value is not an integer, or the sum overflows. */
int uc_incr(uc_store *store, const void *key, size_t key_length, int64_t by, int64_t *sum);

/* Reads the strings at several keys atomically, as an array with nil for each key without a string. O(total
 * length). */
int uc_mget(uc_store *store, size_t count, const uc_bytes *keys, uc_reply *reply);

/* Sets `count` keys to `count` values atomically. */
int uc_mset(uc_store *store, size_t count, const uc_bytes *keys, const uc_bytes *values);

/* ---- Keys ------------------------------------------------------------------------------------------------------- */

/* Removes keys atomically. *removed receives the number of keys that existed, and `removed` may be NULL. */
int uc_del(uc_store *store, size_t count, const uc_bytes *keys, uint64_t *removed);

/* Counts the keys that exist. *found receives the number of keys. A key that is given twice counts twice. `found`
 * may be NULL. */
int uc_exists(uc_store *store, size_t count, const uc_bytes *keys, uint64_t *found);

/* Sets a key's time to live; 0 or less removes the key. UC_NONE: the key does not exist. */
int uc_expire(uc_store *store, const void *key, size_t key_length, int64_t milliseconds);

/* Reads a key's remaining time to live into *milliseconds, or -1 if it does not expire. UC_NONE: the key does not
 * exist. */
int uc_ttl(uc_store *store, const void *key, size_t key_length, int64_t *milliseconds);

/* ---- Feeds ------------------------------------------------------------------------------------------------------ */

/*
 * A feed is a long list of values of one size. Each value has small integer attributes and a flag that hides it.
 * docs/feeds.md explains positions, filters and the cost of each call. In these calls, values are contiguous and have
 * `value_size` bytes each. Attributes are contiguous as well, `attribute_count` numbers for each value. If these
 * sizes do not match the feed's items, a call returns UC_MISUSE or UC_ERROR, states the expected and the actual
 * sizes, and changes nothing. The values of a sorted feed are also bytes of that size: numbers in machine format
 * (little-endian), and texts padded with zero bytes. If the key does not exist, calls that read find nothing, calls
 * that change items change none, and both return UC_OK, unless a function says otherwise. UC_WRONG_TYPE: the key has
 * a value of another type.
 */

/* Flags that determine which items a query selects and at which end it starts. */
#define UC_FEED_VISIBLE 0
#define UC_FEED_HIDDEN 1
#define UC_FEED_ALL 2
#define UC_FEED_REVERSE 4  /* start at the last item; positions count from there */

/*
 * Selects items. Initialize a query with UC_FEED_QUERY_INIT, which selects all visible items, as NULL does. In a
 * sorted feed, `low` and `high` limit the values. They are written as in FEED.BETWEEN: "5", "(5" to exclude 5, "-inf"
 * or "[ada". UC_ERROR: the feed lacks the attributes of the filter, the feed is not sorted, or a limit is not in this
 * format.
 */
typedef struct uc_feed_query {
    size_t size;           /* sizeof(uc_feed_query) */
    uint64_t flags;        /* UC_FEED_* */
    const void *filter;    /* conditions on attributes, such as "3::1" or "a0=3 a2=1" */
    size_t filter_length;  /* in bytes; 0: no filter */
    const void *low;       /* least value */
    size_t low_length;     /* in bytes; 0: no lower limit */
    const void *high;      /* greatest value; a length of 0: no upper limit */
    size_t high_length;
} uc_feed_query;

#define UC_FEED_QUERY_INIT { sizeof(uc_feed_query), UC_FEED_VISIBLE, NULL, 0, NULL, 0, NULL, 0 }

/*
 * Creates an empty feed with values of 1 to 255 bytes. `attributes` is the width of each attribute in bits, such as
 * "4:3:1", or NULL for none. `order` is "list" (the default for NULL), "queue", or the words after ORDER in
 * FEED.CREATE, separated by single spaces, such as "sorted TYPE int64 UNIQUE". UC_ERROR: the key exists, or an
 * argument is not allowed. O(1).
 */
int uc_feed_create(uc_store *store, const void *key, size_t key_length, size_t value_size, const char *attributes,
                   const char *order);

#define UC_FEED_BY_VALUE INT64_MIN  /*
                                     * insert each value at its sorted position; only for sorted
                                     * feeds
                                     */

/*
 * Inserts `count` contiguous values before the item at a position, which counts all items. 0 is the first position,
 * -1 is after the last item, and -2 is before the last item. A position past an end means that end. In a sorted feed,
 * use UC_FEED_BY_VALUE. `attributes` has count * attribute_count numbers, and NULL makes all of them 0. *items
 * receives the new number of items, and `items` may be NULL. UC_ERROR: the feed does not exist, or it does not accept
 * the items. The items are added atomically. O(log n + count).
 */
int uc_feed_add(uc_store *store, const void *key, size_t key_length, int64_t position, size_t count,
                const void *values, size_t value_size, const uint32_t *attributes, size_t attribute_count,
                uint64_t *items);

/*
 * Copies up to `count` values into a buffer of count * value_size bytes, and their attributes into a buffer of count
 * * attribute_count numbers. The position `from` counts the items that the query selects. If `attributes` is NULL,
 * `attribute_count` is ignored. *found receives the number of items. The contents of the buffers after the last item
 * are unspecified. Unless the result is UC_OK, all contents are unspecified. O(log n + count); with a filter up to
 * O(n).
 */
int uc_feed_range(uc_store *store, const void *key, size_t key_length, int64_t from, size_t count,
                  const uc_feed_query *query, void *values, size_t value_size, uint32_t *attributes,
                  size_t attribute_count, size_t *found);

/*
 * Like uc_feed_range(), for the items of a sorted feed whose values lie between `low` and `high`. The limits are
 * written as in FEED.BETWEEN: "5", "(5" to exclude 5, "-inf", "[ada", "-" and "+". `from` counts the items in that
 * range that the query selects. UC_ERROR: the feed is not sorted, or a limit is not in this format. O(log n + count);
 * with a filter up to O(n).
 */
int uc_feed_between(uc_store *store, const void *key, size_t key_length, const void *low, size_t low_length,
                    const void *high, size_t high_length, uint64_t from, size_t count, const uc_feed_query *query,
                    void *values, size_t value_size, uint32_t *attributes, size_t attribute_count, size_t *found);

/* Counts the items that a query selects. UC_FEED_REVERSE has no effect. O(log n); with a filter up to O(n). */
int uc_feed_count(uc_store *store, const void *key, size_t key_length, const uc_feed_query *query, uint64_t *count);

/* Finds the position of the first item with the given value, among the items that `flags` selects:
 * UC_FEED_VISIBLE, UC_FEED_HIDDEN or UC_FEED_ALL. UC_NONE: no selected item has the value. O(n). */
int uc_feed_position(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_size,
                     uint64_t flags, uint64_t *position);

/* Removes all items with the given values. *removed receives the number of removed items, and `removed` may be
 * NULL. O(n + count). */
int uc_feed_del(uc_store *store, const void *key, size_t key_length, size_t count, const void *values,
                size_t value_size, uint64_t *removed);

/* Removes the items that a query selects: only visible items, unless its flags say otherwise. The
 * query must not be NULL. *removed receives the number of items, and `removed` may be NULL. O(n).
 */
int uc_feed_del_where(uc_store *store, const void *key, size_t key_length, const uc_feed_query *query,
                      uint64_t *removed);

/* Hides all items with the given values. *hidden receives the number of items that were visible, and `hidden` may
 * be NULL. O(n + count). */
int uc_feed_hide(uc_store *store, const void *key, size_t key_length, size_t count, const void *values,
                 size_t value_size, uint64_t *hidden);

/* Makes all items with the given values visible. *shown receives the number of items that were hidden, and `shown`
 * may be NULL. O(n + count). */
int uc_feed_show(uc_store *store, const void *key, size_t key_length, size_t count, const void *values,
                 size_t value_size, uint64_t *shown);

/* Moves the first item with the given value to a position, which counts all other items. UC_NONE: no item has the
 * value. O(n). */
int uc_feed_move(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_size,
                 int64_t position);

#define UC_FEED_KEEP (-1)  /* leave the attribute unchanged */

/* Sets the attributes of all items with the given value. *items receives the number of these items, and `items`
 * may be NULL. O(n). */
int uc_feed_set_attributes(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_size,
                           const int64_t *attributes, size_t attribute_count, uint64_t *items);

#define UC_FEED_LEFT 0
#define UC_FEED_RIGHT 1

/* Removes up to `count` visible items from one end, UC_FEED_LEFT or UC_FEED_RIGHT, and copies their values into a
 * buffer of count * value_size bytes, starting with the item at that end. *found receives the number of removed
 * items. UC_NONE: the feed has no visible items. O(log n + count). */
int uc_feed_pop(uc_store *store, const void *key, size_t key_length, int end, size_t count, void *values,
                size_t value_size, size_t *found);

/* The properties of a feed. Initialize the structure with UC_FEED_INFO_INIT. */
typedef struct uc_feed_info_reply {
    size_t size;                 /* sizeof(uc_feed_info_reply) */
    uint64_t items;              /* visible and hidden items */
    uint64_t visible;
    uint64_t hidden;
    uint64_t leaves;             /* leaf nodes of the tree */
    uint64_t nodes;              /* inner nodes of the tree */
    uint64_t bytes;              /* memory in bytes */
    uint64_t fill_percent;       /* how full the leaves are, in percent */
    uint32_t value_size;         /* size of a value in bytes */
    uint32_t attribute_count;    /* number of attributes, 0 to 16 */
    uint8_t attribute_bits[16];  /* width of each attribute in bits; unused elements are 0 */
    char order[16];              /* null-terminated name of the order, such as "list" */
    char value_type[16];         /*
                                  * the values' type in a sorted feed, such as "int64"; otherwise
                                  * empty
                                  */
    uint32_t unique;             /* 1: no two items have the same value */
    uint32_t indexed;            /* 1: an index speeds up searches by value */
} uc_feed_info_reply;

#define UC_FEED_INFO_INIT { sizeof(uc_feed_info_reply), 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 }, { 0 }, { 0 }, 0, 0 }

/* Writes the properties of a feed to *info. UC_NONE: the key does not exist. O(number of inner nodes), which is
 * small. */
int uc_feed_info(uc_store *store, const void *key, size_t key_length, uc_feed_info_reply *info);

/* Rewrites the items into as little memory as possible. UC_NONE: the key does not exist. O(n). */
int uc_feed_compact(uc_store *store, const void *key, size_t key_length);

/* ---- Commands --------------------------------------------------------------------------------------------------- */

/* Opens a session, which has the same state as a connection to a server: the database selected with SELECT, the
 * commands queued since MULTI, and the watched keys. A session starts with the store's database and keeps the
 * store open. Close *session with uc_session_close(). It is NULL after a failure. */
int uc_session_open(uc_store *store, uc_session **session);

/* Closes a session and discards its unfinished transaction. */
int uc_session_close(uc_session *session);

/*
 * Runs any Redis command that docs/commands.md lists. The first word is its name, as in { "LPUSH", "queue", "job" }.
 * The reply has the types of RESP3, or of RESP2 after HELLO 2. If the reply is an error, the call fails with a
 * matching status (UC_WRONG_TYPE, UC_FULL, UC_ERROR, ...), the message is the error's text, and the reply is that
 * error. A blocking command (BLPOP, WAIT) blocks this call, and its reply is nil with UC_OK if it times out.
 * SUBSCRIBE and related commands fail; use uc_subscription_open() instead.
 */
int uc_command(uc_session *session, size_t count, const uc_bytes *words, uc_reply *reply);

/* The words of one command in a pipeline or transaction. */
typedef struct uc_words {
    size_t count;
    const uc_bytes *words;
} uc_words;

/*
 * Runs commands one after the other. The reply is the array of their replies. An error reply does not stop the
 * pipeline: the array contains the error, and the result is UC_OK. If a command cannot run at all (UC_BUSY,
 * UC_INTERRUPTED, UC_MISUSE), the call fails, and the array contains the replies of the preceding commands, which did
 * run. In a store with durability "always", the call waits once, for all its changes.
 */
int uc_pipeline(uc_session *session, size_t count, const uc_words *commands, uc_reply *reply);

/*
 * Runs commands as one transaction, as if sent between MULTI and EXEC. The transaction is atomic, even if this
 * process dies. The reply is the array of the commands' replies. UC_NONE: a key that the session watches (WATCH
 * through uc_command()) was changed, so the transaction did nothing and the reply is nil. If a command cannot be
 * queued (unknown command, wrong number of words), the call fails with its error and does nothing. Afterward the
 * session watches no keys, unless the result is UC_MISUSE, for example in a session after MULTI.
 */
int uc_transaction(uc_session *session, size_t count, const uc_words *commands, uc_reply *reply);

/*
 * For bindings to languages whose signal handlers may throw between a call and the delivery of its result. After
 * UC_TAKEN_KEEP, the session records the items that its last uc_command(), uc_pipeline() or uc_transaction() removed
 * from the store and returned (LPOP, SPOP, GETDEL, ...). It does not record the items that a script removed.
 */
#define UC_TAKEN_KEEP 0
/* Sets aside the record of the items that the last call removed, so that a signal handler may use the session.
 * Follow it with UC_TAKEN_RESUME or UC_TAKEN_GIVE_BACK. */
#define UC_TAKEN_HOLD 1
/* Restores the record that UC_TAKEN_HOLD set aside, because the result will still be delivered. */
#define UC_TAKEN_RESUME 2
/* Puts back the items that the call removed, because its result will not be delivered. UC_ERROR: the items could
 * not be put back. */
#define UC_TAKEN_GIVE_BACK 3
int uc_taken(uc_session *session, int what);

/* ---- Replies ---------------------------------------------------------------------------------------------------- */

/* Creates a reply, which is nil until a call fills it. A reply retains the memory of its largest contents, so
 * reusing a reply avoids allocations. Free *reply with uc_reply_free(). */
int uc_reply_new(uc_reply **reply);

/* Frees a reply with all its values. */
int uc_reply_free(uc_reply *reply);

/* The type of a value in a reply. */
typedef enum uc_type {
    UC_TYPE_NIL = 0,
    UC_TYPE_STATUS = 1,   /* text, such as OK */
    UC_TYPE_STRING = 2,
    UC_TYPE_INTEGER = 3,
    UC_TYPE_DOUBLE = 4,
    UC_TYPE_BOOLEAN = 5,
    UC_TYPE_ERROR = 6,    /* text that begins with its code */
    UC_TYPE_ARRAY = 7,
    UC_TYPE_MAP = 8,
    UC_TYPE_SET = 9
} uc_type;

/* Returns the outermost value of a reply. The reply owns this value and all values within it. They are valid until
 * the reply is passed to another call. Until then, any number of threads may read them. Returns NULL for a reply
 * that cannot be used. */
const uc_value *uc_reply_value(const uc_reply *reply);

/* The functions below accept any value, including NULL, which is nil, and return a result for every type. Several
 * threads may read a value at the same time. */

/* Returns the value's uc_type. */
int uc_value_type(const uc_value *value);

/* Returns the null-terminated bytes of a string, a status or an error, or NULL for other types. `length` may be
 * NULL. */
const char *uc_value_string(const uc_value *value, size_t *length);

/* Returns an integer, or 1 for a true boolean. Returns 0 for other types. */
int64_t uc_value_integer(const uc_value *value);

/* Returns a double, or an integer as a double. Returns 0 for other types. */
double uc_value_double(const uc_value *value);

/* Returns the number of items in an array or a set, pairs in a map, or bytes in a text. Returns 0 for other types. */
size_t uc_value_length(const uc_value *value);

/* Returns an item in an array or a set, or a value in a map. Indexes start at 0. Returns NULL past the end. O(1). */
const uc_value *uc_value_item(const uc_value *value, size_t index);

/* Returns a key in a map, or NULL past the end. O(1). */
const uc_value *uc_value_key(const uc_value *value, size_t index);

/* ---- Messages --------------------------------------------------------------------------------------------------- */

/* Publishes a message to the subscribers of a channel, in all processes and over sockets. *receivers is set to the
 * number of subscribers, and `receivers` may be NULL. */
int uc_publish(uc_store *store, const void *channel, size_t channel_length, const void *message, size_t message_length,
               uint64_t *receivers);

/* The kind of a subscription, which determines whether its names are channels, patterns or shard channels. */
typedef enum uc_topic {
    UC_CHANNEL = 0,
    UC_PATTERN = 1,  /* channels that match, as in "news.*" */
    UC_SHARD = 2     /* shard channels */
} uc_topic;

/* Opens a receiver of messages, which keeps the store open. Close *subscription with uc_subscription_close(). It
 * is NULL after a failure. A process can have up to 512 receivers. */
int uc_subscription_open(uc_store *store, uc_subscription **subscription);

/* Closes a receiver and ends its subscriptions. */
int uc_subscription_close(uc_subscription *subscription);

/* Subscribes to all of the names, or to none if the call fails. Messages published after the call returns are
 * received. Existing subscriptions to these names are kept. `topic` is a uc_topic. */
int uc_subscribe(uc_subscription *subscription, int topic, size_t count, const uc_bytes *names);

/* Ends subscriptions. Names without a subscription are ignored. Messages that have not been received yet are
 * discarded. */
int uc_unsubscribe(uc_subscription *subscription, int topic, size_t count, const uc_bytes *names);

/*
 * Receives the next message, waiting up to `timeout_ms`: not at all if 0, and forever if negative. UC_NONE: no
 * message arrived. The reply is an array of strings: "message", channel, text; "smessage", channel, text; or
 * "pmessage", pattern, channel, text. If the receiver lagged so far that messages were overwritten, the reply is the
 * array "lost", nil, number of lost messages. The receiver then continues with the newest messages.
 */
int uc_subscription_next(uc_subscription *subscription, int64_t timeout_ms, uc_reply *message);

/* Gets a descriptor that becomes readable when a message may have arrived, for poll(), epoll and event loops. When
 * it is readable, call uc_subscription_next() with a timeout of 0 until it returns UC_NONE. The library owns the
 * descriptor: do not read, write or close it. It is closed with the subscription and changes after a fork. */
int uc_subscription_descriptor(uc_subscription *subscription, int *descriptor);

/* Gets the number of messages that were overwritten before they were received, since the receiver was opened. */
int uc_subscription_lost(uc_subscription *subscription, uint64_t *lost);

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

/*
 * Objects are bytes and arrays that processes exchange by id. An id can be passed through any queue. Python's
 * undercroft.Objects, Rust and PHP use the same objects. A uc_object is read in place in shared memory. Its contents
 * do not change and remain valid until uc_object_close() or the end of the process, even if its key is deleted. A
 * process can read up to 126 objects from uc_object_get() in place at the same time. Further objects, and objects
 * shorter than 32 KiB, are copied. In a forked child, an object that the parent opened is empty.
 */

/* The size of a buffer for an id and its terminating zero. */
#define UC_OBJECT_ID 80

/* Stores bytes for `ttl_ms`, or forever if that is 0. The object's id is written as text to `id`, which must have
 * room for UC_OBJECT_ID bytes. UC_FULL: the store has no room. UC_ERROR: the bytes are longer than 512 MiB.
 * O(length), with a single copy. */
int uc_object_put(uc_store *store, const void *data, size_t length, int64_t ttl_ms, char *id);

/* Stores an array in C order, given its numpy type such as "<f8", the length of each dimension, and the bytes of
 * its items. The other arguments and the results are the same as for uc_object_put(). */
int uc_object_put_array(uc_store *store, const char *dtype, size_t dimensions, const uint64_t *shape, const void *items,
                        size_t length, int64_t ttl_ms, char *id);

/* Gets the object with the given id. Close *object with uc_object_close(). It is NULL unless the result is UC_OK.
 * UC_NONE: no object has this id. UC_WRONG_TYPE: the key "object:" + id has a value that is not an object. O(1)
 * for objects of 32 KiB or more. */
int uc_object_get(uc_store *store, const void *id, size_t id_length, uc_object **object);

/* Gets an object like uc_object_get() and deletes it. If several callers take the same object, only one of them
 * gets it. A value that is not an object is left unchanged. */
int uc_object_take(uc_store *store, const void *id, size_t id_length, uc_object **object);

/* Deletes an object. UC_NONE: no object has this id. Programs that are reading the object are not affected. */
int uc_object_del(uc_store *store, const void *id, size_t id_length);

/* Closes an object. Its memory is freed if its key was deleted and no other reader has it open. */
int uc_object_close(uc_object *object);

/* Returns an object's bytes, which are aligned to 8 bytes and must not be modified. *length receives the number of
 * bytes, and `length` may be NULL. */
const void *uc_object_data(const uc_object *object, size_t *length);

/* Returns the kind of an object: 'b' for bytes, 'a' for an array, 's' for text in UTF-8, whose bytes are not
 * aligned, or the letter of another kind that Python stores. For such a kind, uc_object_data() returns everything
 * after the object's description. A negative result is a uc_status. */
int uc_object_kind(const uc_object *object);

/* Gets an array's type and the length of each dimension. Each result pointer may be NULL. The object owns the
 * results until it is closed. UC_NONE: the object is not an array, or it is an array of records. */
int uc_object_array(const uc_object *object, const char **dtype, size_t *dimensions, const uint64_t **shape);

/* ---- Channels --------------------------------------------------------------------------------------------------- */

/* Channels are bounded queues of messages between processes. Python's undercroft.Channel, Rust and PHP use the
 * same channels (docs/channels.md). Messages are bytes, text and arrays. Messages of 32 KiB or more are stored
 * once and read in place. */

/*
 * Opens the channel with the given name in the store's database, and keeps the store open. The first message creates
 * the channel. uc_channel_send() waits while the channel has `bound` messages or more; 0 means no bound. A message of
 * 32 KiB or more that no process receives within `ttl_ms` is dropped, unless that is 0. Close *channel with
 * uc_channel_close(). It is NULL after a failure.
 */
int uc_channel_open(uc_store *store, const void *name, size_t name_length, uint64_t bound, int64_t ttl_ms,
                    uc_channel **channel);

/* Closes a handle. The channel and its messages remain; see uc_channel_close_for_all(). */
int uc_channel_close(uc_channel *channel);

/* Sends bytes, waiting up to `timeout_ms` while the channel is full: not at all if 0, and forever if negative.
 * UC_NONE: the channel is still full. UC_CLOSED: the channel is closed. UC_FULL: the store has no room. O(length),
 * with a single copy. */
int uc_channel_send(uc_channel *channel, const void *data, size_t length, int64_t timeout_ms);

/* Sends a text in UTF-8, like uc_channel_send(). UC_MISUSE: it is not UTF-8. */
int uc_channel_send_text(uc_channel *channel, const void *text, size_t length, int64_t timeout_ms);

/* Sends an array in C order, like uc_channel_send(). The arguments are those of uc_object_put_array(). */
int uc_channel_send_array(uc_channel *channel, const char *dtype, size_t dimensions, const uint64_t *shape,
                          const void *items, size_t length, int64_t timeout_ms);

/*
 * Removes the first message, waiting for it as uc_channel_send() waits for room. Read *message with uc_object_kind(),
 * uc_object_data() and uc_object_array(), and close it with uc_object_close(). It is NULL unless the result is UC_OK.
 * UC_NONE: no message arrived. UC_CLOSED: the channel is closed and empty. UC_WRONG_TYPE: the first message is a
 * pickle, which only Python reads, and stays. If this process dies, the message is lost. O(1) from 32 KiB on.
 */
int uc_channel_receive(uc_channel *channel, int64_t timeout_ms, uc_object **message);

/* Receives the first message like uc_channel_receive(), and holds it until uc_channel_ack() or
 * uc_channel_release(). uc_object_close() releases it as well. If this process dies, the message returns to the
 * front of the channel, and another process receives it. */
int uc_channel_hold(uc_channel *channel, int64_t timeout_ms, uc_object **message);

/* Deletes a message that this process holds, and closes it. UC_NONE: it was no longer held, because the channel
 * was deleted. UC_MISUSE: it is not a held message, or the parent of this process received it. A held message is
 * closed after a failure, too, and then returns to the channel when the process that received it ends. */
int uc_channel_ack(uc_object *message);

/* Returns a message that this process holds to the front of its channel, and closes it. The results are those of
 * uc_channel_ack(). */
int uc_channel_release(uc_object *message);

/* Gets the number of messages, without held ones. O(1). */
int uc_channel_length(uc_channel *channel, uint64_t *messages);

/* Closes the channel for all processes: sends return UC_CLOSED, also those that wait, and receivers get the
 * remaining messages and then UC_CLOSED. The handle stays open. */
int uc_channel_close_for_all(uc_channel *channel);

/* Sets *is_closed to 1 if the channel is closed, and otherwise to 0. */
int uc_channel_is_closed(uc_channel *channel, int *is_closed);

/* Deletes all messages, including held ones. The name then refers to a new, open channel. O(messages). */
int uc_channel_del(uc_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
