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
 * What holds of every function:
 *
 * Results     A function returns a uc_status: UC_OK, another number from 0 on that is no failure, or a negative one.
 *             After a failure uc_error_message() says what happened. Unless a function says otherwise, a call that
 *             failed has changed nothing.
 * Arguments   Keys and values are bytes with a length; they may hold zeros. NULL with the length 0 is the empty string.
 *             NULL where something is needed, a length that memory cannot have, and a handle of another kind are
 *             answered with UC_MISUSE. What a call is given stays the caller's and is not looked at after it returned.
 *             A buffer that is filled must not overlap what is read.
 * Handles     uc_store, uc_session, uc_reply, uc_subscription and uc_object are made by a call and ended by another. To end NULL
 *             is no failure. A call with a handle that was ended answers UC_MISUSE; a program should not rely on it,
 *             as the memory serves another handle of that kind once 64 more were ended.
 * Threads     All threads may use a uc_store or a uc_object at once, and end it when none of them does. Each of the other handles
 *             belongs to one thread at a time; a second one that comes meanwhile gets UC_MISUSE. A signal's handler may
 *             call nothing but uc_abi_version(), uc_version() and uc_status_name().
 * Fork        A child may use every handle that it inherited, at once and beside its parent, except one that another
 *             thread was using when it was forked. What it inherited in a uc_session (a transaction, watched keys) and
 *             in a uc_subscription is a copy of its own; messages that were not taken at the fork, and those that come
 *             before the child's first call with it, are its parent's: that call tells of them as lost.
 * Death       A process may be killed at any instruction. Others roll back what it had not finished, and go on.
 * Time        Durations are milliseconds, moments are milliseconds since 1970 (Unix time).
 * Waiting     A call waits where another process holds a lock (up to uc_options.timeout_ms), or where a command is for
 *             waiting (BLPOP, uc_subscription_next()). uc_set_interrupt() can end such a wait, and a script that has
 *             changed nothing yet.
 * C++         The header is C11 and C++17. Nothing is thrown.
 * Memory      Where the process has no memory for a value that it reads, or for its reply, a call ends with UC_ERROR; a
 *             reply that was refused so is nil. What the command changed stays.
 * Stability   A program built with this header runs with every library of the same UC_ABI_VERSION >> 16 and at least
 *             its lower half. Only opaque handles and structures that begin with their size cross the border.
 *
 * Caveats, each with its cause and its remedy:
 *
 * "memory allocation of N bytes failed", and the process aborts: an allocation failed for which no error could be
 *             returned, in the midst of a command that sorts, combines or dumps, say. The remedy is memory: a limit
 *             (ulimit -v, RLIMIT_AS) that leaves four times the longest reply free, or replies in parts (HSCAN, LRANGE
 *             by ranges).
 * A handle stays in use for ever (UC_MISUSE): a signal's handler left a call with siglongjmp(), or the thread was
 *             cancelled in it (pthread_cancel). The call's frames were not unwound. After a call that writes, the lock is
 *             held as well: all processes wait, in this one without regard to timeout_ms, until it ends. The remedy: set a
 *             flag in the handler, and give uc_set_interrupt() a function that looks at it.
 * SIGSEGV in a thread's first call: its stack is too small. Calls need 64 KiB of it, scripts and their functions 256 KiB.
 * "fatal runtime error", and the process aborts: the function given to uc_set_interrupt() threw a C++ exception, which
 *             cannot pass the library. The remedy: catch all of them in it, and return nonzero.
 */
#ifndef UNDERCROFT_H
#define UNDERCROFT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. The upper 16 bits change, with the name of the shared library, when a program must be
 * built anew; the lower ones when something is added. */
#define UC_ABI_VERSION 5

/* The UC_ABI_VERSION of the library that runs. */
uint32_t uc_abi_version(void);

/* The version of Undercroft that runs, such as "0.1.0". Never freed. */
const char *uc_version(void);

/* ---- Results ---------------------------------------------------------------------------------------------------- */

/* How a call ended. */
typedef enum uc_status {
    UC_OK = 0,
    /* Nothing is there: no such key, a condition was not met, the time is up. No failure. */
    UC_NONE = 1,
    /* The value is longer than the buffer. No failure. */
    UC_TOO_SMALL = 2,

    /* The command answered an error; the message is Redis' own, its code in front. */
    UC_ERROR = -1,
    /* The call itself is wrong: NULL, a handle that was ended, options that exclude each other. */
    UC_MISUSE = -2,
    /* The key holds a value of another type. */
    UC_WRONG_TYPE = -3,
    /* The store is full: its maxmemory, or its file system. */
    UC_FULL = -4,
    /* Another process holds a lock for longer than timeout_ms. The message says which, and whether it is stopped. */
    UC_BUSY = -5,
    /* The function given to uc_set_interrupt() ended the wait. */
    UC_INTERRUPTED = -6,
    /* The store can only be read. */
    UC_READ_ONLY = -7,
    /* The store's file was removed or replaced, and this call belongs to that store: a wait, a subscription, a session in
     * a transaction or with watched keys. Other calls go on in the store that the name means now, unless the URL ends with
     * "?on_removed=error": then open it anew. */
    UC_REMOVED = -8,
    /* The store can be neither opened nor created; the message says why. */
    UC_CANNOT_OPEN = -9,
    /* A bug in Undercroft. The handle that was used can only be ended. Please report the message. */
    UC_INTERNAL = -10
} uc_status;

/* What the last call of this thread that failed has to say; "" where none did. The text is the library's, and stays
 * until the next call of this thread. (In languages whose tasks change threads, ask in the same task and thread: in Go
 * between runtime.LockOSThread and UnlockOSThread.) */
const char *uc_error_message(void);

/* The name of a status, such as "UC_BUSY". Never freed. */
const char *uc_status_name(int status);

/* Asked while a call waits: returns nonzero to end it. May be called by any thread that waits, by several at once. It
 * may use the library, but not the handle that waits, and nothing of it while the call runs a script. */
typedef int uc_interrupt(void *data);

/* Has every wait of this process ask `check`, at least ten times a second and at once after a signal that did not
 * restart the system call (sigaction without SA_RESTART), and every script that has written nothing yet more often. A
 * nonzero answer ends it with UC_INTERRUPTED; nothing was changed. NULL asks nobody. `data` must stay valid while calls
 * may wait. Meant to be set once, at the start. */
int uc_set_interrupt(uc_interrupt *check, void *data);

/* ---- Bytes ------------------------------------------------------------------------------------------------------ */

/* Bytes of the caller's. */
typedef struct uc_bytes {
    const void *data;
    size_t length;
} uc_bytes;

/* The bytes of a string that ends with a zero, which is not among them. */
static inline uc_bytes uc_text(const char *text)
{
    uc_bytes bytes;
    bytes.data = text;
    bytes.length = strlen(text);
    return bytes;
}

/* So many bytes. */
static inline uc_bytes uc_data(const void *data, size_t length)
{
    uc_bytes bytes;
    bytes.data = data;
    bytes.length = length;
    return bytes;
}

/* ---- Stores ----------------------------------------------------------------------------------------------------- */

/* An open store, and a database of it. */
typedef struct uc_store uc_store;

/* The words and replies of commands, see below. */
typedef struct uc_session uc_session;
typedef struct uc_reply uc_reply;
typedef struct uc_value uc_value;
typedef struct uc_subscription uc_subscription;
typedef struct uc_object uc_object;

/* No limit, for uc_options.max_memory. */
#define UC_UNLIMITED UINT64_MAX

/* How to open a store. Begin with UC_OPTIONS_INIT; zero is the default of each. The limits are for the store's
 * creation; an existing store keeps its own, and uc_store_warning() names both where they differ. With `strict`, or
 * another capacity, it is not opened (UC_MISUSE, with both in the message). */
typedef struct uc_options {
    size_t size;          /* sizeof(uc_options) */
    uint64_t capacity;    /* address space for the data, in bytes; default 64 GiB or the file system's size */
    uint64_t max_memory;  /* limit on the data, in bytes; default 1 GiB; UC_UNLIMITED is none */
    const char *policy;   /* which keys make room then: "noeviction" (default), "allkeys-lru" and their like */
    uint64_t timeout_ms;  /* how long a call waits for another process' lock; default 5000; for the whole process.
                           * With less than 200 the first calls after a death may end with UC_BUSY */
    uint64_t database;    /* 0 to 15 */
    uint64_t strict;      /* 1: do not open an existing store whose max_memory or policy differ; since version 4 */
} uc_options;

#define UC_OPTIONS_INIT { sizeof(uc_options), 0, 0, NULL, 0, 0, 0 }

/* Opens a store, which is created where there is none: "undercroft://name" lies in the user's directory in /dev/shm,
 * with "undercroft://name/1" of its database 1; "undercroft:///path" and a path with a '/' in it are that file. A word
 * without either is UC_MISUSE. A URL may end with "?on_removed=error", see UC_REMOVED. `options` may be NULL. *store is for
 * uc_close(), and NULL where this fails: UC_MISUSE for a wrong name or option, UC_CANNOT_OPEN.
 * A process has one mapping of a file, however often it is opened; so open it once more for another database. */
int uc_open(const char *url, const uc_options *options, uc_store **store);

/* A line about limits of an existing store that differ from uc_options, and how to change them; NULL where there are
 * none, or where this process was told before. The store's, until uc_close(). Since version 4. */
const char *uc_store_warning(const uc_store *store);

/* Ends a uc_store. No other thread may be using it. The mapping goes with the last handle that was made from it. */
int uc_close(uc_store *store);

/* ---- Strings ---------------------------------------------------------------------------------------------------- */

/* Copies the string that a key holds into a buffer. *length is its length in any case (0 where there is none).
 * UC_NONE: there is no such key. UC_TOO_SMALL: *length is more than `capacity`; make room and call again, in a loop, as
 * others may change it meanwhile. What is in the buffer without UC_OK is unspecified. No zero is put behind the value.
 * The buffer may be NULL where `capacity` is 0. Makes no allocation and no system call. O(length). */
int uc_get(uc_store *store, const void *key, size_t key_length, void *buffer, size_t capacity, size_t *length);

/* Sets a key to a string that does not expire. O(length). */
int uc_set(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_length);

#define UC_SET_NX 1       /* only where the key is not there */
#define UC_SET_XX 2       /* only where it is */
#define UC_SET_KEEPTTL 4  /* the key keeps its expiry */

/* How to set a string. Begin with UC_SET_OPTIONS_INIT. */
typedef struct uc_set_options {
    size_t size;           /* sizeof(uc_set_options) */
    uint64_t flags;        /* UC_SET_* */
    int64_t expire_ms;     /* expires so long from now; 0: not given */
    int64_t expire_at_ms;  /* expires at this moment; 0: not given */
} uc_set_options;

#define UC_SET_OPTIONS_INIT { sizeof(uc_set_options), 0, 0, 0 }

/* uc_set() with options; NULL is none. UC_NONE: the condition was not met, and nothing was set.
 * Where `old` is not NULL it becomes the string that the key held before, or nil, whether it was set or not: the answer
 * is UC_OK then, or UC_WRONG_TYPE. */
int uc_set_with(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_length,
                const uc_set_options *options, uc_reply *old);

/* Adds to the integer that a key holds, 0 where there is no such key. *sum, which may be NULL, is what it holds then.
 * UC_ERROR: it holds no integer, or the sum would not fit. */
int uc_incr(uc_store *store, const void *key, size_t key_length, int64_t by, int64_t *sum);

/* The strings that keys hold, all at one moment: an array with nil for each key that holds none. O(their lengths). */
int uc_mget(uc_store *store, size_t count, const uc_bytes *keys, uc_reply *reply);

/* Sets as many keys as there are values, all at one moment. */
int uc_mset(uc_store *store, size_t count, const uc_bytes *keys, const uc_bytes *values);

/* ---- Keys ------------------------------------------------------------------------------------------------------- */

/* Removes keys, all at one moment. *removed, which may be NULL, is how many were there. */
int uc_del(uc_store *store, size_t count, const uc_bytes *keys, uint64_t *removed);

/* *found, which may be NULL, is how many of the keys are there, each counted as often as it is named. */
int uc_exists(uc_store *store, size_t count, const uc_bytes *keys, uint64_t *found);

/* Lets a key expire so long from now; 0 or less removes it. UC_NONE: there is no such key. */
int uc_expire(uc_store *store, const void *key, size_t key_length, int64_t milliseconds);

/* *milliseconds is the time until a key expires, -1 where it does not. UC_NONE: there is no such key. */
int uc_ttl(uc_store *store, const void *key, size_t key_length, int64_t *milliseconds);

/* ---- Feeds ------------------------------------------------------------------------------------------------------ */

/* A feed is a long list of values of one size, each with attributes of some bits and a mark that hides it; docs/feeds.md
 * says what positions and filters are, and what each call costs. Here values lie one behind the other, `value_size`
 * bytes each, without anything between them, and attributes likewise: `attribute_count` numbers for each value. Where
 * these are not the sizes of the feed's own items a call is UC_MISUSE or UC_ERROR, says what was expected and what came,
 * and changes nothing. In a sorted feed, too, values are bytes of its size: numbers as the machine has them (little-endian),
 * texts with zero bytes behind them up to that size. Where there is no such key, what reads finds nothing and what changes items changes none, with
 * UC_OK, unless a function says otherwise. UC_WRONG_TYPE: the key holds something else. */

/* Which items are seen, and from which end. */
#define UC_FEED_VISIBLE 0
#define UC_FEED_HIDDEN 1
#define UC_FEED_ALL 2
#define UC_FEED_REVERSE 4  /* from the last one on backwards; positions are counted from there as well */

/* Which items are meant. Begin with UC_FEED_QUERY_INIT: all visible ones. NULL means the same. */
typedef struct uc_feed_query {
    size_t size;           /* sizeof(uc_feed_query) */
    uint64_t flags;        /* UC_FEED_* */
    const void *filter;    /* such as "3::1" or "a0=3 a2=1"; UC_ERROR where the feed has no such attributes */
    size_t filter_length;  /* in bytes; 0 is no filter */
    const void *low;       /* in a sorted feed the least value that is meant, and the greatest: words as FEED.BETWEEN takes */
    size_t low_length;     /* them, "5", "(5" for what is beyond it, "-inf", "[ada"; 0 is no such limit. UC_ERROR: the */
    const void *high;      /* feed is not sorted, or these are no such words */
    size_t high_length;
} uc_feed_query;

#define UC_FEED_QUERY_INIT { sizeof(uc_feed_query), UC_FEED_VISIBLE, NULL, 0, NULL, 0, NULL, 0 }

/* Makes a feed without items: values of 1 to 255 bytes; attributes by their bits, as "4:3:1", NULL for none; the order
 * "list" (which NULL is, too), "queue", or what FEED.CREATE takes behind ORDER, its words parted by single spaces, such as
 * "sorted TYPE int64 UNIQUE".
 * UC_ERROR: there is a key already, or it cannot be made so. O(1). */
int uc_feed_create(uc_store *store, const void *key, size_t key_length, size_t value_size, const char *attributes,
                   const char *order);

#define UC_FEED_BY_VALUE INT64_MIN  /* where the values say: the position in sorted feeds, and in no others */

/* Puts `count` values, one behind the other, before the item at a position, which counts all items: 0 is the first, -1
 * behind the last, -2 before the last, past an end is at that end; UC_FEED_BY_VALUE in a sorted feed. `attributes` holds count * attribute_count numbers;
 * NULL makes all of them 0. *items, which may be NULL, is how many the feed has then.
 * UC_ERROR: there is no such feed, or it cannot take them. All at one moment, or none. O(log n + count). */
int uc_feed_add(uc_store *store, const void *key, size_t key_length, int64_t position, size_t count,
                const void *values, size_t value_size, const uint32_t *attributes, size_t attribute_count,
                uint64_t *items);

/* Copies up to `count` values from a position on, which counts the items that the query sees, into a buffer of count *
 * value_size bytes, and their attributes into one of count * attribute_count numbers; `attributes` may be NULL, and
 * `attribute_count` is not looked at then. *found is how many there are; what lies behind them in the buffers, and
 * what is in them without UC_OK, is unspecified. O(log n + count); with a filter up to O(n). */
int uc_feed_range(uc_store *store, const void *key, size_t key_length, int64_t from, size_t count,
                  const uc_feed_query *query, void *values, size_t value_size, uint32_t *attributes,
                  size_t attribute_count, size_t *found);

/* The same of the items of a sorted feed whose values lie from `low` to `high`, which are words as FEED.BETWEEN takes them:
 * "5", "(5" for what is beyond it, "-inf", "[ada", "-" and "+". `from` counts the items of these that the query sees.
 * UC_ERROR: the feed is not sorted, or these are no such words. O(log n + count); with a filter up to O(n). */
int uc_feed_between(uc_store *store, const void *key, size_t key_length, const void *low, size_t low_length,
                    const void *high, size_t high_length, uint64_t from, size_t count, const uc_feed_query *query,
                    void *values, size_t value_size, uint32_t *attributes, size_t attribute_count, size_t *found);

/* *count is how many items the query sees; UC_FEED_REVERSE means nothing. O(log n); with a filter up to O(n). */
int uc_feed_count(uc_store *store, const void *key, size_t key_length, const uc_feed_query *query, uint64_t *count);

/* *position is that of the first item with a value, among those that `flags` (UC_FEED_VISIBLE, _HIDDEN or _ALL) let be
 * seen. UC_NONE: there is none, or it is not seen. O(n). */
int uc_feed_position(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_size,
                     uint64_t flags, uint64_t *position);

/* Removes all items with some values. *removed, which may be NULL, is how many that were. O(n + count). */
int uc_feed_del(uc_store *store, const void *key, size_t key_length, size_t count, const void *values,
                size_t value_size, uint64_t *removed);

/* Removes what a query sees, which must not be NULL: of what is visible, unless its flags say otherwise. *removed, which
 * may be NULL, is how many items that were. O(n). */
int uc_feed_del_where(uc_store *store, const void *key, size_t key_length, const uc_feed_query *query,
                      uint64_t *removed);

/* Hides all items with some values. *hidden, which may be NULL, is how many of them were visible. O(n + count). */
int uc_feed_hide(uc_store *store, const void *key, size_t key_length, size_t count, const void *values,
                 size_t value_size, uint64_t *hidden);

/* Lets them be visible again. *shown, which may be NULL, is how many of them were hidden. O(n + count). */
int uc_feed_show(uc_store *store, const void *key, size_t key_length, size_t count, const void *values,
                 size_t value_size, uint64_t *shown);

/* Moves the first item with a value to a position among all others. UC_NONE: there is none. O(n). */
int uc_feed_move(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_size,
                 int64_t position);

#define UC_FEED_KEEP (-1)  /* the attribute stays as it is */

/* Sets the attributes of all items with a value. *items, which may be NULL, is how many there are. O(n). */
int uc_feed_set_attributes(uc_store *store, const void *key, size_t key_length, const void *value, size_t value_size,
                           const int64_t *attributes, size_t attribute_count, uint64_t *items);

#define UC_FEED_LEFT 0
#define UC_FEED_RIGHT 1

/* Takes up to `count` visible items from an end, UC_FEED_LEFT or UC_FEED_RIGHT, into a buffer of count * value_size
 * bytes, the one at that end first. *found is how many there were. UC_NONE: there was none. O(log n + count). */
int uc_feed_pop(uc_store *store, const void *key, size_t key_length, int end, size_t count, void *values,
                size_t value_size, size_t *found);

/* What a feed is, and what it takes. Begin with UC_FEED_INFO_INIT. */
typedef struct uc_feed_facts {
    size_t size;                 /* sizeof(uc_feed_facts) */
    uint64_t items;              /* visible and hidden */
    uint64_t visible;
    uint64_t hidden;
    uint64_t leaves;             /* of its tree */
    uint64_t nodes;              /* inner ones */
    uint64_t bytes;              /* of memory */
    uint64_t fill_percent;       /* how much of the leaves is in use */
    uint32_t value_size;         /* in bytes */
    uint32_t attribute_count;    /* 0 to 16 */
    uint8_t attribute_bits[16];  /* of each, 0 behind the last one */
    char order[16];              /* such as "list", with a zero behind it */
    char value_type[16];         /* of a sorted feed, such as "int64"; empty in others */
    uint32_t unique;             /* 1 where a value is there only once */
    uint32_t indexed;            /* 1 where values are found by an index */
} uc_feed_facts;

#define UC_FEED_INFO_INIT { sizeof(uc_feed_facts), 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 }, { 0 }, { 0 }, 0, 0 }

/* Fills *info. UC_NONE: there is no such key. O(n) in the inner nodes, of which there are few. */
int uc_feed_info(uc_store *store, const void *key, size_t key_length, uc_feed_facts *info);

/* Lays the items out anew, in as little memory as they can take. UC_NONE: there is no such key. O(n). */
int uc_feed_compact(uc_store *store, const void *key, size_t key_length);

/* ---- Commands --------------------------------------------------------------------------------------------------- */

/* A session is what a connection is to a server: the database that SELECT chose, MULTI and what was queued since, the
 * keys that WATCH named. It begins with the store's database. It keeps the store open by itself.
 * *session is for uc_session_close(), and NULL where this fails. */
int uc_session_open(uc_store *store, uc_session **session);

/* Ends a session, and with it a transaction that was not executed. */
int uc_session_close(uc_session *session);

/* Runs any command of Redis' that docs/commands.md lists, its name first, as { "LPUSH", "queue", "job" }. The reply has
 * the types of RESP3; after HELLO 2 the session's replies have those of RESP2.
 * Where the reply is an error, the call fails with the status that fits (UC_WRONG_TYPE, UC_FULL, UC_ERROR ...), the
 * error's text is the message, and the reply is that error. A command that waits (BLPOP, WAIT) waits here; nil is its
 * reply, with UC_OK, when its time is up. SUBSCRIBE and its like fail: there is uc_subscription_open() for them. */
int uc_command(uc_session *session, size_t count, const uc_bytes *words, uc_reply *reply);

/* The words of one command of several. */
typedef struct uc_words {
    size_t count;
    const uc_bytes *words;
} uc_words;

/* Runs commands one after the other; the reply is the array of their replies. One that answers an error does not end
 * it: that error is among the replies, and the answer is UC_OK. Where one cannot run at all (UC_BUSY, UC_INTERRUPTED,
 * UC_MISUSE) the call fails, and the reply has the replies of those before it, which did run. */
int uc_pipeline(uc_session *session, size_t count, const uc_words *commands, uc_reply *reply);

/* Runs commands as one transaction, as MULTI, the commands and EXEC: all at one moment, and all or none should this
 * process die. The reply is the array of their replies. UC_NONE: a key that the session watches (WATCH, by
 * uc_command()) was changed, and nothing was done; the reply is nil. Where a command cannot be queued (no such command,
 * a wrong number of words) the call fails with its error, and nothing was done. Watched keys are forgotten in any case
 * but that of a session after MULTI, which is UC_MISUSE. */
int uc_transaction(uc_session *session, size_t count, const uc_words *commands, uc_reply *reply);

/* For bindings of languages whose signal handlers may throw between a call and the arrival of its result. After
 * UC_TAKEN_KEEP the session remembers what its last uc_command(), uc_pipeline() or uc_transaction() took out of the store
 * and returned (LPOP, SPOP, GETDEL ...; not what a script took). */
#define UC_TAKEN_KEEP 0
/* Puts that aside, so that a handler may use the session. One of the next two follows. */
#define UC_TAKEN_HOLD 1
/* The result is still on its way. */
#define UC_TAKEN_RESUME 2
/* The result does not arrive: puts it back where it came from. UC_ERROR: it could not be. */
#define UC_TAKEN_GIVE_BACK 3
int uc_taken(uc_session *session, int what);

/* ---- Replies ---------------------------------------------------------------------------------------------------- */

/* Makes a reply, which is nil until a call fills it. A reply keeps its memory, as much as its largest content took, so
 * that one which is used again and again makes no allocations. *reply is for uc_reply_free(). */
int uc_reply_new(uc_reply **reply);

/* Ends a reply. The values in it are gone. */
int uc_reply_free(uc_reply *reply);

/* The types of values. */
typedef enum uc_type {
    UC_TYPE_NIL = 0,
    UC_TYPE_STATUS = 1,   /* text such as OK */
    UC_TYPE_STRING = 2,
    UC_TYPE_INTEGER = 3,
    UC_TYPE_DOUBLE = 4,
    UC_TYPE_BOOLEAN = 5,
    UC_TYPE_ERROR = 6,    /* text, its code in front */
    UC_TYPE_ARRAY = 7,
    UC_TYPE_MAP = 8,
    UC_TYPE_SET = 9
} uc_type;

/* The whole reply. The value, and all that are below it, are the reply's, and gone when the next call is given that
 * reply; until then any number of threads may read them. NULL for a reply that cannot be used. */
const uc_value *uc_reply_value(const uc_reply *reply);

/* The functions below take any value, NULL included (which is nil), and have an answer for each type. Several threads
 * may look at a value at once. */

/* A uc_type. */
int uc_value_type(const uc_value *value);

/* The bytes of a string, a status or an error, with a zero behind them; NULL for other types. *length may be NULL. */
const char *uc_value_string(const uc_value *value, size_t *length);

/* An integer, or 1 for a boolean that is true; 0 for other types. */
int64_t uc_value_integer(const uc_value *value);

/* A double, or an integer as one; 0 for other types. */
double uc_value_double(const uc_value *value);

/* How many items an array or a set has, pairs a map, bytes a text; 0 for other types. */
size_t uc_value_length(const uc_value *value);

/* An item of an array or a set, a value of a map, from 0 on; NULL where there is none. O(1). */
const uc_value *uc_value_item(const uc_value *value, size_t index);

/* A key of a map; NULL where there is none. O(1). */
const uc_value *uc_value_key(const uc_value *value, size_t index);

/* ---- Messages --------------------------------------------------------------------------------------------------- */

/* Sends a message to those who subscribe to a channel, in all processes and over sockets. *receivers, which may be
 * NULL, is how many they are. */
int uc_publish(uc_store *store, const void *channel, size_t channel_length, const void *message, size_t message_length,
               uint64_t *receivers);

/* What is subscribed to. */
typedef enum uc_topic {
    UC_CHANNEL = 0,
    UC_PATTERN = 1,  /* channels whose names match, as in "news.*" */
    UC_SHARD = 2     /* shard channels */
} uc_topic;

/* A receiver of messages. It keeps the store open by itself. *subscription is for uc_subscription_close(), and NULL
 * where this fails. A process can have 512. */
int uc_subscription_open(uc_store *store, uc_subscription **subscription);

/* Ends it, with all its subscriptions. */
int uc_subscription_close(uc_subscription *subscription);

/* Subscribes to names, all of them or none: what is published after the return is received. Names that it is subscribed
 * to already stay. `topic` is a uc_topic. */
int uc_subscribe(uc_subscription *subscription, int topic, size_t count, const uc_bytes *names);

/* Ends subscriptions; names that it is not subscribed to do not matter. Messages that were not taken are gone. */
int uc_unsubscribe(uc_subscription *subscription, int topic, size_t count, const uc_bytes *names);

/* The next message; waits for it for up to `timeout_ms`, not at all where that is 0, for ever where it is negative.
 * UC_NONE: none came. The reply is an array of strings: "message", channel, text; "smessage", channel, text; or
 * "pmessage", pattern, channel, text. A receiver that fell so far behind that messages were overwritten gets the array
 * "lost", nil, number of them, and goes on with the newest. */
int uc_subscription_next(uc_subscription *subscription, int64_t timeout_ms, uc_reply *message);

/* *descriptor becomes readable when there may be a message: for poll(), epoll and event loops. Then call
 * uc_subscription_next() with 0 until it answers UC_NONE. It is the library's: do not read, write or close it. It ends
 * with the subscription, and is another one after a fork. */
int uc_subscription_descriptor(uc_subscription *subscription, int *descriptor);

/* *lost is how many messages were overwritten before they were taken, since it was opened. */
int uc_subscription_lost(uc_subscription *subscription, uint64_t *lost);

/* ---- Objects ---------------------------------------------------------------------------------------------------- */

/* Bytes and arrays that processes hand to each other, by an id that goes through any queue: those of Python's
 * undercroft.Objects, of Rust's and of PHP's. A uc_object is read where it lies in shared memory: what it is made of does
 * not change and stays until uc_object_close(), or the end of its process, whatever becomes of its key. A process reads
 * 126 of uc_object_get() in place at a time; more of them, and what is shorter than 32 KiB, are copied. In a forked child
 * an object of its parent's is empty. */

/* Room for an id and the zero behind it. */
#define UC_OBJECT_ID 80

/* Stores bytes, for so long, or for good where `ttl_ms` is 0. Their id, a text, is written to `id`, which has room for
 * UC_OBJECT_ID bytes. UC_FULL: there is no room; UC_ERROR: they are longer than 512 MiB. O(length): they are copied once. */
int uc_object_put(uc_store *store, const void *data, size_t length, int64_t ttl_ms, char *id);

/* Stores an array in C order: its type as numpy writes it, such as "<f8", so many lengths, and the bytes of its items.
 * Otherwise as uc_object_put(). */
int uc_object_put_array(uc_store *store, const char *dtype, size_t dimensions, const uint64_t *shape, const void *items,
                        size_t length, int64_t ttl_ms, char *id);

/* The object with an id. *object is for uc_object_close(), and NULL unless the answer is UC_OK. UC_NONE: there is none;
 * UC_WRONG_TYPE: the key "object:" + id holds something else. O(1) from 32 KiB on. */
int uc_object_get(uc_store *store, const void *id, size_t id_length, uc_object **object);

/* The same, and deletes it: of several that take it one gets it. What is no object stays as it is. */
int uc_object_take(uc_store *store, const void *id, size_t id_length, uc_object **object);

/* Deletes an object. UC_NONE: there is none. Who reads it goes on. */
int uc_object_delete(uc_store *store, const void *id, size_t id_length);

/* Ends the reading of an object; its memory is free where it has no key and nobody else reads it. */
int uc_object_close(uc_object *object);

/* An object's bytes, which begin at a multiple of 8; nobody may write there. *length, which may be NULL, is how many. */
const void *uc_object_data(const uc_object *object, size_t *length);

/* What an object is: 'b' bytes, 'a' an array, another letter for another of Python's kinds, whose bytes are then all
 * that stands behind its description. Negative: a uc_status. */
int uc_object_kind(const uc_object *object);

/* An array's type and lengths; each place may be NULL. They are the object's, and end with it. UC_NONE: it is no array, or
 * one of records. */
int uc_object_array(const uc_object *object, const char **dtype, size_t *dimensions, const uint64_t **shape);

#ifdef __cplusplus
}
#endif

#endif
