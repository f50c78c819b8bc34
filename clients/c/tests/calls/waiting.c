/*
 * Tests that a wait ends when an item arrives, when it times out, on a signal, or when another
 * thread ends it.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "../check.h"

static uc_store *store;
static uc_session *session;
static uc_reply *reply;
static volatile sig_atomic_t signalled;
static int asked, wanted;

static int is_interrupted(void *data)
{
    size_t length;
    /* During a wait, the callback may use the library. */
    EXPECT_STATUS(uc_get(store, "none", 4, NULL, 0, &length), UC_NONE);
    EXPECT(data == &asked);
    __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
    return signalled || __atomic_load_n(&wanted, __ATOMIC_SEQ_CST);
}

/* Ends a script. While a script runs, the callback must not use the library. */
static int is_called_off(void *data)
{
    EXPECT(data == &asked);
    return 1;
}

static void note_signal(int number)
{
    signalled = number;
}

static int pop(const char *timeout)
{
    uc_bytes words[3];
    words[0] = uc_text("BLPOP");
    words[1] = uc_text("queue");
    words[2] = uc_text(timeout);
    return uc_command(session, 3, words, reply);
}

static void *push(void *data)
{
    uc_session *other;
    uc_reply *pushed;
    static const char *const words[] = { "RPUSH", "queue", "item", NULL };
    (void)data;
    /* The wait has begun once it has called the callback. */
    while (__atomic_load_n(&asked, __ATOMIC_SEQ_CST) == 0)
        ;
    EXPECT_OK(uc_session_open(store, &other));
    EXPECT_OK(uc_reply_new(&pushed));
    EXPECT_OK(command(other, pushed, words));
    EXPECT_OK(uc_reply_free(pushed));
    EXPECT_OK(uc_session_close(other));
    return NULL;
}

static void *interrupt(void *data)
{
    (void)data;
    while (__atomic_load_n(&asked, __ATOMIC_SEQ_CST) == 0)
        ;
    __atomic_store_n(&wanted, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    struct sigaction action;
    struct itimerval soon;
    uc_subscription *subscription;
    uc_bytes name = uc_text("channel");
    static const char *const endless[] = { "EVAL", "while true do end", "0", NULL };

    EXPECT(argc == 2);
    store = open_store(argv[1]);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_OK(uc_set_interrupt(is_interrupted, &asked));

    EXPECT_OK(pop("0.001"));
    EXPECT(uc_value_type(uc_reply_value(reply)) == UC_TYPE_NIL);

    asked = 0;
    EXPECT(pthread_create(&thread, NULL, push, NULL) == 0);
    EXPECT_OK(pop("0"));
    EXPECT(is_text(uc_value_item(uc_reply_value(reply), 0), "queue"));
    EXPECT(is_text(uc_value_item(uc_reply_value(reply), 1), "item"));
    EXPECT(pthread_join(thread, NULL) == 0);

    asked = 0;
    EXPECT(pthread_create(&thread, NULL, interrupt, NULL) == 0);
    EXPECT_STATUS(pop("0"), UC_INTERRUPTED);
    EXPECT(pthread_join(thread, NULL) == 0);
    wanted = 0;

    memset(&action, 0, sizeof action);
    action.sa_handler = note_signal;
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    memset(&soon, 0, sizeof soon);
    soon.it_value.tv_usec = 1000;
    EXPECT(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    EXPECT_STATUS(pop("0"), UC_INTERRUPTED);
    signalled = 0;

    EXPECT_OK(uc_subscription_open(store, &subscription));
    EXPECT_OK(uc_subscribe(subscription, UC_CHANNEL, 1, &name));
    asked = 0;
    EXPECT(pthread_create(&thread, NULL, interrupt, NULL) == 0);
    EXPECT_STATUS(uc_subscription_next(subscription, -1, reply), UC_INTERRUPTED);
    EXPECT(pthread_join(thread, NULL) == 0);

    EXPECT_OK(uc_set_interrupt(is_called_off, &asked));
    EXPECT_STATUS(command(session, reply, endless), UC_INTERRUPTED);

    /* After the callback is removed, the session still works. */
    EXPECT_OK(uc_set_interrupt(NULL, NULL));
    EXPECT_OK(pop("0.001"));
    EXPECT_OK(uc_publish(store, "channel", 7, "text", 4, NULL));
    EXPECT_OK(uc_subscription_next(subscription, -1, reply));
    EXPECT_OK(uc_subscription_close(subscription));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_close(store));
    return 0;
}
