/*
 * Workers process jobs from a queue, and a program watches their results in its event loop.
 *
 * cc jobs.c $(pkg-config --cflags --libs undercroft) && ./a.out undercroft://jobs
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <undercroft.h>

#define WORKERS 3
#define JOBS 12

static void check(int status, const char *what)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, uc_status_name(status), uc_error_message());
        exit(1);
    }
}

/* Processes jobs until an empty job marks the end. A child can use the inherited store. */
static void work(uc_store *store)
{
    uc_bytes words[3];
    uc_session *session;
    uc_reply *reply;
    check(uc_session_open(store, &session), "a session");
    check(uc_reply_new(&reply), "a reply");
    words[0] = uc_text("BLPOP");
    words[1] = uc_text("jobs");
    words[2] = uc_text("10");
    for (;;) {
        const uc_value *job;
        size_t length;
        const char *text;
        check(uc_command(session, 3, words, reply), "BLPOP");
        job = uc_value_item(uc_reply_value(reply), 1);
        text = uc_value_string(job, &length);
        if (text == NULL || length == 0)
            break;
        check(uc_publish(store, "done", 4, text, length, NULL), "telling");
    }
    check(uc_reply_free(reply), "freeing");
    check(uc_session_close(session), "closing");
}

int main(int argc, char **argv)
{
    uc_store *store;
    uc_session *session;
    uc_subscription *subscription;
    uc_reply *reply;
    uc_bytes done = uc_text("done"), words[JOBS + WORKERS][3];
    uc_words commands[JOBS + WORKERS];
    char names[JOBS][16];
    struct pollfd ready;
    int i, finished = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s STORE, for example: %s undercroft://jobs\n", argv[0], argv[0]);
        return 2;
    }
    check(uc_open(argv[1], NULL, &store), "opening");
    check(uc_reply_new(&reply), "a reply");
    check(uc_session_open(store, &session), "a session");
    check(uc_subscription_open(store, &subscription), "a subscription");
    check(uc_subscribe(subscription, UC_CHANNEL, 1, &done), "subscribing");
    check(uc_subscription_descriptor(subscription, &ready.fd), "a descriptor");
    for (i = 0; i < WORKERS; i++) {
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            work(store);
            _exit(0);
        }
    }

    /* Push all jobs in one call, followed by an empty job for each worker. */
    for (i = 0; i < JOBS + WORKERS; i++) {
        words[i][0] = uc_text("RPUSH");
        words[i][1] = uc_text("jobs");
        words[i][2] = uc_data(NULL, 0);
        if (i < JOBS) {
            snprintf(names[i], sizeof names[i], "job %d", i + 1);
            words[i][2] = uc_text(names[i]);
        }
        commands[i].count = 3;
        commands[i].words = words[i];
    }
    check(uc_pipeline(session, JOBS + WORKERS, commands, reply), "RPUSH");

    ready.events = POLLIN;
    while (finished < JOBS) {
        int status;
        if (poll(&ready, 1, 10000) != 1) {
            fprintf(stderr, "expected %d jobs, got %d\n", JOBS, finished);
            return 1;
        }
        while ((status = uc_subscription_next(subscription, 0, reply)) == UC_OK) {
            printf("done: %s\n", uc_value_string(uc_value_item(uc_reply_value(reply), 2), NULL));
            finished++;
        }
        check(status, "messages");
    }
    while (wait(NULL) > 0)
        ;
    uc_subscription_close(subscription);
    uc_session_close(session);
    uc_reply_free(reply);
    uc_close(store);
    return 0;
}
