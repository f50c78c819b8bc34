/* Tests a full store, and a store that is opened with different limits. */
#include "../check.h"

static void full(const char *path)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_store *store;
    uc_session *session;
    uc_reply *reply;
    static char value[10000];
    char key[32];
    int status = UC_OK, i;
    static const char *const push[] = { "RPUSH", "list", "item", NULL };
    static const int64_t one = 1;
    options.capacity = UINT64_C(1) << 30;
    options.max_memory = 1 << 20;
    options.policy = "noeviction";
    EXPECT_OK(uc_open(path, &options, &store));
    EXPECT_OK(uc_feed_create(store, "feed", 4, 4, "1", NULL));
    for (i = 0; status == UC_OK && i < 1000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        status = uc_set(store, key, strlen(key), value, sizeof value);
    }
    EXPECT_STATUS(status, UC_FULL);
    EXPECT(strncmp(uc_error_message(), "OOM ", 4) == 0);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_STATUS(command(session, reply, push), UC_FULL);
    EXPECT_STATUS(uc_feed_add(store, "feed", 4, 0, 1, "item", 4, NULL, 0, NULL), UC_FULL);
    EXPECT_STATUS(uc_feed_hide(store, "feed", 4, 1, "item", 4, NULL), UC_FULL);
    EXPECT_STATUS(uc_feed_set_attributes(store, "feed", 4, "item", 4, &one, 1, NULL), UC_FULL);
    EXPECT_OK(uc_feed_del(store, "feed", 4, 1, "item", 4, NULL));
    /* In a full store, calls that read or remove still work. */
    EXPECT(holds(store, "key 999", NULL));
    for (i = 0; i < 50; i++) {
        uc_bytes name;
        snprintf(key, sizeof key, "key %d", i);
        name = uc_text(key);
        EXPECT_OK(uc_del(store, 1, &name, NULL));
    }
    EXPECT_OK(command(session, reply, push));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_close(store));
}

/*
 * Tests that limits apply when a store is created. A process that opens the store with different
 * limits gets one warning, and fails only with `strict`.
 */
static void other_limits(const char *path)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_store *store, *again;
    const char *warning;
    EXPECT_OK(uc_open(path, NULL, &store));
    EXPECT(uc_store_warning(store) == NULL);
    options.max_memory = 1 << 21;
    EXPECT_OK(uc_open(path, &options, &again));
    warning = uc_store_warning(again);
    EXPECT(warning != NULL && strstr(warning, "maxmemory 1048576, not the requested 2097152") != NULL);
    EXPECT_OK(uc_close(again));
    EXPECT_OK(uc_open(path, &options, &again));
    EXPECT(uc_store_warning(again) == NULL);
    EXPECT_OK(uc_close(again));
    options.strict = 1;
    EXPECT_STATUS(uc_open(path, &options, &again), UC_MISUSE);
    EXPECT(strstr(uc_error_message(), "maxmemory 1048576, not the requested 2097152") != NULL);
    /* A program built before the `strict` field existed can open the store. */
    options.size = offsetof(uc_options, strict);
    EXPECT_OK(uc_open(path, &options, &again));
    EXPECT_OK(uc_close(again));
    EXPECT_OK(uc_close(store));
}

int main(int argc, char **argv)
{
    EXPECT(argc == 2);
    full(argv[1]);
    other_limits(argv[1]);
    return 0;
}
