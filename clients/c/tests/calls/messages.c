/* Tests subscriptions: messages and their order, the descriptor, and lost messages. */
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static uc_store *store;
static uc_subscription *subscription;
static uc_reply *reply;

static uint64_t publish(const char *channel, const char *text)
{
    uint64_t receivers;
    EXPECT_OK(uc_publish(store, channel, strlen(channel), text, strlen(text), &receivers));
    return receivers;
}

static void expect_message(int64_t timeout, const char *kind, const char *first, const char *second, const char *third)
{
    const uc_value *message;
    EXPECT_OK(uc_subscription_next(subscription, timeout, reply));
    message = uc_reply_value(reply);
    EXPECT(uc_value_length(message) == (third != NULL ? 4u : 3u));
    EXPECT(is_text(uc_value_item(message, 0), kind) && is_text(uc_value_item(message, 1), first));
    EXPECT(is_text(uc_value_item(message, 2), second));
    EXPECT(third == NULL || is_text(uc_value_item(message, 3), third));
}

static void expect_none(int64_t timeout)
{
    EXPECT_STATUS(uc_subscription_next(subscription, timeout, reply), UC_NONE);
    EXPECT(uc_value_type(uc_reply_value(reply)) == UC_TYPE_NIL);
}

static void subscribed_messages(void)
{
    uc_bytes names[2];
    names[0] = uc_text("news");
    names[1] = uc_text("other");
    EXPECT(publish("news", "too early") == 0);
    expect_none(0);
    EXPECT_OK(uc_subscribe(subscription, UC_CHANNEL, 2, names));
    EXPECT_OK(uc_subscribe(subscription, UC_CHANNEL, 1, names));
    EXPECT(publish("news", "one") == 1);
    EXPECT(publish("nobody", "x") == 0);
    EXPECT(publish("other", "two") == 1);
    expect_message(0, "message", "news", "one", NULL);
    expect_message(-1, "message", "other", "two", NULL);
    expect_none(0);
    expect_none(1);

    /* A message that matches several subscriptions arrives once for each subscription. */
    names[0] = uc_text("n*");
    names[1] = uc_text("ne?s");
    EXPECT_OK(uc_subscribe(subscription, UC_PATTERN, 2, names));
    publish("news", "three");
    publish("nu", "four");
    expect_message(0, "message", "news", "three", NULL);
    expect_message(0, "pmessage", "n*", "news", "three");
    expect_message(0, "pmessage", "ne?s", "news", "three");
    expect_message(0, "pmessage", "n*", "nu", "four");
    expect_none(0);
    EXPECT_OK(uc_unsubscribe(subscription, UC_PATTERN, 2, names));
    publish("nu", "five");
    expect_none(0);

    names[0] = uc_text("slot");
    EXPECT_OK(uc_subscribe(subscription, UC_SHARD, 1, names));
    {
        uc_session *session;
        static const char *const words[] = { "SPUBLISH", "slot", "six", NULL };
        EXPECT_OK(uc_session_open(store, &session));
        EXPECT_OK(command(session, reply, words));
        EXPECT(uc_value_integer(uc_reply_value(reply)) == 1);
        EXPECT_OK(uc_session_close(session));
    }
    expect_message(0, "smessage", "slot", "six", NULL);
}

/* Tests an event loop that polls the descriptor and then receives all messages. */
static void descriptor(void)
{
    struct pollfd ready;
    pid_t child;
    int status, taken = 0;
    EXPECT_OK(uc_subscription_descriptor(subscription, &ready.fd));
    ready.events = POLLIN;
    expect_none(0);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        int i;
        for (i = 0; i < 100; i++)
            publish("news", "from a child");
        _exit(0);
    }
    while (taken < 100) {
        EXPECT(poll(&ready, 1, 10000) == 1);
        for (;;) {
            status = uc_subscription_next(subscription, 0, reply);
            if (status == UC_NONE)
                break;
            EXPECT_OK(status);
            EXPECT(is_text(uc_value_item(uc_reply_value(reply), 2), "from a child"));
            taken++;
        }
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void lost(void)
{
    static char body[8000];
    uint64_t count;
    int64_t told;
    int i;
    EXPECT_OK(uc_subscription_lost(subscription, &count));
    EXPECT(count == 0);
    /* Publish more than the 16 MiB that the message ring holds, so that messages are lost. */
    memset(body, 'x', sizeof body);
    for (i = 0; i < 2600; i++)
        EXPECT_OK(uc_publish(store, "news", 4, body, sizeof body, NULL));
    EXPECT_OK(uc_subscription_next(subscription, 0, reply));
    EXPECT(is_text(uc_value_item(uc_reply_value(reply), 0), "lost"));
    EXPECT(uc_value_type(uc_value_item(uc_reply_value(reply), 1)) == UC_TYPE_NIL);
    told = uc_value_integer(uc_value_item(uc_reply_value(reply), 2));
    EXPECT(told > 0 && told <= 2600);
    EXPECT_OK(uc_subscription_lost(subscription, &count));
    EXPECT(count == (uint64_t)told);
    publish("news", "after");
    do
        EXPECT_OK(uc_subscription_next(subscription, 0, reply));
    while (!is_text(uc_value_item(uc_reply_value(reply), 2), "after"));
}

int main(int argc, char **argv)
{
    EXPECT(argc == 2);
    store = open_store(argv[1]);
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_OK(uc_subscription_open(store, &subscription));
    subscribed_messages();
    descriptor();
    lost();
    EXPECT_OK(uc_subscription_close(subscription));
    EXPECT(publish("news", "late") == 0);
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_close(store));
    return 0;
}
