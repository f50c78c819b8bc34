/*
 * Defines helpers for all tests. Each test is a program that receives the path of a store that does
 * not exist yet.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <undercroft.h>

#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: expected %s; last failure: %s\n", __FILE__, __LINE__, #condition, \
                    uc_error_message()); \
            exit(1); \
        } \
    } while (0)

#define EXPECT_STATUS(call, wanted) \
    do { \
        int got_ = (call); \
        if (got_ != (wanted)) { \
            fprintf(stderr, "%s:%d: %s: expected %s, got %s: %s\n", __FILE__, __LINE__, #call, \
                    uc_status_name(wanted), uc_status_name(got_), uc_error_message()); \
            exit(1); \
        } \
    } while (0)

#define EXPECT_OK(call) EXPECT_STATUS(call, UC_OK)

/* Opens a store that is small enough for tests under valgrind. */
static inline uc_store *open_store(const char *path)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_store *store;
    options.capacity = UINT64_C(1) << 30;
    EXPECT_OK(uc_open(path, &options, &store));
    return store;
}

/* Runs a command, given its words and a final NULL. */
static inline int command(uc_session *session, uc_reply *reply, const char *const *texts)
{
    uc_bytes words[16];
    size_t count = 0;
    for (; texts[count] != NULL; count++)
        words[count] = uc_text(texts[count]);
    return uc_command(session, count, words, reply);
}

static inline int is_text(const uc_value *value, const char *wanted)
{
    size_t length;
    const char *text = uc_value_string(value, &length);
    return text != NULL && length == strlen(wanted) && memcmp(text, wanted, length) == 0 && text[length] == 0;
}

static inline int holds(uc_store *store, const char *key, const char *wanted)
{
    char value[256];
    size_t length;
    int status = uc_get(store, key, strlen(key), value, sizeof value, &length);
    if (wanted == NULL)
        return status == UC_NONE && length == 0;
    return status == UC_OK && length == strlen(wanted) && memcmp(value, wanted, length) == 0;
}

static inline int set(uc_store *store, const char *key, const char *value)
{
    return uc_set(store, key, strlen(key), value, strlen(value));
}

#endif
