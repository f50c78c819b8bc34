/*
 * Forks while other threads are in the middle of calls. Each child makes calls of every kind and
 * must not wait for a lock that only its parent can release. An alarm ends a child that hangs.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../every.h"

enum { THREADS = 3, CHILDREN = 150 };

static uc_store *store;
static const char *path;
static volatile int is_over;

static void *load(void *data)
{
    uc_session *session;
    uc_reply *reply;
    unsigned number = *(const unsigned *)data;
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    while (!is_over) {
        make(session, reply, number++);
        if (number % 16 == 0)
            make_typed(store, path);
    }
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_reply_free(reply));
    return NULL;
}

int main(int argc, char **argv)
{
    static const unsigned starts[THREADS] = { 0, 5, 12 };
    pthread_t threads[THREADS];
    uc_session *session;
    uc_reply *reply;
    unsigned i, seed = (unsigned)time(NULL);
    EXPECT(argc == 2);
    path = argv[1];
    store = open_store(path);
    printf("seed %u\n", seed);
    srand(seed);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    for (i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, load, (void *)&starts[i]) == 0);
    for (i = 0; i < CHILDREN; i++) {
        int status;
        pid_t child;
        volatile int spin;
        for (spin = rand() % 20000; spin > 0; spin--)
            ;
        child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            alarm(60);
            make_all(store, path, session, reply);
            _exit(0);
        }
        EXPECT(waitpid(child, &status, 0) == child);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    is_over = 1;
    for (i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_close(store));
    return 0;
}
