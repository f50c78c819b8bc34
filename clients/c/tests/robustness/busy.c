/*
 * Tests that calls return UC_BUSY and change nothing while a stopped process holds a lock, and that
 * they work again after that process is killed.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"

#define KEYS 500

static uint64_t *rounds;

static double microseconds(void)
{
    struct timespec now;
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* Waits until the child has finished another round. */
static void next_round(pid_t child)
{
    uint64_t done = __atomic_load_n(rounds, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(rounds, __ATOMIC_SEQ_CST) == done)
        EXPECT(waitpid(child, NULL, WNOHANG) == 0);
}

/* Sets all keys in a loop, so that this process holds all of their locks for part of each round. */
static void hold(const char *path)
{
    static uc_bytes keys[KEYS], values[KEYS];
    static char names[KEYS][16];
    uc_store *store = open_store(path);
    int i;
    for (i = 0; i < KEYS; i++) {
        snprintf(names[i], sizeof names[i], "key %d", i);
        keys[i] = values[i] = uc_text(names[i]);
    }
    for (;;) {
        EXPECT_OK(uc_mset(store, KEYS, keys, values));
        __atomic_add_fetch(rounds, 1, __ATOMIC_SEQ_CST);
    }
}

int main(int argc, char **argv)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_store *store;
    uc_session *session;
    uc_reply *reply;
    uc_bytes words[3], key = uc_text("key 1");
    uc_words twice[2];
    pid_t child;
    int status, result = UC_OK, tries;
    size_t length;
    double began, round;
    char pid[32];

    EXPECT(argc == 2);
    rounds = (uint64_t *)mmap(NULL, sizeof *rounds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(rounds != MAP_FAILED);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        EXPECT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        hold(argv[1]);
    }
    next_round(child);
    options.timeout_ms = 20;
    options.capacity = UINT64_C(1) << 30;
    EXPECT_OK(uc_open(argv[1], &options, &store));
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    for (tries = 0; result != UC_BUSY && tries < 1000; tries++) {
        /*
         * Stops the child at a different point in the round each time, because the child might not
         * hold the locks at a fixed point.
         */
        next_round(child);
        began = microseconds();
        next_round(child);
        round = microseconds() - began;
        while (microseconds() < began + round + round * (tries % 16) / 16)
            ;
        EXPECT(kill(child, SIGSTOP) == 0);
        EXPECT(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        result = uc_set(store, "key 1", 5, "mine", 4);
        if (result == UC_BUSY)
            break;
        EXPECT_OK(result);
        EXPECT(kill(child, SIGCONT) == 0);
    }
    EXPECT_STATUS(result, UC_BUSY);
    snprintf(pid, sizeof pid, "%d", (int)child);
    EXPECT(strstr(uc_error_message(), pid) != NULL);
    words[0] = uc_text("SET");
    words[1] = key;
    words[2] = uc_text("mine");
    twice[0].count = twice[1].count = 3;
    twice[0].words = twice[1].words = words;
    EXPECT_STATUS(uc_command(session, 3, words, reply), UC_BUSY);
    EXPECT_STATUS(uc_pipeline(session, 2, twice, reply), UC_BUSY);
    EXPECT(uc_value_length(uc_reply_value(reply)) == 0);
    EXPECT_STATUS(uc_transaction(session, 2, twice, reply), UC_BUSY);
    EXPECT_STATUS(uc_del(store, 1, &key, NULL), UC_BUSY);
    EXPECT_STATUS(uc_mset(store, 1, &key, &key), UC_BUSY);

    EXPECT(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    /*
     * With a timeout this short, several calls may fail before one of them checks whether the other
     * process is alive.
     */
    do
        result = uc_get(store, "key 1", 5, NULL, 0, &length);
    while (result == UC_BUSY);
    EXPECT_STATUS(result, UC_TOO_SMALL);
    EXPECT(length == 5 || length == 4);
    do
        result = uc_transaction(session, 2, twice, reply);
    while (result == UC_BUSY);
    EXPECT_OK(result);
    EXPECT(uc_value_length(uc_reply_value(reply)) == 2 && holds(store, "key 1", "mine"));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_close(store));
    return 0;
}
