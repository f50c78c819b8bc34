/* Makes calls of every kind, for tests of when a program may call the library. */
#ifndef EVERY_H
#define EVERY_H

#include "check.h"

static const char *const calls[][6] = {
    { "INCR", "number", NULL },
    { "SET", "key", "value", NULL },
    { "GET", "key", NULL },
    { "EVAL", "return redis.call('INCR', KEYS[1])", "1", "scripted", NULL },
    { "EVAL", "return tostring(1.5)", "0", NULL },
    { "FUNCTION", "STATS", NULL },
    { "SLOWLOG", "GET", NULL },
    { "LATENCY", "LATEST", NULL },
    { "CONFIG", "SET", "slowlog-log-slower-than", "0", NULL },
    { "CONFIG", "GET", "*", NULL },
    { "INFO", "everything", NULL },
    { "COMMAND", "COUNT", NULL },
    { "NOSUCH", NULL },
    { "PUBLISH", "channel", "message", NULL },
    { "XADD", "stream", "*", "field", "value", NULL },
    { "XTRIM", "stream", "MAXLEN", "10", NULL },
    { "RPUSH", "list", "item", NULL },
    { "BLPOP", "list", "1", NULL },
    { "OBJECT", "HELP", NULL },
    { "MULTI", NULL },
    { "EXEC", NULL },
};

enum { CALLS = sizeof calls / sizeof *calls };

/* Makes call number `number`. An error reply is allowed, but a failure of the library is not. */
static inline void make(uc_session *session, uc_reply *reply, unsigned number)
{
    int status = command(session, reply, calls[number % CALLS]);
    if (status == UC_INTERNAL || status == UC_MISUSE || status == UC_BUSY)
        EXPECT_OK(status);
}

static inline void make_typed(uc_store *store, const char *path)
{
    char id[UC_OBJECT_ID], value[64];
    uc_subscription *subscription;
    uc_bytes name = uc_text("channel");
    uc_store *again;
    size_t length;
    EXPECT_OK(uc_incr(store, "typed", 5, 1, NULL));
    EXPECT_OK(set(store, "typed value", "value"));
    EXPECT_OK(uc_get(store, "typed value", 11, value, sizeof value, &length));
    EXPECT_OK(uc_object_put(store, value, length, 0, id));
    EXPECT_OK(uc_object_del(store, id, strlen(id)));
    EXPECT_OK(uc_subscription_open(store, &subscription));
    EXPECT_OK(uc_subscribe(subscription, UC_CHANNEL, 1, &name));
    EXPECT_OK(uc_publish(store, "channel", 7, "message", 7, NULL));
    EXPECT_OK(uc_subscription_close(subscription));
    EXPECT_OK(uc_open(path, NULL, &again));
    EXPECT_OK(uc_close(again));
}

/* Makes all calls. */
static inline void make_all(uc_store *store, const char *path, uc_session *session, uc_reply *reply)
{
    unsigned number;
    for (number = 0; number < CALLS; number++)
        make(session, reply, number);
    make_typed(store, path);
}

#endif
