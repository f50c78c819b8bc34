/*
 * Tests a store with a journal: all processes are killed, the store's file is removed, and the next
 * process that opens the store recovers it. Also tests the options that choose the mode.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

#define WRITERS 3
#define ENOUGH 100

static char folder[4096];

static uc_store *open_durable(const char *path)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_store *store;
    options.capacity = UINT64_C(1) << 30;
    options.durability = "always";
    options.journal = folder;
    EXPECT_OK(uc_open(path, &options, &store));
    return store;
}

/* Writes numbered keys, and reports each one after the call that wrote it has returned. */
static void write_forever(const char *path, int writer, int out)
{
    uc_store *store = open_durable(path);
    char key[32];
    int number;
    for (number = 0;; number++) {
        snprintf(key, sizeof key, "%d:%d", writer, number);
        EXPECT_OK(set(store, key, "value"));
        if (write(out, &writer, sizeof writer) != sizeof writer)
            _exit(1);
    }
}

static void acknowledged_writes_survive(const char *path)
{
    int out[2], known[WRITERS] = { 0 }, i, number, writer, left = 0;
    pid_t children[WRITERS];
    uc_store *store;
    char key[32];
    EXPECT(pipe(out) == 0);
    for (i = 0; i < WRITERS; i++) {
        children[i] = fork();
        EXPECT(children[i] >= 0);
        if (children[i] == 0) {
            close(out[0]);
            write_forever(path, i, out[1]);
        }
    }
    close(out[1]);
    while (left < WRITERS * ENOUGH) {
        EXPECT(read(out[0], &writer, sizeof writer) == sizeof writer);
        known[writer]++;
        left++;
    }
    for (i = 0; i < WRITERS; i++)
        EXPECT(kill(children[i], SIGKILL) == 0);
    /* The calls whose reports are still in the pipe have returned as well. */
    while (read(out[0], &writer, sizeof writer) == sizeof writer)
        known[writer]++;
    close(out[0]);
    for (i = 0; i < WRITERS; i++)
        EXPECT(waitpid(children[i], NULL, 0) == children[i]);
    EXPECT(unlink(path) == 0);
    store = open_durable(path);
    for (i = 0; i < WRITERS; i++) {
        for (number = 0; number < known[i]; number++) {
            snprintf(key, sizeof key, "%d:%d", i, number);
            EXPECT(holds(store, key, "value"));
        }
    }
    EXPECT_OK(uc_close(store));
}

static void options_are_checked(const char *path)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_store *store;
    static char url[8192];
    options.durability = "sometimes";
    EXPECT_STATUS(uc_open(path, &options, &store), UC_MISUSE);
    EXPECT(strstr(uc_error_message(), "'none', 'everysec' or 'always'") != NULL);
    EXPECT(access(path, F_OK) != 0);
    /* An existing store keeps its mode. */
    store = open_durable(path);
    options.durability = "everysec";
    {
        uc_store *other;
        const char *warning;
        EXPECT_OK(uc_open(path, &options, &other));
        warning = uc_store_warning(other);
        EXPECT(warning != NULL && strstr(warning, "has durability always, not the requested everysec") != NULL);
        EXPECT_OK(uc_close(other));
        options.strict = 1;
        EXPECT_STATUS(uc_open(path, &options, &other), UC_MISUSE);
        options.strict = 0;
    }
    EXPECT_OK(set(store, "k", "v"));
    EXPECT_OK(uc_close(store));
    /* The same options in the URL. */
    EXPECT(unlink(path) == 0);
    snprintf(url, sizeof url, "undercroft://%s?durability=always&journal=%s", path, folder);
    EXPECT_OK(uc_open(url, NULL, &store));
    EXPECT(holds(store, "k", "v"));
    EXPECT_OK(uc_close(store));
}

/* Returns a number of INFO persistence. */
static long long persistence(const uc_value *text, const char *name)
{
    const char *found = uc_value_string(text, NULL);
    EXPECT(found != NULL && (found = strstr(found, name)) != NULL);
    return atoll(found + strlen(name));
}

/* No change of a pipeline is durable before the pipeline ends, and all are afterwards. */
static void pipeline_waits_once(const char *path)
{
    uc_store *store = open_durable(path);
    uc_session *session;
    uc_reply *reply;
    int round, waited_once = 0;
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    /* The thread that syncs once a second may sync during a pipeline. */
    for (round = 0; round < 50 && !waited_once; round++) {
        uc_bytes words[10][3], info[2] = { uc_text("INFO"), uc_text("persistence") };
        uc_words commands[11];
        char values[10][32];
        long long before;
        int i;
        EXPECT_OK(uc_command(session, 2, info, reply));
        before = persistence(uc_reply_value(reply), "journal_durable_position:");
        for (i = 0; i < 10; i++) {
            snprintf(values[i], sizeof values[i], "%d:%d", round, i);
            words[i][0] = uc_text("SET");
            words[i][1] = uc_text("k");
            words[i][2] = uc_text(values[i]);
            commands[i].count = 3;
            commands[i].words = words[i];
        }
        commands[10].count = 2;
        commands[10].words = info;
        EXPECT_OK(uc_pipeline(session, 11, commands, reply));
        waited_once = persistence(uc_value_item(uc_reply_value(reply), 10), "journal_durable_position:") == before;
        EXPECT_OK(uc_command(session, 2, info, reply));
        EXPECT(persistence(uc_reply_value(reply), "journal_lag_bytes:") == 0);
    }
    EXPECT(waited_once);
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_close(store));
}

static int is_interrupted(void *data)
{
    (void)data;
    return 1;
}

/* A recovery, or the wait for one, ends when the program's function says so, and changes nothing. */
static void recovery_can_be_interrupted(const char *path)
{
    uc_store *store = open_durable(path);
    EXPECT_OK(set(store, "k", "v"));
    EXPECT_OK(uc_close(store));
    EXPECT(unlink(path) == 0);
    uc_set_interrupt(is_interrupted, NULL);
    {
        uc_options options = UC_OPTIONS_INIT;
        options.journal = folder;
        EXPECT_STATUS(uc_open(path, &options, &store), UC_INTERRUPTED);
        EXPECT(strstr(uc_error_message(), "interrupted") != NULL);
        EXPECT(access(path, F_OK) != 0);
    }
    uc_set_interrupt(NULL, NULL);
    store = open_durable(path);
    EXPECT(holds(store, "k", "v"));
    EXPECT_OK(uc_close(store));
}

/* Removes the store and its journal. */
static void remove_all(const char *path)
{
    static char line[9000];
    unlink(path);
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    EXPECT(system(line) == 0);
}

int main(int argc, char **argv)
{
    EXPECT(argc == 2);
    snprintf(folder, sizeof folder, "%s-journal", argv[1]);
    options_are_checked(argv[1]);
    remove_all(argv[1]);
    acknowledged_writes_survive(argv[1]);
    remove_all(argv[1]);
    pipeline_waits_once(argv[1]);
    remove_all(argv[1]);
    recovery_can_be_interrupted(argv[1]);
    remove_all(argv[1]);
    return 0;
}
