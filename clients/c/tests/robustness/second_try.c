/*
 * Tests reads during which a writer changes the key: the result must come from the new state alone.
 * Also tests the result of a call that panics in the library. Requires a library built with the
 * "races" feature.
 */
#include "../check.h"

#ifdef __cplusplus
extern "C" {
#endif
int uc_test_change_reads(uc_store *store, size_t count, const uc_words *commands, uint64_t *made);
int uc_test_panic(uc_session *session);
#ifdef __cplusplus
}
#endif

/*
 * The states of a key. Each state is stored under its own name, from which one command copies it.
 * NULL is a missing key.
 */
static const char *const states[] = { NULL, "short", "long", "longer", "number", "list", "hash", "set",
                                     "feed", "long feed", "other feed" };
#define STATES (sizeof states / sizeof *states)

static uc_store *store;
static uc_session *session;
static uc_reply *reply;

/* A call's result as text: a status and a value. */
struct answer {
    char *text;
    size_t length, room;
};

static void add(struct answer *answer, const char *text, size_t length)
{
    if (answer->length + length > answer->room) {
        answer->room = 2 * (answer->length + length);
        answer->text = (char *)realloc(answer->text, answer->room);
        EXPECT(answer->text != NULL);
    }
    if (length != 0)
        memcpy(answer->text + answer->length, text, length);
    answer->length += length;
}

static void add_value(struct answer *answer, const uc_value *value)
{
    char head[64];
    size_t i, length;
    const char *text = uc_value_string(value, &length);
    int type = uc_value_type(value);
    snprintf(head, sizeof head, "(%d %lld %g %zu)", type, (long long)uc_value_integer(value), uc_value_double(value),
             uc_value_length(value));
    add(answer, head, strlen(head));
    if (text != NULL) {
        add(answer, text, length);
        return;
    }
    for (i = 0; i < uc_value_length(value); i++) {
        if (type == UC_TYPE_MAP)
            add_value(answer, uc_value_key(value, i));
        add_value(answer, uc_value_item(value, i));
    }
}

static void add_status(struct answer *answer, int status)
{
    add(answer, uc_status_name(status), strlen(uc_status_name(status)));
    if (status < 0)
        add(answer, uc_error_message(), strlen(uc_error_message()));
}

/* The calls under test, which read a key. */
static void call_get(struct answer *answer)
{
    static char buffer[200000];
    size_t length;
    int status = uc_get(store, "key", 3, buffer, sizeof buffer, &length);
    add_status(answer, status);
    add(answer, buffer, status == UC_OK ? length : 0);
}

/*
 * Calls uc_get() with a buffer that is too small for some states: the length must belong to a
 * single state, and no byte past the buffer may be written.
 */
static void call_get_some(struct answer *answer)
{
    char buffer[8], number[32];
    size_t length;
    int status;
    buffer[7] = '!';
    status = uc_get(store, "key", 3, buffer, 7, &length);
    EXPECT(buffer[7] == '!');
    add_status(answer, status);
    snprintf(number, sizeof number, "%zu", length);
    add(answer, number, strlen(number));
    add(answer, buffer, status == UC_OK ? length : 0);
}

static void call_mget(struct answer *answer)
{
    uc_bytes keys[2];
    keys[0] = keys[1] = uc_text("key");
    add_status(answer, uc_mget(store, 2, keys, reply));
    add_value(answer, uc_reply_value(reply));
}

static void call_exists(struct answer *answer)
{
    uc_bytes key = uc_text("key");
    uint64_t found = 0;
    add_status(answer, uc_exists(store, 1, &key, &found));
    add(answer, found ? "1" : "0", 1);
}

/* Appends a range of a feed to the answer, with or without attributes. */
static void add_range(struct answer *answer, const char *filter, size_t columns)
{
    static char values[400 * 12];
    static uint32_t attributes[400 * 2];
    uc_feed_query query = UC_FEED_QUERY_INIT;
    size_t found;
    int status;
    query.filter = filter;
    query.filter_length = strlen(filter);
    status = uc_feed_range(store, "key", 3, 1, 400, &query, values, 12, columns ? attributes : NULL, columns, &found);
    add_status(answer, status);
    add(answer, values, found * 12);
    add(answer, (const char *)attributes, found * columns * sizeof(uint32_t));
}

static void call_feed_range(struct answer *answer)
{
    add_range(answer, "", 0);
}

static void call_feed_range_of_some(struct answer *answer)
{
    add_range(answer, "a0>2", 2);
}

static void call_feed_count(struct answer *answer)
{
    char number[32];
    uint64_t count = 0;
    uc_feed_query query = UC_FEED_QUERY_INIT;
    query.filter = "a0<3";
    query.filter_length = 4;
    add_status(answer, uc_feed_count(store, "key", 3, &query, &count));
    snprintf(number, sizeof number, "%d", (int)count);
    add(answer, number, strlen(number));
}

static void run(struct answer *answer, const char *name, const char *first, const char *second)
{
    uc_bytes words[4];
    words[0] = uc_text(name);
    words[1] = uc_text("key");
    words[2] = uc_text(first != NULL ? first : "");
    words[3] = uc_text(second != NULL ? second : "");
    add_status(answer, uc_command(session, second ? 4 : first ? 3 : 2, words, reply));
    add_value(answer, uc_reply_value(reply));
}

static void call_command_get(struct answer *answer)
{
    run(answer, "GET", NULL, NULL);
}

static void call_range(struct answer *answer)
{
    run(answer, "LRANGE", "0", "-1");
}

static void call_all(struct answer *answer)
{
    run(answer, "HGETALL", NULL, NULL);
}

static void call_members(struct answer *answer)
{
    run(answer, "SMEMBERS", NULL, NULL);
}

static void call_type(struct answer *answer)
{
    run(answer, "TYPE", NULL, NULL);
}

static void call_pipeline(struct answer *answer)
{
    uc_bytes words[2];
    uc_words command;
    words[0] = uc_text("GET");
    words[1] = uc_text("key");
    command.count = 2;
    command.words = words;
    add_status(answer, uc_pipeline(session, 1, &command, reply));
    add_value(answer, uc_reply_value(reply));
}

static void (*const calls[])(struct answer *) = { call_get, call_get_some, call_mget, call_exists, call_command_get,
                                                  call_range, call_all, call_members, call_type, call_pipeline,
                                                  call_feed_range, call_feed_range_of_some, call_feed_count };
#define CALLS (sizeof calls / sizeof *calls)

/* Returns the command that changes the key to a state atomically. */
static uc_words change_to(const char *state, uc_bytes *words)
{
    uc_words command;
    command.words = words;
    if (state == NULL) {
        words[0] = uc_text("DEL");
        words[1] = uc_text("key");
        command.count = 2;
    } else {
        words[0] = uc_text("COPY");
        words[1] = uc_text(state);
        words[2] = uc_text("key");
        words[3] = uc_text("REPLACE");
        command.count = 4;
    }
    return command;
}

static void go_to(const char *state)
{
    uc_bytes words[4];
    uc_words command = change_to(state, words);
    EXPECT_OK(uc_command(session, command.count, words, reply));
}

/* Creates a feed whose values and attributes identify its items. */
static void make_feed(const char *key, size_t size, const char *widths, size_t count, char first)
{
    static char values[400 * 12];
    static uint32_t attributes[400 * 2];
    size_t i;
    for (i = 0; i < count * size; i++)
        values[i] = (char)(first + i % 23);
    for (i = 0; i < count * 2; i++)
        attributes[i] = (uint32_t)(i % 7);
    EXPECT_OK(uc_feed_create(store, key, strlen(key), size, widths, NULL));
    EXPECT_OK(uc_feed_add(store, key, strlen(key), 0, count, values, size, attributes, 2, NULL));
}

static void prepare(void)
{
    static char text[100000];
    size_t i;
    char item[32];
    uc_bytes words[4];
    make_feed("feed", 12, "4:3", 5, 'a');
    make_feed("long feed", 12, "8:8", 400, 'A');
    make_feed("other feed", 5, "4:3", 300, 'k');
    EXPECT_OK(set(store, "short", "short"));
    EXPECT_OK(set(store, "number", "-1234567"));
    for (i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 23);
    EXPECT_OK(uc_set(store, "long", 4, text, 3000));
    EXPECT_OK(uc_set(store, "longer", 6, text + 1, sizeof text - 1));
    for (i = 0; i < 300; i++) {
        snprintf(item, sizeof item, "item %zu", i);
        words[0] = uc_text("RPUSH");
        words[1] = uc_text("list");
        words[2] = uc_text(item);
        EXPECT_OK(uc_command(session, 3, words, reply));
        words[0] = uc_text("HSET");
        words[1] = uc_text("hash");
        words[3] = uc_text(item + 2);
        EXPECT_OK(uc_command(session, 4, words, reply));
        words[0] = uc_text("SADD");
        words[1] = uc_text("set");
        EXPECT_OK(uc_command(session, 3, words, reply));
    }
}

/*
 * Tests that a call that panics in the library returns an error, and that its handle can then only
 * be closed.
 */
static void panics(void)
{
    uc_session *broken;
    uc_bytes ping = uc_text("PING");
    EXPECT_OK(uc_session_open(store, &broken));
    EXPECT_OK(uc_command(broken, 1, &ping, reply));
    EXPECT_STATUS(uc_test_panic(broken), UC_INTERNAL);
    EXPECT(strcmp(uc_error_message(), "a bug in Undercroft, report it: as the test wants it") == 0);
    EXPECT_STATUS(uc_command(broken, 1, &ping, reply), UC_INTERNAL);
    EXPECT_OK(uc_session_close(broken));
    EXPECT_STATUS(uc_command(broken, 1, &ping, reply), UC_MISUSE);
    EXPECT_OK(uc_command(session, 1, &ping, reply));
}

int main(int argc, char **argv)
{
    size_t call, from, to;
    uint64_t made, before = 0;
    EXPECT(argc == 2);
    store = open_store(argv[1]);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    panics();
    prepare();
    for (call = 0; call < CALLS; call++)
        for (from = 0; from < STATES; from++)
            for (to = 0; to < STATES; to++) {
                struct answer wanted = { NULL, 0, 0 }, got = { NULL, 0, 0 };
                uc_bytes words[4];
                uc_words change = change_to(states[to], words);
                go_to(states[to]);
                calls[call](&wanted);
                go_to(states[from]);
                EXPECT_OK(uc_test_change_reads(store, 1, &change, &before));
                calls[call](&got);
                EXPECT_OK(uc_test_change_reads(store, 1, &change, &made));
                if (made != before + 1 || got.length != wanted.length ||
                    memcmp(got.text, wanted.text, got.length) != 0) {
                    fprintf(stderr, "call %zu, from %s to %s (%d changes): expected %.*s, got %.*s\n", call,
                            states[from] ? states[from] : "none", states[to] ? states[to] : "none",
                            (int)(made - before), (int)(wanted.length < 200 ? wanted.length : 200), wanted.text,
                            (int)(got.length < 200 ? got.length : 200), got.text);
                    return 1;
                }
                /*
                 * Trigger the change that the last uc_test_change_reads() scheduled, so that it
                 * does not affect later calls.
                 */
                go_to(states[to]);
                calls[call](&got);
                free(wanted.text);
                free(got.text);
            }
    printf("second tries: %zu calls on %zu pairs of states\n", CALLS, STATES * STATES);
    return 0;
}
