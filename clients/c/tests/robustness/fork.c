/*
 * Tests that a child can use inherited handles alongside its parent, except a handle that another
 * thread was using at the fork.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static uc_store *store;
static uc_session *session;
static uc_reply *reply;

static void expect_success(pid_t child)
{
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int64_t run(const char *name, const char *key)
{
    uc_bytes words[2];
    words[0] = uc_text(name);
    words[1] = uc_text(key);
    EXPECT_OK(uc_command(session, 2, words, reply));
    return uc_value_integer(uc_reply_value(reply));
}

/*
 * Tests counting by a parent and its children, with typed calls and with commands. Each child forks
 * again.
 */
static void count_together(int depth)
{
    pid_t children[3];
    int i;
    for (i = 0; i < 3; i++) {
        children[i] = fork();
        EXPECT(children[i] >= 0);
        if (children[i] == 0) {
            if (depth > 1)
                count_together(depth - 1);
            for (i = 0; i < 200; i++) {
                EXPECT_OK(uc_incr(store, "typed", 5, 1, NULL));
                run("INCR", "worded");
            }
            _exit(0);
        }
    }
    for (i = 0; i < 3; i++)
        expect_success(children[i]);
}

/*
 * Tests that the parent and the child each have their own copy of an open transaction after a fork.
 */
static void transactions(void)
{
    static const char *const multi[] = { "MULTI", NULL }, *const exec[] = { "EXEC", NULL };
    pid_t child;
    EXPECT_OK(command(session, reply, multi));
    run("INCR", "both");
    child = fork();
    EXPECT(child >= 0);
    EXPECT_OK(command(session, reply, exec));
    EXPECT(uc_value_length(uc_reply_value(reply)) == 1);
    if (child == 0)
        _exit(0);
    expect_success(child);
    EXPECT(holds(store, "both", "2"));
}

/*
 * Tests that messages between the fork and the child's first call are reported to the child as
 * lost, and that it receives later messages.
 */
static void subscriptions(void)
{
    uc_subscription *subscription;
    uc_bytes name = uc_text("channel");
    pid_t child;
    int pipes[2], start[2];
    char word;
    EXPECT(pipe(pipes) == 0 && pipe(start) == 0);
    EXPECT_OK(uc_subscription_open(store, &subscription));
    EXPECT_OK(uc_subscribe(subscription, UC_CHANNEL, 1, &name));
    EXPECT_OK(uc_publish(store, "channel", 7, "of the parent", 13, NULL));
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        const uc_value *event;
        EXPECT(read(start[0], &word, 1) == 1);
        EXPECT_OK(uc_subscription_next(subscription, 0, reply));
        event = uc_reply_value(reply);
        EXPECT(is_text(uc_value_item(event, 0), "lost"));
        /* The count includes the message that the parent published before the fork. */
        EXPECT(uc_value_integer(uc_value_item(event, 2)) == 3);
        EXPECT_STATUS(uc_subscription_next(subscription, 0, reply), UC_NONE);
        EXPECT(write(pipes[1], "r", 1) == 1);
        EXPECT_OK(uc_subscription_next(subscription, -1, reply));
        EXPECT(is_text(uc_value_item(uc_reply_value(reply), 2), "of both"));
        _exit(0);
    }
    EXPECT_OK(uc_publish(store, "channel", 7, "meanwhile", 9, NULL));
    EXPECT_OK(uc_publish(store, "channel", 7, "meanwhile", 9, NULL));
    EXPECT(write(start[1], "s", 1) == 1);
    EXPECT(read(pipes[0], &word, 1) == 1);
    EXPECT_OK(uc_publish(store, "channel", 7, "of both", 7, NULL));
    EXPECT_OK(uc_subscription_next(subscription, -1, reply));
    EXPECT(is_text(uc_value_item(uc_reply_value(reply), 2), "of the parent"));
    for (word = 0; word < 2; word++) {
        EXPECT_OK(uc_subscription_next(subscription, -1, reply));
        EXPECT(is_text(uc_value_item(uc_reply_value(reply), 2), "meanwhile"));
    }
    EXPECT_OK(uc_subscription_next(subscription, -1, reply));
    EXPECT(is_text(uc_value_item(uc_reply_value(reply), 2), "of both"));
    expect_success(child);
    EXPECT_OK(uc_subscription_close(subscription));
}

/* Waits for a key in a thread, so that the session is in use. */
static void *wait_for_key(void *data)
{
    uc_bytes words[3];
    uc_reply *popped;
    int status;
    (void)data;
    words[0] = uc_text("BLPOP");
    words[1] = uc_text("queue");
    words[2] = uc_text("0");
    EXPECT_OK(uc_reply_new(&popped));
    /* Retry, because the main thread sometimes uses the session too. */
    do
        status = uc_command(session, 3, words, popped);
    while (status == UC_MISUSE);
    EXPECT_OK(status);
    EXPECT(is_text(uc_value_item(uc_reply_value(popped), 1), "item"));
    EXPECT_OK(uc_reply_free(popped));
    return NULL;
}

/* Tests that a child can neither read nor free its parent's objects. */
static void objects(void)
{
    static char bytes[200000];
    uc_object *got, *taken;
    char id[UC_OBJECT_ID], second[UC_OBJECT_ID];
    size_t length;
    pid_t child;
    memset(bytes, 7, sizeof bytes);
    EXPECT_OK(uc_object_put(store, bytes, sizeof bytes, 0, id));
    EXPECT_OK(uc_object_get(store, id, strlen(id), &got));
    EXPECT_OK(uc_object_take(store, id, strlen(id), &taken));
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        uc_object_data(got, &length);
        EXPECT(length == 0);
        uc_object_data(taken, &length);
        EXPECT(length == 0);
        EXPECT_OK(uc_object_close(got));
        EXPECT_OK(uc_object_close(taken));
        EXPECT_OK(uc_object_put(store, bytes, sizeof bytes, 0, second));
        EXPECT(strcmp(id, second) != 0);
        EXPECT_OK(uc_object_del(store, second, strlen(second)));
        _exit(0);
    }
    expect_success(child);
    EXPECT(memcmp(uc_object_data(got, &length), bytes, sizeof bytes) == 0 && length == sizeof bytes);
    EXPECT(memcmp(uc_object_data(taken, &length), bytes, sizeof bytes) == 0 && length == sizeof bytes);
    EXPECT_OK(uc_object_close(got));
    EXPECT_OK(uc_object_close(taken));
}

static void in_use(void)
{
    pthread_t thread;
    pid_t child;
    uc_bytes ping = uc_text("PING");
    uc_session *other;
    static const char *const push[] = { "RPUSH", "queue", "item", NULL };
    EXPECT(pthread_create(&thread, NULL, wait_for_key, NULL) == 0);
    /* The thread starts to use the session at an unknown time after this point. */
    while (uc_command(session, 1, &ping, reply) == UC_OK)
        ;
    EXPECT_STATUS(uc_command(session, 1, &ping, reply), UC_MISUSE);
    EXPECT_STATUS(uc_session_close(session), UC_MISUSE);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        EXPECT_STATUS(uc_command(session, 1, &ping, reply), UC_MISUSE);
        EXPECT_OK(uc_incr(store, "typed", 5, 1, NULL));
        EXPECT_OK(uc_session_open(store, &other));
        EXPECT_OK(uc_command(other, 1, &ping, reply));
        _exit(0);
    }
    expect_success(child);
    EXPECT_OK(uc_session_open(store, &other));
    EXPECT_OK(command(other, reply, push));
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT_OK(uc_command(session, 1, &ping, reply));
    EXPECT_OK(uc_session_close(other));
}

int main(int argc, char **argv)
{
    EXPECT(argc == 2);
    store = open_store(argv[1]);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    count_together(2);
    EXPECT(holds(store, "typed", "2400") && holds(store, "worded", "2400"));
    transactions();
    subscriptions();
    objects();
    in_use();
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_close(store));
    return 0;
}
