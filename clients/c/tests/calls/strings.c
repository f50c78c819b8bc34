/* Tests the results and limits of the typed calls. */
#include "../check.h"

static void get_and_set(uc_store *store)
{
    char buffer[8];
    size_t length = 99;

    EXPECT(holds(store, "none", NULL));
    EXPECT_OK(set(store, "a", "eightly"));
    EXPECT(holds(store, "a", "eightly"));
    EXPECT_OK(uc_get(store, "a", 1, buffer, 7, &length));
    EXPECT(length == 7 && memcmp(buffer, "eightly", 7) == 0);
    memcpy(buffer, "........", 8);
    EXPECT_STATUS(uc_get(store, "a", 1, buffer, 6, &length), UC_TOO_SMALL);
    EXPECT(length == 7);
    EXPECT(buffer[6] == '.' && buffer[7] == '.');
    EXPECT_STATUS(uc_get(store, "a", 1, NULL, 0, &length), UC_TOO_SMALL);
    EXPECT(length == 7);

    /* Zero bytes are allowed. A number is stored as an integer and read back as text. */
    EXPECT_OK(uc_set(store, "\0k", 2, "\0v\0", 3));
    EXPECT_OK(uc_get(store, "\0k", 2, buffer, sizeof buffer, &length));
    EXPECT(length == 3 && memcmp(buffer, "\0v\0", 3) == 0);
    EXPECT_OK(set(store, "n", "-12345"));
    EXPECT_STATUS(uc_get(store, "n", 1, buffer, 5, &length), UC_TOO_SMALL);
    EXPECT(length == 6);
    EXPECT(holds(store, "n", "-12345"));
    EXPECT_OK(uc_set(store, NULL, 0, NULL, 0));
    EXPECT_OK(uc_get(store, "", 0, NULL, 0, &length));
    EXPECT(length == 0);
}

static void long_values(uc_store *store)
{
    size_t lengths[] = { 0, 1, 255, 4096, 4097, 65535, 65536, 1000003 };
    size_t i, k, length;
    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char *value = (char *)malloc(lengths[i] + 1);
        char *copy = (char *)malloc(lengths[i] + 1);
        EXPECT(value != NULL && copy != NULL);
        for (k = 0; k < lengths[i]; k++)
            value[k] = (char)(k * 7 + i);
        EXPECT_OK(uc_set(store, "long", 4, value, lengths[i]));
        EXPECT_OK(uc_get(store, "long", 4, copy, lengths[i], &length));
        EXPECT(length == lengths[i] && memcmp(value, copy, length) == 0);
        free(value);
        free(copy);
    }
}

static void options(uc_store *store)
{
    uc_set_options options = UC_SET_OPTIONS_INIT;
    uc_reply *old;
    int64_t left;

    options.flags = UC_SET_XX;
    EXPECT_STATUS(uc_set_with(store, "o", 1, "1", 1, &options, NULL), UC_NONE);
    EXPECT(holds(store, "o", NULL));
    options.flags = UC_SET_NX;
    options.expire_ms = 100000;
    EXPECT_OK(uc_set_with(store, "o", 1, "1", 1, &options, NULL));
    EXPECT_STATUS(uc_set_with(store, "o", 1, "2", 1, &options, NULL), UC_NONE);
    EXPECT_OK(uc_ttl(store, "o", 1, &left));
    EXPECT(left > 0 && left <= 100000);
    options.flags = UC_SET_KEEPTTL;
    options.expire_ms = 0;
    EXPECT_OK(uc_set_with(store, "o", 1, "3", 1, &options, NULL));
    EXPECT_OK(uc_ttl(store, "o", 1, &left));
    EXPECT(left > 0 && holds(store, "o", "3"));
    EXPECT_OK(uc_set_with(store, "o", 1, "4", 1, NULL, NULL));
    EXPECT_OK(uc_ttl(store, "o", 1, &left));
    EXPECT(left == -1);
    options.flags = 0;
    options.expire_at_ms = 1;
    EXPECT_OK(uc_set_with(store, "o", 1, "5", 1, &options, NULL));
    EXPECT(holds(store, "o", NULL));

    EXPECT_OK(uc_reply_new(&old));
    options.expire_at_ms = 0;
    EXPECT_OK(uc_set_with(store, "p", 1, "1", 1, &options, old));
    EXPECT(uc_value_type(uc_reply_value(old)) == UC_TYPE_NIL);
    options.flags = UC_SET_NX | UC_SET_KEEPTTL;
    EXPECT_OK(uc_set_with(store, "p", 1, "2", 1, &options, old));
    EXPECT(is_text(uc_reply_value(old), "1") && holds(store, "p", "1"));
    options.flags = UC_SET_XX;
    options.expire_ms = 5000;
    EXPECT_OK(uc_set_with(store, "p", 1, "3", 1, &options, old));
    EXPECT(is_text(uc_reply_value(old), "1") && holds(store, "p", "3"));
    EXPECT_OK(uc_ttl(store, "p", 1, &left));
    EXPECT(left > 0 && left <= 5000);
    EXPECT_OK(uc_reply_free(old));

    options.flags = UC_SET_NX | UC_SET_XX;
    EXPECT_STATUS(uc_set_with(store, "p", 1, "4", 1, &options, NULL), UC_MISUSE);
    options.flags = 8;
    EXPECT_STATUS(uc_set_with(store, "p", 1, "4", 1, &options, NULL), UC_MISUSE);
    options.flags = UC_SET_KEEPTTL;
    EXPECT_STATUS(uc_set_with(store, "p", 1, "4", 1, &options, NULL), UC_MISUSE);
    options.flags = 0;
    options.expire_ms = -1;
    EXPECT_STATUS(uc_set_with(store, "p", 1, "4", 1, &options, NULL), UC_MISUSE);
    options.expire_ms = INT64_MAX;
    EXPECT_STATUS(uc_set_with(store, "p", 1, "4", 1, &options, NULL), UC_MISUSE);
    EXPECT(holds(store, "p", "3"));
}

static void numbers_and_keys(uc_store *store)
{
    uc_bytes keys[3], values[3];
    uint64_t count;
    int64_t sum, left;
    uc_reply *reply;
    const uc_value *array;

    EXPECT_OK(uc_incr(store, "i", 1, 5, &sum));
    EXPECT_OK(uc_incr(store, "i", 1, -7, &sum));
    EXPECT(sum == -2);
    EXPECT_OK(uc_incr(store, "i", 1, INT64_MIN + 2, NULL));
    EXPECT_STATUS(uc_incr(store, "i", 1, -1, &sum), UC_ERROR);
    EXPECT(strcmp(uc_error_message(), "ERR increment or decrement would overflow") == 0);
    EXPECT(holds(store, "i", "-9223372036854775808"));

    keys[0] = uc_text("m1");
    keys[1] = uc_text("m2");
    keys[2] = uc_text("m3");
    values[0] = uc_text("one");
    values[1] = uc_data("t\0o", 3);
    EXPECT_OK(uc_mset(store, 2, keys, values));
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_OK(uc_mget(store, 3, keys, reply));
    array = uc_reply_value(reply);
    EXPECT(uc_value_type(array) == UC_TYPE_ARRAY && uc_value_length(array) == 3);
    EXPECT(is_text(uc_value_item(array, 0), "one"));
    EXPECT(uc_value_length(uc_value_item(array, 1)) == 3);
    EXPECT(uc_value_type(uc_value_item(array, 2)) == UC_TYPE_NIL && uc_value_item(array, 3) == NULL);
    EXPECT_OK(uc_reply_free(reply));

    keys[2] = keys[0];
    EXPECT_OK(uc_exists(store, 3, keys, &count));
    EXPECT(count == 3);
    EXPECT_OK(uc_expire(store, "m2", 2, 100000));
    EXPECT_OK(uc_ttl(store, "m2", 2, &left));
    EXPECT(left > 0 && left <= 100000);
    EXPECT_STATUS(uc_expire(store, "none", 4, 1), UC_NONE);
    EXPECT_STATUS(uc_expire(store, "m2", 2, INT64_MAX), UC_MISUSE);
    EXPECT_STATUS(uc_ttl(store, "none", 4, &left), UC_NONE);
    EXPECT_OK(uc_expire(store, "m2", 2, 0));
    EXPECT_OK(uc_del(store, 3, keys, &count));
    EXPECT(count == 1);
    EXPECT_OK(uc_exists(store, 3, keys, NULL));
}

static void databases(const char *path, uc_store *store)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_store *other;
    options.database = 15;
    EXPECT_OK(uc_open(path, &options, &other));
    EXPECT_OK(set(other, "where", "15"));
    EXPECT(holds(store, "where", NULL));
    EXPECT_OK(uc_close(store));
    EXPECT(holds(other, "where", "15"));
    EXPECT_OK(uc_close(other));
}

int main(int argc, char **argv)
{
    uc_store *store;
    EXPECT(argc == 2);
    EXPECT(uc_abi_version() == UC_ABI_VERSION);
    EXPECT(strchr(uc_version(), '.') != NULL);
    EXPECT(*uc_error_message() == 0);
    store = open_store(argv[1]);
    get_and_set(store);
    long_values(store);
    options(store);
    numbers_and_keys(store);
    databases(argv[1], store);
    return 0;
}
