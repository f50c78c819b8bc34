/*
 * Tests a store whose file is removed or replaced. Calls continue in the store that the name refers
 * to now. A wait, transaction or subscription that began in the old store ends with UC_REMOVED.
 * Also tests the names of stores.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "../check.h"

static char url[4096];

/* Writes until this process notices that the file was removed, which it checks once a second. */
static void wait_for_removal(const char *path)
{
    uc_store *probe;
    int status;
    snprintf(url, sizeof url, "undercroft://%s?on_removed=error", path);
    EXPECT_OK(uc_open(url, NULL, &probe));
    EXPECT(unlink(path) == 0);
    do
        status = set(probe, "probe", "v");
    while (status == UC_OK);
    EXPECT_STATUS(status, UC_REMOVED);
    EXPECT(strstr(uc_error_message(), "was removed or replaced") != NULL);
    /*
     * A client that was opened with on_removed=error continues to return the error and does not
     * create the store again.
     */
    EXPECT_STATUS(set(probe, "probe", "v"), UC_REMOVED);
    EXPECT(access(path, F_OK) != 0);
    EXPECT_OK(uc_close(probe));
}

static void calls_continue(const char *path)
{
    uc_store *store = open_store(path), *other;
    int round;
    for (round = 0; round < 3; round++) {
        uc_bytes name = uc_text("new");
        EXPECT_OK(set(store, "old", "1"));
        EXPECT(uc_del(store, 1, &name, NULL) == UC_OK);
        EXPECT(unlink(path) == 0);
        other = open_store(path);
        EXPECT_OK(set(other, "new", "1"));
        while (!holds(store, "new", "1"))
            EXPECT_OK(set(store, "k", "v"));
        EXPECT(holds(store, "old", NULL));
        EXPECT(holds(other, "k", "v"));
        EXPECT_OK(uc_close(other));
    }
    EXPECT_OK(uc_close(store));
}

/*
 * Tests that reads of missing keys, which neither write nor update an access time, continue after a
 * removal.
 */
static void misses_continue(const char *path)
{
    uc_store *store = open_store(path);
    EXPECT(unlink(path) == 0);
    while (access(path, F_OK) != 0)
        EXPECT(holds(store, "absent", NULL));
    EXPECT_OK(uc_close(store));
}

static void sessions(const char *path)
{
    static const char *const watch[] = { "WATCH", "k", NULL }, *const unwatch[] = { "UNWATCH", NULL };
    static const char *const write[] = { "SET", "k", "v", NULL }, *const size[] = { "DBSIZE", NULL };
    static const char *const multi[] = { "MULTI", NULL }, *const exec[] = { "EXEC", NULL };
    uc_store *store = open_store(path);
    uc_session *idle, *busy;
    uc_reply *reply;
    EXPECT_OK(uc_session_open(store, &idle));
    EXPECT_OK(uc_session_open(store, &busy));
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_OK(command(idle, reply, write));
    EXPECT_OK(command(busy, reply, watch));
    wait_for_removal(path);
    EXPECT_STATUS(command(busy, reply, write), UC_REMOVED);
    EXPECT_OK(command(idle, reply, size));
    EXPECT(uc_value_integer(uc_reply_value(reply)) == 0);
    EXPECT_OK(command(idle, reply, write));
    EXPECT_OK(command(busy, reply, unwatch));
    EXPECT_OK(command(busy, reply, multi));
    EXPECT_OK(command(busy, reply, write));
    wait_for_removal(path);
    EXPECT_STATUS(command(busy, reply, exec), UC_REMOVED);
    EXPECT_OK(command(idle, reply, write));
    EXPECT_OK(command(busy, reply, size));
    EXPECT(uc_value_integer(uc_reply_value(reply)) == 1);
    /* Without a probe, the client itself notices the removal and creates the store again. */
    EXPECT(unlink(path) == 0);
    while (access(path, F_OK) != 0)
        EXPECT_OK(command(idle, reply, size));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_session_close(idle));
    EXPECT_OK(uc_session_close(busy));
    EXPECT_OK(uc_close(store));
}

/*
 * Tests that a wait in progress ends with the error, and that the next call continues in the new
 * store.
 */
static void waits_end(const char *path)
{
    static const char *const wait[] = { "BLPOP", "jobs", "0", NULL }, *const push[] = { "RPUSH", "jobs", "one", NULL };
    uc_store *store = open_store(path);
    uc_session *session;
    uc_reply *reply;
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT(unlink(path) == 0);
    EXPECT_STATUS(command(session, reply, wait), UC_REMOVED);
    EXPECT_OK(command(session, reply, push));
    EXPECT_OK(command(session, reply, wait));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_close(store));
}

static void subscriptions_and_objects(const char *path)
{
    static char bytes[100000];
    uc_store *store = open_store(path);
    uc_subscription *old, *next;
    uc_object *object, *none;
    uc_reply *reply;
    char id[UC_OBJECT_ID];
    uc_bytes news = uc_text("news");
    uint64_t receivers;
    size_t length;
    memset(bytes, 'x', sizeof bytes);
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_OK(uc_subscription_open(store, &old));
    EXPECT_OK(uc_subscribe(old, UC_CHANNEL, 1, &news));
    EXPECT_OK(uc_object_put(store, bytes, sizeof bytes, 0, id));
    EXPECT_OK(uc_object_get(store, id, strlen(id), &object));
    wait_for_removal(path);
    EXPECT_STATUS(uc_subscription_next(old, -1, reply), UC_REMOVED);
    EXPECT(memcmp(uc_object_data(object, &length), bytes, sizeof bytes) == 0 && length == sizeof bytes);
    EXPECT_STATUS(uc_object_get(store, id, strlen(id), &none), UC_NONE);
    EXPECT_OK(uc_object_put(store, bytes, sizeof bytes, 0, id));
    EXPECT_OK(uc_subscription_open(store, &next));
    EXPECT_OK(uc_subscribe(next, UC_CHANNEL, 1, &news));
    EXPECT_OK(uc_publish(store, "news", 4, "text", 4, &receivers));
    EXPECT(receivers == 1);
    EXPECT_OK(uc_subscription_next(next, -1, reply));
    EXPECT_OK(uc_object_close(object));
    EXPECT_OK(uc_subscription_close(old));
    EXPECT_OK(uc_subscription_close(next));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_close(store));
}

/* Tests that a store that was full before its file was removed reports the removal. */
static void removed_and_full(const char *path)
{
    static char value[10000];
    uc_options options = UC_OPTIONS_INIT;
    uc_store *store;
    char key[32];
    int i, status = UC_OK;
    options.capacity = UINT64_C(1) << 30;
    options.max_memory = 1 << 20;
    options.policy = "noeviction";
    snprintf(url, sizeof url, "undercroft://%s?on_removed=error", path);
    EXPECT_OK(uc_open(url, &options, &store));
    for (i = 0; status == UC_OK; i++) {
        snprintf(key, sizeof key, "key %d", i);
        status = uc_set(store, key, strlen(key), value, sizeof value);
    }
    EXPECT_STATUS(status, UC_FULL);
    EXPECT(unlink(path) == 0);
    EXPECT_STATUS(uc_set(store, "k", 1, value, sizeof value), UC_REMOVED);
    EXPECT(strstr(uc_error_message(), "OOM") == NULL);
    EXPECT(strstr(uc_error_message(), "was removed or replaced") != NULL);
    EXPECT_OK(uc_close(store));
}

static void names(const char *path)
{
    uc_store *first, *second;
    uc_options options = UC_OPTIONS_INIT;
    char file[4096];
    (void)path;
    EXPECT_STATUS(uc_open("x", NULL, &first), UC_MISUSE);
    EXPECT(strstr(uc_error_message(), "undercroft://x") != NULL && strstr(uc_error_message(), "./x") != NULL);
    EXPECT(access("x", F_OK) != 0);
    EXPECT_STATUS(uc_open("undercroft://x/16", NULL, &first), UC_MISUSE);
    EXPECT_STATUS(uc_open("undercroft://x?on_removed=retry", NULL, &first), UC_MISUSE);
    EXPECT(strstr(uc_error_message(), "on_removed") != NULL);
    EXPECT_STATUS(uc_open("undercroft://x?nosuch=1", NULL, &first), UC_MISUSE);
    options.capacity = UINT64_C(1) << 30;
    snprintf(url, sizeof url, "undercroft://c-test-%ld/1", (long)getpid());
    snprintf(file, sizeof file, "/dev/shm/undercroft-%ld/c-test-%ld", (long)geteuid(), (long)getpid());
    EXPECT_OK(uc_open(url, &options, &first));
    EXPECT(access(file, F_OK) == 0);
    EXPECT_OK(set(first, "k", "in 1"));
    options.database = 1;
    *strrchr(url, '/') = 0;
    EXPECT_OK(uc_open(url, &options, &second));
    EXPECT(holds(second, "k", "in 1"));
    EXPECT_OK(uc_close(second));
    options.database = 0;
    EXPECT_OK(uc_open(url, &options, &second));
    EXPECT(holds(second, "k", NULL));
    EXPECT_OK(uc_close(second));
    EXPECT_OK(uc_close(first));
    EXPECT(unlink(file) == 0);
}

int main(int argc, char **argv)
{
    static void (*const parts[])(const char *) = {
        calls_continue, misses_continue, sessions, waits_end, subscriptions_and_objects, removed_and_full, names,
    };
    size_t i;
    EXPECT(argc == 2);
    for (i = 0; i < sizeof parts / sizeof *parts; i++) {
        unlink(argv[1]);
        parts[i](argv[1]);
    }
    return 0;
}
