/*
 * Tests that invalid calls (NULL, closed handles, wrong sizes, handles of another kind) return an
 * error and change nothing.
 */
#include "../check.h"

static uc_store *store;
static uc_session *session;
static uc_reply *reply;
static uc_subscription *subscription;

#define MISUSE(call) \
    do { \
        EXPECT_OK(set(store, "proof", "there")); \
        EXPECT_STATUS(call, UC_MISUSE); \
        EXPECT(*uc_error_message() != 0); \
        EXPECT(holds(store, "proof", "there")); \
    } while (0)

static void nulls(void)
{
    uc_store *made = store;
    uc_bytes key = uc_text("proof");
    uc_bytes hole = uc_data(NULL, 3);
    uc_bytes empty = uc_data(NULL, 0);
    uc_words words, holes;
    uint64_t count;
    int64_t number;
    size_t length;
    int descriptor;
    char buffer[8];
    words.count = holes.count = 1;
    words.words = &key;
    holes.words = &hole;

    MISUSE(uc_open(NULL, NULL, &made));
    EXPECT(made == NULL);
    MISUSE(uc_open("undercroft://x", NULL, NULL));
    MISUSE(uc_open("http://x", NULL, &made));
    MISUSE(uc_open("\xff", NULL, &made));
    MISUSE(uc_get(NULL, "proof", 5, buffer, 8, &length));
    MISUSE(uc_get(store, NULL, 5, buffer, 8, &length));
    MISUSE(uc_get(store, "proof", 5, NULL, 8, &length));
    MISUSE(uc_get(store, "proof", 5, buffer, 8, NULL));
    MISUSE(uc_get(store, "proof", SIZE_MAX, buffer, 8, &length));
    MISUSE(uc_get(store, "proof", 5, buffer, SIZE_MAX, &length));
    MISUSE(uc_set(NULL, "proof", 5, "x", 1));
    MISUSE(uc_set(store, NULL, 5, "x", 1));
    MISUSE(uc_set(store, "proof", 5, NULL, 1));
    MISUSE(uc_set(store, "proof", 5, "x", SIZE_MAX));
    MISUSE(uc_set_with(NULL, "proof", 5, "x", 1, NULL, NULL));
    MISUSE(uc_set_with(store, NULL, 5, "x", 1, NULL, reply));
    MISUSE(uc_set_with(store, "proof", 5, NULL, 1, NULL, reply));
    MISUSE(uc_incr(NULL, "proof", 5, 1, &number));
    MISUSE(uc_incr(store, NULL, 5, 1, &number));
    MISUSE(uc_mget(store, 1, NULL, reply));
    MISUSE(uc_mget(store, 0, &key, reply));
    MISUSE(uc_mget(store, 1, &hole, reply));
    MISUSE(uc_mget(store, 1, &key, NULL));
    MISUSE(uc_mget(store, SIZE_MAX / 4, &key, reply));
    MISUSE(uc_mset(store, 1, &key, NULL));
    MISUSE(uc_mset(store, 1, NULL, &key));
    MISUSE(uc_mset(store, 1, &key, &hole));
    MISUSE(uc_mset(NULL, 1, &key, &key));
    MISUSE(uc_del(NULL, 1, &key, &count));
    MISUSE(uc_del(store, 0, NULL, &count));
    MISUSE(uc_del(store, 1, &hole, &count));
    MISUSE(uc_exists(NULL, 1, &key, &count));
    MISUSE(uc_expire(NULL, "proof", 5, 0));
    MISUSE(uc_expire(store, NULL, 5, 0));
    MISUSE(uc_ttl(store, "proof", 5, NULL));
    MISUSE(uc_ttl(NULL, "proof", 5, &number));
    MISUSE(uc_publish(NULL, "c", 1, "m", 1, &count));
    MISUSE(uc_publish(store, NULL, 1, "m", 1, &count));
    MISUSE(uc_publish(store, "c", 1, NULL, 1, &count));
    MISUSE(uc_session_open(NULL, &session));
    EXPECT(session == NULL);
    EXPECT_OK(uc_session_open(store, &session));
    MISUSE(uc_session_open(store, NULL));
    MISUSE(uc_command(NULL, 1, &key, reply));
    MISUSE(uc_command(session, 0, &key, reply));
    MISUSE(uc_command(session, 1, NULL, reply));
    MISUSE(uc_command(session, 1, &hole, reply));
    MISUSE(uc_command(session, 1, &key, NULL));
    EXPECT_STATUS(uc_command(session, 1, &empty, reply), UC_ERROR);
    MISUSE(uc_pipeline(NULL, 1, &words, reply));
    MISUSE(uc_pipeline(session, 0, &words, reply));
    MISUSE(uc_pipeline(session, 1, NULL, reply));
    MISUSE(uc_pipeline(session, 1, &holes, reply));
    MISUSE(uc_pipeline(session, 1, &words, NULL));
    MISUSE(uc_transaction(NULL, 1, &words, reply));
    MISUSE(uc_transaction(session, 1, &holes, reply));
    MISUSE(uc_transaction(session, 1, &words, NULL));
    MISUSE(uc_reply_new(NULL));
    EXPECT(uc_reply_value(NULL) == NULL);
    MISUSE(uc_subscription_open(store, NULL));
    MISUSE(uc_subscribe(NULL, UC_CHANNEL, 1, &key));
    MISUSE(uc_subscribe(subscription, 3, 1, &key));
    MISUSE(uc_subscribe(subscription, UC_CHANNEL, 0, &key));
    MISUSE(uc_subscribe(subscription, UC_CHANNEL, 1, &hole));
    MISUSE(uc_unsubscribe(subscription, -1, 1, &key));
    MISUSE(uc_unsubscribe(NULL, UC_CHANNEL, 1, &key));
    MISUSE(uc_subscription_next(NULL, 0, reply));
    MISUSE(uc_subscription_next(subscription, 0, NULL));
    MISUSE(uc_subscription_descriptor(subscription, NULL));
    MISUSE(uc_subscription_descriptor(NULL, &descriptor));
    MISUSE(uc_subscription_lost(NULL, &count));

    /* Closing NULL is not a failure. */
    EXPECT_OK(uc_close(NULL));
    EXPECT_OK(uc_session_close(NULL));
    EXPECT_OK(uc_reply_free(NULL));
    EXPECT_OK(uc_subscription_close(NULL));

    EXPECT(uc_value_type(NULL) == UC_TYPE_NIL && uc_value_length(NULL) == 0 && uc_value_integer(NULL) == 0);
    EXPECT(uc_value_string(NULL, &length) == NULL && length == 0 && uc_value_double(NULL) == 0.0);
    EXPECT(uc_value_item(NULL, 0) == NULL && uc_value_key(NULL, 0) == NULL);
}

static void closed(void)
{
    uc_store *gone = store;
    uc_session *ended = session;
    uc_reply *freed = reply;
    uc_subscription *left = subscription;
    uc_bytes key = uc_text("proof");
    size_t length;
    char buffer[8];

    EXPECT_STATUS(uc_open("undercroft:///nowhere/at/all", NULL, &store), UC_CANNOT_OPEN);
    EXPECT(store == NULL && strstr(uc_error_message(), "/nowhere/at/all") != NULL);
    EXPECT_OK(uc_close(gone));
    EXPECT_STATUS(uc_close(gone), UC_MISUSE);
    EXPECT(strstr(uc_error_message(), "closed") != NULL);
    EXPECT_STATUS(uc_get(gone, "proof", 5, buffer, 8, &length), UC_MISUSE);
    EXPECT_STATUS(uc_set(gone, "proof", 5, "x", 1), UC_MISUSE);
    EXPECT_STATUS(uc_session_open(gone, &session), UC_MISUSE);
    EXPECT(session == NULL);
    EXPECT_OK(uc_session_close(ended));
    EXPECT_STATUS(uc_session_close(ended), UC_MISUSE);
    EXPECT_STATUS(uc_command(ended, 1, &key, freed), UC_MISUSE);
    EXPECT_OK(uc_reply_free(freed));
    EXPECT_STATUS(uc_reply_free(freed), UC_MISUSE);
    EXPECT(uc_reply_value(freed) == NULL);
    EXPECT_OK(uc_subscription_close(left));
    EXPECT_STATUS(uc_subscription_close(left), UC_MISUSE);
    EXPECT_STATUS(uc_subscription_next(left, 0, freed), UC_MISUSE);
}

static void sizes_and_kinds(const char *path)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_set_options setting = UC_SET_OPTIONS_INIT;
    uc_store *made;
    uc_bytes key = uc_text("proof");

    options.size -= 1;
    MISUSE(uc_open(path, &options, &made));
    /* The library refuses a size that is larger than any future version of the structure. */
    options.size = sizeof options + 4096;
    MISUSE(uc_open(path, &options, &made));
    EXPECT(strstr(uc_error_message(), "uc_options") != NULL);
    options.size = sizeof options;
    options.database = 16;
    MISUSE(uc_open(path, &options, &made));
    options.database = 0;
    options.policy = "newest-first";
    MISUSE(uc_open(path, &options, &made));
    options.policy = NULL;
    options.capacity = UINT64_C(2) << 30;
    MISUSE(uc_open(path, &options, &made));
    setting.size = 0;
    MISUSE(uc_set_with(store, "proof", 5, "x", 1, &setting, NULL));

    MISUSE(uc_command((uc_session *)(void *)store, 1, &key, reply));
    EXPECT(strstr(uc_error_message(), "another kind") != NULL);
    MISUSE(uc_set((uc_store *)(void *)session, "proof", 5, "x", 1));
    MISUSE(uc_mget(store, 1, &key, (uc_reply *)(void *)subscription));
}

int main(int argc, char **argv)
{
    int status;
    EXPECT(argc == 2);
    store = open_store(argv[1]);
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_subscription_open(store, &subscription));
    nulls();
    sizes_and_kinds(argv[1]);
    closed();
    for (status = UC_INTERNAL; status <= UC_CLOSED; status++)
        EXPECT(strncmp(uc_status_name(status), "UC_", 3) == 0);
    EXPECT(strcmp(uc_status_name(77), "unknown status") == 0);
    return 0;
}
