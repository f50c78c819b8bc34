/*
 * Tests that calls interrupted by signals lose no items. The signal handlers return, and an
 * interrupted call has removed nothing from the store.
 */
#include <signal.h>
#include <sys/time.h>

#include "../check.h"

#define ITEMS 20000

static volatile sig_atomic_t signals;
static uc_store *store;
static uc_session *session;
static uc_reply *reply;
static unsigned char received[ITEMS];
static int count, interrupted;

static void note_signal(int number)
{
    (void)number;
    signals++;
}

/* Ends the wait at every third signal. */
static int is_interrupted(void *data)
{
    static int last;
    int now = signals;
    (void)data;
    if (now == last)
        return 0;
    last = now;
    return now % 3 == 0;
}

/* Counts the items in a reply, each of which must appear once. */
static void count_all(const uc_value *value)
{
    size_t length = uc_value_length(value), at;
    if (uc_value_type(value) == UC_TYPE_ARRAY) {
        for (at = 0; at < length; at++)
            count_all(uc_value_item(value, at));
    } else if (uc_value_type(value) == UC_TYPE_STRING) {
        const char *text = uc_value_string(value, &length);
        if (text[0] >= '0' && text[0] <= '9') {
            int number = atoi(text);
            EXPECT(number < ITEMS && !received[number]);
            received[number] = 1;
            count++;
        }
    }
}

static void count_reply(int status)
{
    if (status == UC_INTERRUPTED) {
        interrupted++;
        return;
    }
    EXPECT_OK(status);
    count_all(uc_reply_value(reply));
}

static long length_of(const char *key)
{
    uc_bytes words[] = { uc_text("LLEN"), uc_text(key) };
    EXPECT_OK(uc_command(session, 2, words, reply));
    return (long)uc_value_integer(uc_reply_value(reply));
}

/*
 * Tests that a binding can put back the items that the last call removed, even if a signal handler
 * has removed more items in the meantime.
 */
static void gives_back(void)
{
    static const char *const push[] = { "RPUSH", "back", "1", "2", "3", "4", NULL }, *const pop[] = { "LPOP", "back", NULL },
                            *const multi[] = { "MULTI", NULL }, *const exec[] = { "EXEC", NULL },
                            *const range[] = { "LRANGE", "back", "0", "-1", NULL }, *const gone[] = { "DEL", "back", NULL };
    uc_bytes words[2] = { uc_text("LPOP"), uc_text("back") };
    uc_words commands[2] = { { 2, words }, { 2, words } };
    size_t length;
    int way;
    EXPECT_OK(uc_taken(session, UC_TAKEN_KEEP));
    EXPECT_OK(command(session, reply, push));
    for (way = 0; way < 4; way++) {
        switch (way) {
            case 0:
                EXPECT_OK(command(session, reply, pop));
                break;
            case 1:
                EXPECT_OK(uc_pipeline(session, 2, commands, reply));
                break;
            case 2:
                EXPECT_OK(uc_transaction(session, 2, commands, reply));
                break;
            default:
                EXPECT_OK(command(session, reply, multi));
                EXPECT_OK(command(session, reply, pop));
                EXPECT_OK(command(session, reply, exec));
        }
        EXPECT_OK(uc_taken(session, UC_TAKEN_HOLD));
        EXPECT(length_of("back") == (way == 0 || way == 3 ? 3 : 2));
        EXPECT_OK(uc_taken(session, UC_TAKEN_GIVE_BACK));
        EXPECT_OK(command(session, reply, range));
        EXPECT(uc_value_length(uc_reply_value(reply)) == 4);
        EXPECT(memcmp(uc_value_string(uc_value_item(uc_reply_value(reply), 0), &length), "1", 2) == 0);
    }
    /*
     * The signal handler takes an item and returns normally, so only the interrupted call's item
     * can be put back.
     */
    EXPECT_OK(command(session, reply, pop));
    EXPECT_OK(uc_taken(session, UC_TAKEN_HOLD));
    EXPECT_OK(command(session, reply, pop));
    EXPECT_OK(uc_taken(session, UC_TAKEN_RESUME));
    EXPECT_OK(uc_taken(session, UC_TAKEN_HOLD));
    EXPECT_OK(uc_taken(session, UC_TAKEN_GIVE_BACK));
    EXPECT(length_of("back") == 3);
    /* UC_TAKEN_GIVE_BACK has cleared the record, so a repeated call puts back nothing. */
    EXPECT_OK(uc_taken(session, UC_TAKEN_HOLD));
    EXPECT_OK(uc_taken(session, UC_TAKEN_GIVE_BACK));
    EXPECT(length_of("back") == 3);
    EXPECT_STATUS(uc_taken(session, 9), UC_MISUSE);
    EXPECT_OK(command(session, reply, gone));
}

int main(int argc, char **argv)
{
    static const char *const pop[] = { "LPOP", "queue", "3", NULL }, *const wait[] = { "BRPOP", "queue", "0.001", NULL },
                            *const none[] = { "BLPOP", "none", "0.0005", NULL };
    uc_bytes words[3];
    uc_words commands[2];
    struct sigaction action;
    struct itimerval often;
    char text[16];
    int i;

    EXPECT(argc == 2);
    store = open_store(argv[1]);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    gives_back();
    words[0] = uc_text("RPUSH");
    words[1] = uc_text("queue");
    for (i = 0; i < ITEMS; i++) {
        snprintf(text, sizeof text, "%d", i);
        words[2] = uc_text(text);
        EXPECT_OK(uc_command(session, 3, words, reply));
    }
    words[0] = uc_text("RPOP");
    commands[0].count = commands[1].count = 2;
    commands[0].words = commands[1].words = words;

    EXPECT_OK(uc_set_interrupt(is_interrupted, NULL));
    memset(&action, 0, sizeof action);
    /* Without SA_RESTART, system calls fail with EINTR. */
    action.sa_handler = note_signal;
    EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
    memset(&often, 0, sizeof often);
    often.it_value.tv_usec = often.it_interval.tv_usec = 50;
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (i = 0; count < ITEMS; i++) {
        switch (i % 5) {
            case 0:
                count_reply(command(session, reply, pop));
                break;
            case 1:
                count_reply(command(session, reply, wait));
                break;
            case 2:
                /* Signals arrive while this call waits, and it finds no item. */
                if (i % 25 == 2)
                    count_reply(command(session, reply, none));
                break;
            case 3:
                count_reply(uc_pipeline(session, 2, commands, reply));
                break;
            default:
                count_reply(uc_transaction(session, 2, commands, reply));
        }
        /* This limit ends the loop if an item was lost. */
        EXPECT(i < 100 * ITEMS);
    }
    memset(&often, 0, sizeof often);
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    EXPECT(signals > 0 && interrupted > 0);
    EXPECT_OK(uc_set_interrupt(NULL, NULL));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_close(store));
    return 0;
}
