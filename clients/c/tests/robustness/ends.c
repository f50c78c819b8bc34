/*
 * Tests calls made while a thread or the process ends: in destructors of thread-specific data and
 * in atexit() handlers, after the library's thread-local data was destroyed.
 */
#include <pthread.h>

#include "../every.h"

static uc_store *store;
static const char *path;
static uc_session *session;
static uc_reply *reply;
static pthread_key_t key;
static int ended;

static void make_all_calls(void)
{
    char value[8];
    size_t length;
    make_all(store, path, session, reply);
    /* A failing call and its message also work. */
    EXPECT_STATUS(uc_get(store, "list", 4, value, sizeof value, &length), UC_WRONG_TYPE);
    EXPECT(uc_error_message() != NULL);
    ended++;
}

static void end_thread(void *data)
{
    (void)data;
    make_all_calls();
}

static void *work(void *data)
{
    EXPECT(pthread_setspecific(key, data) == 0);
    make_all(store, path, session, reply);
    return NULL;
}

static void end_process(void)
{
    make_all_calls();
    if (ended != 3)
        _Exit(1);
    uc_session_close(session);
    uc_reply_free(reply);
    uc_close(store);
}

int main(int argc, char **argv)
{
    static const char *const push[] = { "RPUSH", "list", "item", "item", "item", "item", "item", "item", NULL };
    pthread_t thread;
    int i;
    EXPECT(argc == 2);
    path = argv[1];
    store = open_store(path);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_OK(command(session, reply, push));
    EXPECT(pthread_key_create(&key, end_thread) == 0);
    EXPECT(atexit(end_process) == 0);
    for (i = 0; i < 2; i++) {
        EXPECT(pthread_create(&thread, NULL, work, &key) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    make_all(store, path, session, reply);
    return 0;
}
