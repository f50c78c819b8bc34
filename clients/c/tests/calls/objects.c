/* Tests objects: a process stores an object, and another process takes it and reads it in place. */
#include "../check.h"

/* Returns the number of bytes in use in the store. */
static long long used(uc_session *session, uc_reply *reply)
{
    const char *const words[] = { "INFO", "memory", NULL };
    const char *found;
    EXPECT_OK(command(session, reply, words));
    found = strstr(uc_value_string(uc_reply_value(reply), NULL), "used_memory:");
    EXPECT(found != NULL);
    return strtoll(found + strlen("used_memory:"), NULL, 10);
}

static char *pattern(size_t length)
{
    char *bytes = (char *)malloc(length + 1);
    size_t i;
    EXPECT(bytes != NULL);
    for (i = 0; i < length; i++)
        bytes[i] = (char)(i * 31 + length);
    return bytes;
}

static void bytes_of_any_length(uc_store *store)
{
    size_t lengths[] = { 0, 1, 63, 4096, 32767, 32768, 1000003 };
    size_t i, length;
    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char *bytes = pattern(lengths[i]);
        char id[UC_OBJECT_ID];
        uc_object *got, *taken, *none;
        EXPECT_OK(uc_object_put(store, bytes, lengths[i], 0, id));
        EXPECT_OK(uc_object_get(store, id, strlen(id), &got));
        EXPECT_OK(uc_object_take(store, id, strlen(id), &taken));
        EXPECT_STATUS(uc_object_take(store, id, strlen(id), &none), UC_NONE);
        EXPECT(none == NULL);
        /* Both objects remain readable after the key is deleted. */
        EXPECT(memcmp(uc_object_data(got, &length), bytes, lengths[i]) == 0 && length == lengths[i]);
        EXPECT(memcmp(uc_object_data(taken, &length), bytes, lengths[i]) == 0 && length == lengths[i]);
        EXPECT(uc_object_kind(got) == 'b');
        EXPECT_STATUS(uc_object_array(got, NULL, NULL, NULL), UC_NONE);
        EXPECT_OK(uc_object_close(got));
        EXPECT(memcmp(uc_object_data(taken, NULL), bytes, lengths[i]) == 0);
        EXPECT_OK(uc_object_close(taken));
        free(bytes);
    }
}

static void arrays(uc_store *store)
{
    double items[6] = { 0, 1, 2, 3, 4, 5 };
    uint64_t shape[2] = { 2, 3 };
    char id[UC_OBJECT_ID];
    uc_object *object;
    const char *dtype;
    const uint64_t *lengths;
    size_t dimensions, length;

    EXPECT_OK(uc_object_put_array(store, "<f8", 2, shape, items, sizeof items, 60000, id));
    EXPECT_OK(uc_object_take(store, id, strlen(id), &object));
    EXPECT(uc_object_kind(object) == 'a');
    EXPECT_OK(uc_object_array(object, &dtype, &dimensions, &lengths));
    EXPECT(strcmp(dtype, "<f8") == 0 && dimensions == 2 && lengths[0] == 2 && lengths[1] == 3);
    EXPECT(memcmp(uc_object_data(object, &length), items, sizeof items) == 0 && length == sizeof items);
    EXPECT_OK(uc_object_close(object));
    EXPECT_OK(uc_object_put_array(store, "|u1", 0, NULL, "x", 1, 0, id));
    EXPECT_OK(uc_object_del(store, id, strlen(id)));
    EXPECT_STATUS(uc_object_del(store, id, strlen(id)), UC_NONE);
    EXPECT_STATUS(uc_object_put_array(store, "<f8", 2, shape, items, sizeof items - 1, 0, id), UC_MISUSE);
    EXPECT_STATUS(uc_object_put_array(store, "a b", 2, shape, items, sizeof items, 0, id), UC_MISUSE);
    EXPECT_STATUS(uc_object_put_array(store, NULL, 2, shape, items, sizeof items, 0, id), UC_MISUSE);
}

static void values_that_are_not_objects(uc_store *store)
{
    uc_object *object;
    char id[UC_OBJECT_ID];
    size_t length = 9;
    EXPECT_OK(set(store, "object:foreign", "not an object"));
    EXPECT_STATUS(uc_object_get(store, "foreign", 7, &object), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_object_take(store, "foreign", 7, &object), UC_WRONG_TYPE);
    EXPECT(object == NULL && holds(store, "object:foreign", "not an object"));
    /* The header of this value claims a greater length than the value has. */
    EXPECT_OK(uc_set(store, "object:cut", 10, "\xc1UOb\xff\0\0\0", 8));
    EXPECT_STATUS(uc_object_take(store, "cut", 3, &object), UC_WRONG_TYPE);
    EXPECT_OK(uc_object_del(store, "cut", 3));
    /* A text as Python stores it. */
    EXPECT_OK(uc_set(store, "object:text", 11, "\xc1UOm\x0a\0\0\0\0\0\0\0\xa5hello", 18));
    EXPECT_OK(uc_object_take(store, "text", 4, &object));
    EXPECT(uc_object_kind(object) == 's');
    EXPECT(memcmp(uc_object_data(object, &length), "hello", 5) == 0 && length == 5);
    EXPECT_OK(uc_object_close(object));
    length = 9;
    EXPECT_STATUS(uc_object_get(store, "none", 4, &object), UC_NONE);
    EXPECT_STATUS(uc_object_get(store, "none", 4, NULL), UC_MISUSE);
    EXPECT_STATUS(uc_object_put(store, "x", 1, -1, id), UC_MISUSE);
    EXPECT_STATUS(uc_object_put(store, "x", 1, 0, NULL), UC_MISUSE);
    EXPECT(uc_object_data(NULL, &length) != NULL && length == 0);
    EXPECT(uc_object_kind(NULL) == UC_MISUSE);
    EXPECT_STATUS(uc_object_array(NULL, NULL, NULL, NULL), UC_MISUSE);
    EXPECT_OK(uc_object_close(NULL));
    EXPECT_OK(uc_object_put(store, "x", 1, 0, id));
    EXPECT_OK(uc_object_take(store, id, strlen(id), &object));
    EXPECT_OK(uc_object_close(object));
    EXPECT_STATUS(uc_object_close(object), UC_MISUSE);
    EXPECT(uc_object_kind(object) == UC_MISUSE);
}

/* Tests that an object outlives the store handle that it was read with. */
static void outlives(const char *path)
{
    uc_store *other;
    uc_object *object;
    char id[UC_OBJECT_ID];
    char *bytes = pattern(200000);
    EXPECT_OK(uc_open(path, NULL, &other));
    EXPECT_OK(uc_object_put(other, bytes, 200000, 0, id));
    EXPECT_OK(uc_object_take(other, id, strlen(id), &object));
    EXPECT_OK(uc_close(other));
    EXPECT(memcmp(uc_object_data(object, NULL), bytes, 200000) == 0);
    EXPECT_OK(uc_object_close(object));
    free(bytes);
}

int main(int argc, char **argv)
{
    uc_store *store;
    uc_session *session;
    uc_reply *reply;
    long long before;
    int round;
    EXPECT(argc == 2);
    store = open_store(argv[1]);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    bytes_of_any_length(store);
    before = used(session, reply);
    for (round = 0; round < 3; round++)
        bytes_of_any_length(store);
    /* Allow 4 KiB of growth, because a shard retains a little memory after its first write. */
    EXPECT(used(session, reply) <= before + 4096);
    arrays(store);
    values_that_are_not_objects(store);
    outlives(argv[1]);
    uc_reply_free(reply);
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_close(store));
    return 0;
}
