/* Tests threads that share a store, each with its own session, reply and last failure. */
#include <pthread.h>

#include "../check.h"

#define THREADS 8
#define ROUNDS 2000

static uc_store *store;
static const char *path;
static int refused;

/*
 * Opens and closes handles in all threads at the same time, and checks that no handles are mixed
 * up.
 */
static void *work(void *data)
{
    int number = *(int *)data, i;
    char name[32], wanted[64];
    uc_reply *reply;
    uc_session *session;
    uc_store *mine;
    snprintf(name, sizeof name, "thread %d", number);
    snprintf(wanted, sizeof wanted, "ERR unknown command 'NO%d', with args beginning with: ", number);
    for (i = 0; i < ROUNDS; i++) {
        char text[32], unknown[16];
        uc_bytes words[2];
        snprintf(text, sizeof text, "%d", i);
        snprintf(unknown, sizeof unknown, "NO%d", number);
        EXPECT_OK(uc_incr(store, "all", 3, 1, NULL));
        EXPECT_OK(set(store, name, text));
        EXPECT(holds(store, name, text));
        if (i % 100 == 0) {
            EXPECT_OK(uc_open(path, NULL, &mine));
            EXPECT(holds(mine, name, text));
            EXPECT_OK(uc_session_open(mine, &session));
            EXPECT_OK(uc_close(mine));
            EXPECT_OK(uc_reply_new(&reply));
        }
        words[0] = uc_text("GET");
        words[1] = uc_text(name);
        EXPECT_OK(uc_command(session, 2, words, reply));
        EXPECT(is_text(uc_reply_value(reply), text));
        words[0] = uc_text(unknown);
        EXPECT_STATUS(uc_command(session, 1, words, reply), UC_ERROR);
        EXPECT(strcmp(uc_error_message(), wanted) == 0);
        if (i % 100 == 99) {
            EXPECT_OK(uc_reply_free(reply));
            EXPECT_OK(uc_session_close(session));
        }
    }
    return NULL;
}

static uc_session *contended;
static int64_t answered;

/*
 * Tests that a session accepts one of several threads and refuses the others, and that no thread
 * receives another thread's reply.
 */
static void *contend(void *data)
{
    uc_reply *reply;
    uc_bytes words[2];
    int i;
    (void)data;
    words[0] = uc_text("INCR");
    words[1] = uc_text("contended");
    EXPECT_OK(uc_reply_new(&reply));
    for (i = 0; i < 20000; i++) {
        int status = uc_command(contended, 2, words, reply);
        if (status == UC_OK)
            __atomic_add_fetch(&answered, 1, __ATOMIC_SEQ_CST);
        else {
            EXPECT_STATUS(status, UC_MISUSE);
            __atomic_add_fetch(&refused, 1, __ATOMIC_SEQ_CST);
        }
    }
    EXPECT_OK(uc_reply_free(reply));
    return NULL;
}

static uc_reply *finished;

/* Tests that any number of threads can read a finished reply. */
static void *read_finished(void *data)
{
    int i;
    (void)data;
    for (i = 0; i < 100000; i++)
        EXPECT(is_text(uc_reply_value(finished), "PONG"));
    return NULL;
}

int main(int argc, char **argv)
{
    uc_bytes ping = uc_text("PING");
    pthread_t threads[THREADS];
    int numbers[THREADS], i;
    char wanted[32];
    EXPECT(argc == 2);
    path = argv[1];
    store = open_store(path);
    for (i = 0; i < THREADS; i++) {
        numbers[i] = i;
        EXPECT(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    snprintf(wanted, sizeof wanted, "%d", THREADS * ROUNDS);
    EXPECT(holds(store, "all", wanted));

    EXPECT_OK(uc_session_open(store, &contended));
    EXPECT_OK(uc_reply_new(&finished));
    EXPECT(uc_value_type(uc_reply_value(finished)) == UC_TYPE_NIL);
    EXPECT_OK(uc_command(contended, 1, &ping, finished));
    for (i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, read_finished, NULL) == 0);
    for (i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT_OK(uc_reply_free(finished));
    EXPECT(uc_reply_value(finished) == NULL);
    for (i = 0; i < 2; i++)
        EXPECT(pthread_create(&threads[i], NULL, contend, NULL) == 0);
    for (i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    snprintf(wanted, sizeof wanted, "%d", (int)answered);
    EXPECT(answered > 0 && answered + refused == 40000 && holds(store, "contended", wanted));
    EXPECT_OK(uc_session_close(contended));
    EXPECT_OK(uc_close(store));
    return 0;
}
