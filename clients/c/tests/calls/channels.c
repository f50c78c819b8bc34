/*
 * Tests channels: bounded queues of messages, which a closed channel, a killed process and a fork do
 * not disturb.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static uc_channel *open_channel(uc_store *store, const char *name, uint64_t bound)
{
    uc_channel *channel;
    EXPECT_OK(uc_channel_open(store, name, strlen(name), bound, 0, &channel));
    return channel;
}

/* Checks a message and closes it. */
static void expect_message(uc_object *message, int kind, const void *wanted, size_t length)
{
    size_t found;
    const void *data = uc_object_data(message, &found);
    EXPECT(uc_object_kind(message) == kind);
    EXPECT(found == length && memcmp(data, wanted, length) == 0);
    EXPECT(length == 0 || kind == 's' || (uintptr_t)data % 8 == 0);
    EXPECT_OK(uc_object_close(message));
}

static uint64_t length_of(uc_channel *channel)
{
    uint64_t length;
    EXPECT_OK(uc_channel_length(channel, &length));
    return length;
}

static void messages_of_every_kind_and_size(uc_store *store)
{
    static char bytes[1000003];
    size_t lengths[] = { 0, 1, 32766, 32767, 32768, 65536, sizeof bytes };
    double items[6] = { 0, 1, 2, 3, 4, 5 };
    uint64_t shape[2] = { 2, 3 };
    uc_channel *jobs = open_channel(store, "jobs", 1000);
    uc_object *message;
    const char *dtype;
    const uint64_t *found;
    size_t i, dimensions;

    for (i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)('a' + i % 23);
    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        EXPECT_OK(uc_channel_send(jobs, bytes, lengths[i], -1));
        EXPECT_OK(uc_channel_send_text(jobs, bytes, lengths[i], 0));
        EXPECT(length_of(jobs) == 2);
        EXPECT_OK(uc_channel_receive(jobs, 0, &message));
        expect_message(message, 'b', bytes, lengths[i]);
        EXPECT_OK(uc_channel_hold(jobs, -1, &message));
        EXPECT(uc_object_kind(message) == 's');
        EXPECT_OK(uc_channel_ack(message));
        EXPECT_STATUS(uc_channel_ack(message), UC_MISUSE);
        EXPECT(length_of(jobs) == 0);
    }
    EXPECT_OK(uc_channel_send_array(jobs, "<f8", 2, shape, items, sizeof items, 0));
    EXPECT_OK(uc_channel_receive(jobs, 0, &message));
    EXPECT_OK(uc_object_array(message, &dtype, &dimensions, &found));
    EXPECT(strcmp(dtype, "<f8") == 0 && dimensions == 2 && found[0] == 2 && found[1] == 3);
    expect_message(message, 'a', items, sizeof items);
    EXPECT_OK(uc_channel_close(jobs));
}

static void bounds_and_ends(uc_store *store)
{
    uc_channel *jobs = open_channel(store, "bounded", 2), *other = open_channel(store, "bounded", 2);
    uc_object *message = (uc_object *)(void *)1;
    int is_closed = 9;

    EXPECT_STATUS(uc_channel_receive(jobs, 1, &message), UC_NONE);
    EXPECT(message == NULL);
    EXPECT_OK(uc_channel_send(jobs, "one", 3, 0));
    EXPECT_OK(uc_channel_send(other, "two", 3, 0));
    EXPECT_STATUS(uc_channel_send(jobs, "three", 5, 0), UC_NONE);
    EXPECT_STATUS(uc_channel_send(jobs, "three", 5, 5), UC_NONE);
    /* A held message is not in the channel, and returns to its front. */
    EXPECT_OK(uc_channel_hold(jobs, 0, &message));
    EXPECT(length_of(other) == 1);
    EXPECT_OK(uc_channel_release(message));
    EXPECT_OK(uc_channel_hold(jobs, 0, &message));
    EXPECT_OK(uc_object_close(message));
    EXPECT_OK(uc_channel_is_closed(other, &is_closed));
    EXPECT(is_closed == 0);
    EXPECT_OK(uc_channel_close_for_all(other));
    EXPECT_OK(uc_channel_is_closed(jobs, &is_closed));
    EXPECT(is_closed == 1);
    EXPECT_STATUS(uc_channel_send(jobs, "late", 4, -1), UC_CLOSED);
    EXPECT_OK(uc_channel_receive(jobs, -1, &message));
    expect_message(message, 'b', "one", 3);
    EXPECT_OK(uc_channel_hold(jobs, -1, &message));
    /* The channel is empty, although a message is held. */
    EXPECT_OK(uc_channel_del(jobs));
    EXPECT_STATUS(uc_channel_ack(message), UC_NONE);
    EXPECT_OK(uc_channel_send(jobs, "again", 5, 0));
    EXPECT_OK(uc_channel_close_for_all(jobs));
    EXPECT_OK(uc_channel_receive(other, -1, &message));
    expect_message(message, 'b', "again", 5);
    EXPECT_STATUS(uc_channel_receive(other, -1, &message), UC_CLOSED);
    EXPECT_STATUS(uc_channel_hold(other, -1, &message), UC_CLOSED);
    EXPECT(message == NULL);
    EXPECT_OK(uc_channel_del(jobs));
    EXPECT_OK(uc_channel_close(jobs));
    EXPECT_OK(uc_channel_close(other));
}

/* Tests that the message of a killed process returns, and that a child cannot end its parent's. */
static void processes(uc_store *store)
{
    uc_channel *jobs = open_channel(store, "processes", 0);
    uc_object *message, *parents;
    int status, ready[2];
    char byte;
    pid_t child;

    EXPECT(pipe(ready) == 0);
    EXPECT_OK(uc_channel_send(jobs, "first", 5, 0));
    EXPECT_OK(uc_channel_send(jobs, "second", 6, 0));
    EXPECT_OK(uc_channel_hold(jobs, 0, &parents));
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        EXPECT_STATUS(uc_channel_release(parents), UC_MISUSE);
        EXPECT(strstr(uc_error_message(), "belongs to process") != NULL);
        EXPECT_OK(uc_channel_hold(jobs, -1, &message));
        EXPECT(write(ready[1], "r", 1) == 1);
        for (;;)
            pause();
    }
    EXPECT(read(ready[0], &byte, 1) == 1);
    EXPECT(length_of(jobs) == 0);
    EXPECT(kill(child, SIGKILL) == 0);
    EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    EXPECT_OK(uc_channel_receive(jobs, -1, &message));
    expect_message(message, 'b', "second", 6);
    EXPECT_OK(uc_channel_ack(parents));
    EXPECT(length_of(jobs) == 0);
    EXPECT_OK(uc_channel_close(jobs));
    close(ready[0]);
    close(ready[1]);
}

static void what_python_sends(uc_store *store)
{
    uc_channel *jobs = open_channel(store, "python", 10);
    uc_session *session;
    uc_reply *reply;
    uc_object *message;
    uc_bytes words[3];
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    words[0] = uc_text("RPUSH");
    words[1] = uc_text("undercroft:channel:{python}");
    /* A tree of msgpack, and a pickle. */
    words[2] = uc_data("\xc1UOm\x06\0\0\0\0\0\0\0\x91\x07", 14);
    EXPECT_OK(uc_command(session, 3, words, reply));
    words[2] = uc_data("\xc1UOp\0\0\0\0", 8);
    EXPECT_OK(uc_command(session, 3, words, reply));
    EXPECT_OK(uc_channel_receive(jobs, 0, &message));
    EXPECT(uc_object_kind(message) == 'm');
    EXPECT_STATUS(uc_channel_ack(message), UC_MISUSE);
    EXPECT_OK(uc_object_close(message));
    EXPECT_STATUS(uc_channel_receive(jobs, 0, &message), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_channel_hold(jobs, 0, &message), UC_WRONG_TYPE);
    EXPECT(length_of(jobs) == 1);
    EXPECT_OK(uc_channel_del(jobs));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_channel_close(jobs));
}

static void misuse(uc_store *store)
{
    uc_channel *jobs = open_channel(store, "misuse", 10), *none = (uc_channel *)(void *)1;
    uint64_t shape[1] = { 2 };
    uc_object *message;
    EXPECT_STATUS(uc_channel_open(store, "", 0, 1, 0, &none), UC_MISUSE);
    EXPECT(none == NULL);
    EXPECT_STATUS(uc_channel_open(store, "a", 1, 1, -1, &none), UC_MISUSE);
    EXPECT_STATUS(uc_channel_open(store, "a", 1, 1, 0, NULL), UC_MISUSE);
    EXPECT_STATUS(uc_channel_open(NULL, "a", 1, 1, 0, &none), UC_MISUSE);
    EXPECT_STATUS(uc_channel_send(NULL, "a", 1, 0), UC_MISUSE);
    EXPECT_STATUS(uc_channel_send(jobs, NULL, 1, 0), UC_MISUSE);
    EXPECT_STATUS(uc_channel_send_text(jobs, "\xff", 1, 0), UC_MISUSE);
    EXPECT_STATUS(uc_channel_send_array(jobs, "<f8", 1, shape, "too short", 9, 0), UC_MISUSE);
    EXPECT_STATUS(uc_channel_send_array(jobs, NULL, 1, shape, "", 0, 0), UC_MISUSE);
    EXPECT_STATUS(uc_channel_receive(jobs, 0, NULL), UC_MISUSE);
    EXPECT_STATUS(uc_channel_receive(NULL, 0, &message), UC_MISUSE);
    EXPECT_STATUS(uc_channel_ack(NULL), UC_MISUSE);
    EXPECT_STATUS(uc_channel_release(NULL), UC_MISUSE);
    EXPECT_STATUS(uc_channel_length(jobs, NULL), UC_MISUSE);
    EXPECT_STATUS(uc_channel_is_closed(jobs, NULL), UC_MISUSE);
    EXPECT(length_of(jobs) == 0);
    EXPECT_OK(uc_channel_close(NULL));
    EXPECT_OK(uc_channel_close(jobs));
    EXPECT_STATUS(uc_channel_close(jobs), UC_MISUSE);
    EXPECT_STATUS(uc_channel_send(jobs, "a", 1, 0), UC_MISUSE);
}

int main(int argc, char **argv)
{
    uc_store *store;
    EXPECT(argc == 2);
    store = open_store(argv[1]);
    messages_of_every_kind_and_size(store);
    bounds_and_ends(store);
    processes(store);
    what_python_sends(store);
    misuse(store);
    EXPECT_OK(uc_close(store));
    return 0;
}
