/*
 * Tests commands given as words: replies of every type, pipelines, transactions and watched keys.
 */
#include "../check.h"

#define WORDS(name, ...) \
    static const char *const name##_texts[] = { __VA_ARGS__, NULL }; \
    uc_bytes name[16]; \
    size_t name##_count = 0; \
    for (; name##_texts[name##_count] != NULL; name##_count++) \
    name[name##_count] = uc_text(name##_texts[name##_count])

#define RUN(...) \
    do { \
        static const char *const texts_[] = { __VA_ARGS__, NULL }; \
        EXPECT_OK(command(session, reply, texts_)); \
    } while (0)

#define FAILS(status, ...) \
    do { \
        static const char *const texts_[] = { __VA_ARGS__, NULL }; \
        EXPECT_STATUS(command(session, reply, texts_), status); \
    } while (0)

static uc_store *store;
static uc_session *session;
static uc_reply *reply;

static const uc_value *root(void)
{
    return uc_reply_value(reply);
}

static void types(void)
{
    const uc_value *value;

    RUN("SET", "k", "v");
    EXPECT(uc_value_type(root()) == UC_TYPE_STATUS && is_text(root(), "OK"));
    RUN("GET", "k");
    EXPECT(uc_value_type(root()) == UC_TYPE_STRING && is_text(root(), "v"));
    EXPECT(uc_value_integer(root()) == 0 && uc_value_item(root(), 0) == NULL && uc_value_key(root(), 0) == NULL);
    RUN("GET", "none");
    EXPECT(uc_value_type(root()) == UC_TYPE_NIL && uc_value_string(root(), NULL) == NULL);
    RUN("RPUSH", "list", "a", "b", "c");
    EXPECT(uc_value_type(root()) == UC_TYPE_INTEGER && uc_value_integer(root()) == 3);
    EXPECT(uc_value_double(root()) == 3.0);
    RUN("LRANGE", "list", "0", "-1");
    EXPECT(uc_value_type(root()) == UC_TYPE_ARRAY && uc_value_length(root()) == 3);
    EXPECT(is_text(uc_value_item(root(), 2), "c"));
    RUN("HSET", "hash", "f", "1", "g", "2");
    RUN("HGETALL", "hash");
    EXPECT(uc_value_type(root()) == UC_TYPE_MAP && uc_value_length(root()) == 2);
    EXPECT(is_text(uc_value_key(root(), 1), "g") && is_text(uc_value_item(root(), 1), "2"));
    EXPECT(uc_value_key(root(), 2) == NULL && uc_value_item(root(), 2) == NULL);
    RUN("SADD", "set", "x");
    RUN("SMEMBERS", "set");
    EXPECT(uc_value_type(root()) == UC_TYPE_SET && is_text(uc_value_item(root(), 0), "x"));
    RUN("ZADD", "sorted", "1.5", "m", "inf", "n");
    RUN("ZSCORE", "sorted", "m");
    EXPECT(uc_value_type(root()) == UC_TYPE_DOUBLE && uc_value_double(root()) == 1.5);
    RUN("ZRANGE", "sorted", "0", "-1", "WITHSCORES");
    value = uc_value_item(root(), 0);
    EXPECT(is_text(uc_value_item(value, 0), "m") && uc_value_double(uc_value_item(value, 1)) == 1.5);
    RUN("LRANGE", "none", "0", "-1");
    EXPECT(uc_value_type(root()) == UC_TYPE_ARRAY && uc_value_length(root()) == 0);
    EXPECT(uc_value_item(root(), 0) == NULL);

    RUN("HELLO", "2");
    EXPECT(uc_value_type(root()) == UC_TYPE_ARRAY);
    RUN("HGETALL", "hash");
    EXPECT(uc_value_type(root()) == UC_TYPE_ARRAY && uc_value_length(root()) == 4);
    RUN("ZSCORE", "sorted", "m");
    EXPECT(uc_value_type(root()) == UC_TYPE_STRING && is_text(root(), "1.5"));
    RUN("HELLO", "3");
    EXPECT(uc_value_type(root()) == UC_TYPE_MAP);
}

static void errors(void)
{
    size_t length;

    FAILS(UC_WRONG_TYPE, "GET", "list");
    EXPECT(uc_value_type(root()) == UC_TYPE_ERROR);
    EXPECT(strncmp(uc_error_message(), "WRONGTYPE ", 10) == 0 && is_text(root(), uc_error_message()));
    FAILS(UC_ERROR, "NOSUCH", "thing");
    EXPECT(strstr(uc_error_message(), "unknown command") != NULL);
    FAILS(UC_ERROR, "GET");
    FAILS(UC_ERROR, "SUBSCRIBE", "channel");
    EXPECT_STATUS(uc_incr(store, "list", 4, 1, NULL), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_get(store, "list", 4, NULL, 0, &length), UC_WRONG_TYPE);
    /* A failure's message remains until the next failure, even if a call succeeds. */
    RUN("PING");
    EXPECT(strncmp(uc_error_message(), "WRONGTYPE ", 10) == 0);
}

static void pipelines(void)
{
    WORDS(push, "RPUSH", "p", "1", "2");
    WORDS(wrong, "INCR", "p");
    WORDS(range, "LRANGE", "p", "0", "-1");
    uc_words commands[3];
    commands[0].count = push_count;
    commands[0].words = push;
    commands[1].count = wrong_count;
    commands[1].words = wrong;
    commands[2].count = range_count;
    commands[2].words = range;

    EXPECT_OK(uc_pipeline(session, 3, commands, reply));
    EXPECT(uc_value_type(root()) == UC_TYPE_ARRAY && uc_value_length(root()) == 3);
    EXPECT(uc_value_integer(uc_value_item(root(), 0)) == 2);
    EXPECT(uc_value_type(uc_value_item(root(), 1)) == UC_TYPE_ERROR);
    EXPECT(is_text(uc_value_item(uc_value_item(root(), 2), 1), "2"));
    /* A command that cannot run stops the pipeline, which returns the earlier replies. */
    commands[1].words = NULL;
    EXPECT_STATUS(uc_pipeline(session, 3, commands, reply), UC_MISUSE);
    EXPECT(uc_value_length(root()) == 1 && uc_value_integer(uc_value_item(root(), 0)) == 4);

    EXPECT_STATUS(uc_transaction(session, 3, commands, reply), UC_MISUSE);
    commands[1].words = wrong;
    EXPECT_OK(uc_transaction(session, 3, commands, reply));
    EXPECT(uc_value_length(root()) == 3 && uc_value_integer(uc_value_item(root(), 0)) == 6);
    EXPECT(uc_value_type(uc_value_item(root(), 1)) == UC_TYPE_ERROR);
    commands[1].count = 1;
    EXPECT_STATUS(uc_transaction(session, 3, commands, reply), UC_ERROR);
    EXPECT(strstr(uc_error_message(), "wrong number of arguments") != NULL);
    RUN("LLEN", "p");
    EXPECT(uc_value_integer(root()) == 6);
}

static void watched(void)
{
    WORDS(increment, "INCR", "w");
    uc_words commands[1];
    commands[0].count = increment_count;
    commands[0].words = increment;

    RUN("WATCH", "w");
    EXPECT_OK(set(store, "w", "10"));
    EXPECT_STATUS(uc_transaction(session, 1, commands, reply), UC_NONE);
    EXPECT(holds(store, "w", "10") && uc_value_type(root()) == UC_TYPE_NIL);
    RUN("WATCH", "w");
    EXPECT_OK(uc_transaction(session, 1, commands, reply));
    EXPECT(holds(store, "w", "11"));

    /* A transaction can also be run with MULTI and EXEC. Within it, uc_transaction() is refused. */
    RUN("MULTI");
    RUN("INCR", "w");
    EXPECT(is_text(root(), "QUEUED") && holds(store, "w", "11"));
    EXPECT_STATUS(uc_transaction(session, 1, commands, reply), UC_MISUSE);
    RUN("EXEC");
    EXPECT(uc_value_integer(uc_value_item(root(), 0)) == 12);
}

static void of_a_session(void)
{
    uc_session *other;
    EXPECT_OK(uc_session_open(store, &other));
    RUN("SELECT", "3");
    RUN("SET", "s", "in 3");
    EXPECT(holds(store, "s", NULL));
    {
        static const char *const get[] = { "GET", "s", NULL };
        EXPECT_OK(command(other, reply, get));
        EXPECT(uc_value_type(root()) == UC_TYPE_NIL);
    }
    RUN("MULTI");
    RUN("SET", "s", "never");
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_session_open(store, &session));
    RUN("SELECT", "3");
    RUN("GET", "s");
    EXPECT(is_text(root(), "in 3"));
    RUN("SELECT", "0");
    EXPECT_OK(uc_session_close(other));
}

/* Tests a reply with many values, whose memory moves while the reply is being written. */
static void large(void)
{
    char text[32];
    uc_bytes words[3];
    int i;
    words[0] = uc_text("RPUSH");
    words[1] = uc_text("large");
    for (i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "item %d", i);
        words[2] = uc_text(text);
        EXPECT_OK(uc_command(session, 3, words, reply));
    }
    RUN("LRANGE", "large", "0", "-1");
    EXPECT(uc_value_length(root()) == 5000);
    for (i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "item %d", i);
        EXPECT(is_text(uc_value_item(root(), (size_t)i), text));
    }
}

int main(int argc, char **argv)
{
    EXPECT(argc == 2);
    store = open_store(argv[1]);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT(uc_value_type(root()) == UC_TYPE_NIL);
    types();
    errors();
    pipelines();
    watched();
    of_a_session();
    large();
    /* Sessions and replies outlive the store handle from which they were created. */
    EXPECT_OK(uc_close(store));
    RUN("GET", "k");
    EXPECT(is_text(root(), "v"));
    EXPECT_OK(uc_session_close(session));
    EXPECT(is_text(root(), "v"));
    EXPECT_OK(uc_reply_free(reply));
    return 0;
}
