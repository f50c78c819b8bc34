/* Tests the feed calls: their results, their limits, and the arguments that they reject. */
#include "../check.h"

#define SIZE 12

static uc_store *store;

/* Writes the value for a number: 12 bytes without a terminating zero. */
static void make_value(char *place, unsigned number)
{
    char text[SIZE + 1];
    snprintf(text, sizeof text, "thread%06u", number % 1000000);
    memcpy(place, text, SIZE);
}

static void add(const char *key, int64_t position, unsigned number, uint32_t first, uint32_t second, uint32_t third)
{
    char value[SIZE];
    uint32_t attributes[3];
    make_value(value, number);
    attributes[0] = first;
    attributes[1] = second;
    attributes[2] = third;
    EXPECT_OK(uc_feed_add(store, key, strlen(key), position, 1, value, SIZE, attributes, 3, NULL));
}

/*
 * Returns whether a query finds exactly the items whose numbers are listed in `numbers`, in that
 * order. At most 16 items are compared.
 */
static int sees(const char *key, int64_t from, const uc_feed_query *query, const char *numbers)
{
    char values[16 * SIZE], wanted[SIZE], *end;
    size_t found = 99, i;
    EXPECT_OK(uc_feed_range(store, key, strlen(key), from, 16, query, values, SIZE, NULL, 0, &found));
    for (i = 0; *numbers != 0; i++) {
        make_value(wanted, (unsigned)strtoul(numbers, &end, 10));
        if (i >= found || memcmp(values + i * SIZE, wanted, SIZE) != 0)
            return 0;
        numbers = end;
    }
    return i == found;
}

static uc_feed_query query_of(uint64_t flags, const char *filter)
{
    uc_feed_query query = UC_FEED_QUERY_INIT;
    query.flags = flags;
    query.filter = filter;
    query.filter_length = filter != NULL ? strlen(filter) : 0;
    return query;
}

static uint64_t count(const char *key, uint64_t flags, const char *filter)
{
    uc_feed_query query = query_of(flags, filter);
    uint64_t number = 99;
    EXPECT_OK(uc_feed_count(store, key, strlen(key), &query, &number));
    return number;
}

static void every_call(void)
{
    char values[4 * SIZE], value[SIZE];
    uint32_t attributes[6];
    int64_t changed[3] = { UC_FEED_KEEP, 7, UC_FEED_KEEP };
    uc_feed_info_reply facts = UC_FEED_INFO_INIT;
    uc_feed_query query;
    uint64_t number;
    size_t found;

    EXPECT_OK(uc_feed_create(store, "f", 1, SIZE, "4:3:1", NULL));
    EXPECT_STATUS(uc_feed_create(store, "f", 1, SIZE, NULL, "list"), UC_ERROR);
    add("f", 0, 1, 3, 0, 1);
    make_value(values, 2);
    make_value(values + SIZE, 3);
    EXPECT_OK(uc_feed_add(store, "f", 1, -1, 2, values, SIZE, NULL, 0, &number));
    EXPECT(number == 3);
    add("f", -2, 4, 15, 7, 1);
    EXPECT(sees("f", 0, NULL, "1 2 4 3"));
    EXPECT(sees("f", -2, NULL, "4 3"));
    EXPECT(sees("f", 4, NULL, ""));
    query = query_of(UC_FEED_REVERSE, NULL);
    EXPECT(sees("f", 1, &query, "4 2 1"));
    query = query_of(0, "15|3::");
    EXPECT(sees("f", 0, &query, "1 4"));
    EXPECT_OK(uc_feed_range(store, "f", 1, 0, 2, &query, values, SIZE, attributes, 3, &found));
    EXPECT(found == 2 && memcmp(values, "thread000001thread000004", 2 * SIZE) == 0);
    EXPECT(attributes[0] == 3 && attributes[1] == 0 && attributes[2] == 1);
    EXPECT(attributes[3] == 15 && attributes[4] == 7 && attributes[5] == 1);

    make_value(values, 2);
    make_value(values + SIZE, 4);
    EXPECT_OK(uc_feed_hide(store, "f", 1, 2, values, SIZE, &number));
    EXPECT(number == 2 && sees("f", 0, NULL, "1 3"));
    EXPECT(count("f", UC_FEED_VISIBLE, NULL) == 2 && count("f", UC_FEED_HIDDEN, NULL) == 2);
    EXPECT(count("f", UC_FEED_ALL, NULL) == 4 && count("f", UC_FEED_ALL, "a1=7") == 1);
    query = query_of(UC_FEED_HIDDEN, NULL);
    EXPECT(sees("f", 0, &query, "2 4"));
    EXPECT_STATUS(uc_feed_position(store, "f", 1, values, SIZE, UC_FEED_VISIBLE, &number), UC_NONE);
    EXPECT_OK(uc_feed_position(store, "f", 1, values + SIZE, SIZE, UC_FEED_HIDDEN, &number));
    EXPECT(number == 1);
    EXPECT_OK(uc_feed_show(store, "f", 1, 1, values, SIZE, &number));
    EXPECT(number == 1 && sees("f", 0, NULL, "1 2 3"));

    EXPECT_OK(uc_feed_move(store, "f", 1, values, SIZE, 0));
    EXPECT(sees("f", 0, NULL, "2 1 3"));
    make_value(value, 9);
    EXPECT_STATUS(uc_feed_move(store, "f", 1, value, SIZE, 0), UC_NONE);
    EXPECT_OK(uc_feed_set_attributes(store, "f", 1, values, SIZE, changed, 3, &number));
    EXPECT(number == 1 && count("f", UC_FEED_VISIBLE, "0:7:0") == 1);

    EXPECT_OK(uc_feed_info(store, "f", 1, &facts));
    EXPECT(facts.items == 4 && facts.visible == 3 && facts.hidden == 1 && facts.value_size == SIZE);
    EXPECT(facts.attribute_count == 3 && memcmp(facts.attribute_bits, "\4\3\1\0", 4) == 0);
    EXPECT(strcmp(facts.order, "list") == 0 && facts.leaves == 1 && facts.bytes > 0);
    EXPECT_OK(uc_feed_compact(store, "f", 1));

    EXPECT_OK(uc_feed_pop(store, "f", 1, UC_FEED_RIGHT, 2, values, SIZE, &found));
    EXPECT(found == 2 && memcmp(values, "thread000003thread000001", 2 * SIZE) == 0);
    EXPECT_OK(uc_feed_pop(store, "f", 1, UC_FEED_LEFT, 4, values, SIZE, &found));
    EXPECT(found == 1 && memcmp(values, "thread000002", SIZE) == 0);
    EXPECT_STATUS(uc_feed_pop(store, "f", 1, UC_FEED_LEFT, 4, values, SIZE, &found), UC_NONE);
    EXPECT(found == 0);
    make_value(value, 4);
    EXPECT_OK(uc_feed_del(store, "f", 1, 1, value, SIZE, &number));
    EXPECT(number == 1 && count("f", UC_FEED_ALL, NULL) == 0);
    add("f", 0, 5, 1, 0, 0);
    add("f", 0, 6, 2, 0, 0);
    query = query_of(UC_FEED_ALL, "2::");
    EXPECT_OK(uc_feed_del_where(store, "f", 1, &query, &number));
    EXPECT(number == 1 && sees("f", 0, NULL, "5"));
}

/*
 * Tests that thousands of items with attributes of all widths up to 32 bits are read back
 * unchanged.
 */
static void many(void)
{
    enum { COUNT = 5000 };
    char *values = (char *)malloc(COUNT * SIZE), *copy = (char *)malloc(COUNT * SIZE);
    uint32_t *attributes = (uint32_t *)malloc(COUNT * 3 * sizeof(uint32_t));
    uint32_t *found_attributes = (uint32_t *)malloc(COUNT * 3 * sizeof(uint32_t));
    uint64_t items;
    size_t found, i;
    EXPECT(values != NULL && copy != NULL && attributes != NULL && found_attributes != NULL);
    for (i = 0; i < COUNT; i++) {
        make_value(values + i * SIZE, (unsigned)i);
        attributes[i * 3] = (uint32_t)(i * 2654435761u);
        attributes[i * 3 + 1] = (uint32_t)(i & 1);
        attributes[i * 3 + 2] = (uint32_t)(i % 512);
    }
    attributes[0] = UINT32_MAX;
    EXPECT_OK(uc_feed_create(store, "m", 1, SIZE, "32:1:9", "list"));
    EXPECT_OK(uc_feed_add(store, "m", 1, 0, COUNT, values, SIZE, attributes, 3, &items));
    EXPECT(items == COUNT);
    EXPECT_OK(uc_feed_range(store, "m", 1, 0, COUNT, NULL, copy, SIZE, found_attributes, 3, &found));
    EXPECT(found == COUNT && memcmp(values, copy, COUNT * SIZE) == 0);
    EXPECT(memcmp(attributes, found_attributes, COUNT * 3 * sizeof(uint32_t)) == 0);
    EXPECT_OK(uc_feed_range(store, "m", 1, 1234, COUNT, NULL, copy, SIZE, NULL, 0, &found));
    EXPECT(found == COUNT - 1234 && memcmp(values + 1234 * SIZE, copy, found * SIZE) == 0);
    free(values);
    free(copy);
    free(attributes);
    free(found_attributes);
}

/* Tests that no byte is written past the requested part of a buffer. */
static void nothing_is_written_past_buffers(void)
{
    char values[3 * SIZE + 1];
    uint32_t attributes[7];
    size_t found;
    unsigned i;
    EXPECT_OK(uc_feed_create(store, "b", 1, SIZE, "4:3:1", "queue"));
    for (i = 0; i < 9; i++)
        add("b", -1, i, i, 1, 1);
    values[2 * SIZE] = '!';
    attributes[6] = 77;
    EXPECT_OK(uc_feed_range(store, "b", 1, 3, 2, NULL, values, SIZE, attributes, 3, &found));
    EXPECT(found == 2 && values[2 * SIZE] == '!' && attributes[6] == 77);
    EXPECT_OK(uc_feed_range(store, "b", 1, 3, 0, NULL, NULL, SIZE, NULL, 0, &found));
    EXPECT(found == 0);
    EXPECT_OK(uc_feed_pop(store, "b", 1, UC_FEED_LEFT, 0, NULL, SIZE, &found));
    EXPECT(found == 0 && count("b", UC_FEED_ALL, NULL) == 9);
    values[SIZE] = '!';
    EXPECT_OK(uc_feed_pop(store, "b", 1, UC_FEED_LEFT, 1, values, SIZE, &found));
    EXPECT(found == 1 && values[SIZE] == '!' && memcmp(values, "thread000000", SIZE) == 0);
    /* A queue accepts items only at its ends. */
    EXPECT_STATUS(uc_feed_add(store, "b", 1, 3, 1, values, SIZE, NULL, 0, NULL), UC_ERROR);
    EXPECT(strcmp(uc_error_message(), "ERR position is 3, expected 0 or -1 in a queue") == 0);
    EXPECT(count("b", UC_FEED_ALL, NULL) == 8);
}

/*
 * Checks that a call fails with the given status and a message that contains `words`, and changes
 * nothing.
 */
#define REFUSED(call, status, words) \
    do { \
        EXPECT_STATUS(call, status); \
        if (strstr(uc_error_message(), words) == NULL) { \
            fprintf(stderr, "%s:%d: %s: expected '%s' in: %s\n", __FILE__, __LINE__, #call, words, \
                    uc_error_message()); \
            exit(1); \
        } \
        EXPECT(sees("r", 0, NULL, "1 2") && count("r", UC_FEED_ALL, "1:1:1") == 2); \
    } while (0)

static void wrong_sizes_and_values(void)
{
    char value[SIZE + 1], values[16 * SIZE];
    uint32_t attributes[4] = { 1, 1, 1, 1 }, large[3] = { 1, 8, 1 };
    int64_t changed[3] = { 1, 8, UC_FEED_KEEP }, negative[3] = { 1, 1, -2 };
    uc_feed_query query = query_of(0, "a3=1");
    uint64_t number = 99;
    size_t found;

    EXPECT_OK(uc_feed_create(store, "r", 1, SIZE, "4:3:1", NULL));
    add("r", -1, 1, 1, 1, 1);
    add("r", -1, 2, 1, 1, 1);
    make_value(value, 1);
    REFUSED(uc_feed_create(store, "x", 1, 0, NULL, NULL), UC_ERROR, "SIZE is '0', expected 1 to 255");
    REFUSED(uc_feed_create(store, "x", 1, 256, NULL, NULL), UC_ERROR, "SIZE is '256', expected 1 to 255");
    REFUSED(uc_feed_create(store, "x", 1, SIZE, "33", NULL), UC_ERROR, "expected 1 to 32 bits");
    REFUSED(uc_feed_create(store, "x", 1, SIZE, "4", "heap"), UC_ERROR, "ORDER is 'heap'");
    REFUSED(uc_feed_create(store, "x", 1, SIZE, "4", ""), UC_ERROR, "ORDER is ''");
    REFUSED(uc_feed_add(store, "r", 1, 0, 1, value, 11, NULL, 0, &number), UC_ERROR,
            "value has 11 bytes, expected 12");
    REFUSED(uc_feed_add(store, "r", 1, 0, 1, value, SIZE, attributes, 2, &number), UC_ERROR,
            "ATTRS has 2 parts, expected 3");
    REFUSED(uc_feed_add(store, "r", 1, 0, 1, value, SIZE, attributes, 4, &number), UC_ERROR,
            "ATTRS has 4 parts, expected 3");
    REFUSED(uc_feed_add(store, "r", 1, 0, 1, value, SIZE, large, 3, &number), UC_ERROR,
            "attribute 1 is '8', expected 0 to 7");
    REFUSED(uc_feed_add(store, "none", 4, 0, 1, value, SIZE, NULL, 0, &number), UC_ERROR, "no such key");
    REFUSED(uc_feed_add(store, "r", 1, 0, 0, value, SIZE, NULL, 0, &number), UC_MISUSE, "expected at least one value");
    REFUSED(uc_feed_add(store, "r", 1, 0, 1, value, 0, NULL, 0, &number), UC_MISUSE, "got 1 of 0");
    REFUSED(uc_feed_range(store, "r", 1, 0, 16, NULL, values, 11, NULL, 0, &found), UC_MISUSE,
            "values of 12 bytes and 3 attributes, got room for 11 bytes");
    EXPECT(found == 0);
    REFUSED(uc_feed_range(store, "r", 1, 0, 1, NULL, values, SIZE, attributes, 4, &found), UC_MISUSE,
            "got room for 12 bytes and 4 attributes");
    REFUSED(uc_feed_range(store, "r", 1, 0, 1, &query, values, SIZE, NULL, 0, &found), UC_ERROR,
            "expected an attribute from a0 to a2");
    REFUSED(uc_feed_count(store, "r", 1, &query, &number), UC_ERROR, "expected an attribute from a0 to a2");
    REFUSED(uc_feed_del_where(store, "r", 1, &query, &number), UC_ERROR, "expected an attribute from a0 to a2");
    REFUSED(uc_feed_pop(store, "r", 1, UC_FEED_LEFT, 1, values, 11, &found), UC_MISUSE, "values of 12 bytes");
    REFUSED(uc_feed_pop(store, "r", 1, 2, 1, values, SIZE, &found), UC_MISUSE, "UC_FEED_LEFT or UC_FEED_RIGHT, got 2");
    REFUSED(uc_feed_position(store, "r", 1, value, 11, 0, &number), UC_ERROR, "value has 11 bytes, expected 12");
    REFUSED(uc_feed_position(store, "r", 1, value, SIZE, UC_FEED_REVERSE, &number), UC_MISUSE, "got 0x4");
    REFUSED(uc_feed_move(store, "r", 1, value, 11, 1), UC_ERROR, "value has 11 bytes, expected 12");
    REFUSED(uc_feed_del(store, "r", 1, 1, value, 11, &number), UC_ERROR, "value has 11 bytes, expected 12");
    REFUSED(uc_feed_hide(store, "r", 1, 1, value, 13, &number), UC_ERROR, "value has 13 bytes, expected 12");
    REFUSED(uc_feed_show(store, "r", 1, 0, value, SIZE, &number), UC_MISUSE, "expected at least one value");
    REFUSED(uc_feed_set_attributes(store, "r", 1, value, SIZE, changed, 3, &number), UC_ERROR,
            "attribute 1 is '8', expected 0 to 7");
    REFUSED(uc_feed_set_attributes(store, "r", 1, value, SIZE, negative, 3, &number), UC_MISUSE,
            "got -2 for attribute 2");
    REFUSED(uc_feed_set_attributes(store, "r", 1, value, SIZE, changed, 2, &number), UC_ERROR,
            "ATTRS has 2 parts, expected 3");
    EXPECT(number == 99);
    query = query_of(UC_FEED_HIDDEN | UC_FEED_ALL, NULL);
    REFUSED(uc_feed_count(store, "r", 1, &query, &number), UC_MISUSE, "got both");
    query = query_of(UC_FEED_REVERSE, "1::");
    REFUSED(uc_feed_del_where(store, "r", 1, &query, &number), UC_MISUSE, "expected no UC_FEED_REVERSE");
    query = query_of(8, NULL);
    REFUSED(uc_feed_count(store, "r", 1, &query, &number), UC_MISUSE, "got 0x8");
    query = query_of(0, NULL);
    query.size = 24;
    REFUSED(uc_feed_count(store, "r", 1, &query, &number), UC_MISUSE, "uc_feed_query");
}

static void pointers(void)
{
    char value[SIZE + 8];
    uint32_t room[4];
    uint32_t *odd = (uint32_t *)(void *)((char *)room + 1);
    uc_feed_info_reply facts = UC_FEED_INFO_INIT;
    uc_feed_query query = UC_FEED_QUERY_INIT;
    uint64_t number;
    size_t found;
    int64_t changed[3] = { 0, 0, 0 };

    make_value(value, 1);
    REFUSED(uc_feed_create(NULL, "x", 1, SIZE, NULL, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_create(store, NULL, 1, SIZE, NULL, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_create(store, "x", 1, SIZE, "\xff", NULL), UC_MISUSE, "");
    REFUSED(uc_feed_create(store, "x", 1, SIZE, NULL, "\xff"), UC_MISUSE, "");
    REFUSED(uc_feed_add(NULL, "r", 1, 0, 1, value, SIZE, NULL, 0, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_add(store, "r", 1, 0, 1, NULL, SIZE, NULL, 0, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_add(store, "r", 1, 0, SIZE_MAX, value, SIZE, NULL, 0, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_add(store, "r", 1, 0, SIZE_MAX / 2, value, 4, room, 4, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_add(store, "r", 1, 0, 1, value, SIZE, odd, 3, NULL), UC_MISUSE, "aligned to 4 bytes");
    REFUSED(uc_feed_range(NULL, "r", 1, 0, 1, NULL, value, SIZE, NULL, 0, &found), UC_MISUSE, "");
    REFUSED(uc_feed_range(store, NULL, 1, 0, 1, NULL, value, SIZE, NULL, 0, &found), UC_MISUSE, "");
    REFUSED(uc_feed_range(store, "r", 1, 0, 1, NULL, NULL, SIZE, NULL, 0, &found), UC_MISUSE, "");
    REFUSED(uc_feed_range(store, "r", 1, 0, 1, NULL, value, SIZE, NULL, 0, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_range(store, "r", 1, 0, SIZE_MAX, NULL, value, SIZE, NULL, 0, &found), UC_MISUSE, "");
    REFUSED(uc_feed_range(store, "r", 1, 0, 1, NULL, value, SIZE, odd, 3, &found), UC_MISUSE, "aligned to 4 bytes");
    query.filter_length = 3;
    REFUSED(uc_feed_range(store, "r", 1, 0, 1, &query, value, SIZE, NULL, 0, &found), UC_MISUSE, "");
    REFUSED(uc_feed_count(store, "r", 1, NULL, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_count(NULL, "r", 1, NULL, &number), UC_MISUSE, "");
    REFUSED(uc_feed_position(store, "r", 1, NULL, SIZE, 0, &number), UC_MISUSE, "");
    REFUSED(uc_feed_position(store, "r", 1, value, SIZE, 0, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_del(store, "r", 1, 1, NULL, SIZE, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_del(NULL, "r", 1, 1, value, SIZE, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_hide(store, NULL, 1, 1, value, SIZE, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_show(store, "r", 1, 1, NULL, SIZE, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_del_where(store, "r", 1, NULL, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_move(store, "r", 1, NULL, SIZE, 0), UC_MISUSE, "");
    REFUSED(uc_feed_set_attributes(store, "r", 1, value, SIZE, NULL, 3, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_set_attributes(store, "r", 1, value, SIZE, changed, 0, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_pop(store, "r", 1, 0, 1, NULL, SIZE, &found), UC_MISUSE, "");
    REFUSED(uc_feed_pop(store, "r", 1, 0, 1, value, SIZE, NULL), UC_MISUSE, "");
    REFUSED(uc_feed_info(store, "r", 1, NULL), UC_MISUSE, "");
    facts.size = 1;
    REFUSED(uc_feed_info(store, "r", 1, &facts), UC_MISUSE, "uc_feed_info_reply");
    REFUSED(uc_feed_compact(NULL, "r", 1), UC_MISUSE, "");
}

static void no_key_and_another_type(void)
{
    char value[SIZE];
    uc_feed_info_reply facts = UC_FEED_INFO_INIT;
    uc_feed_query query = UC_FEED_QUERY_INIT;
    int64_t changed[1] = { 1 };
    uint64_t number = 99;
    size_t found = 99;

    make_value(value, 1);
    EXPECT_OK(uc_feed_range(store, "none", 4, 0, 1, NULL, value, SIZE, NULL, 0, &found));
    EXPECT(found == 0 && count("none", UC_FEED_ALL, NULL) == 0 && count("none", UC_FEED_ALL, "7") == 0);
    EXPECT_STATUS(uc_feed_position(store, "none", 4, value, SIZE, 0, &number), UC_NONE);
    EXPECT_OK(uc_feed_del(store, "none", 4, 1, value, SIZE, &number));
    EXPECT(number == 0);
    EXPECT_STATUS(uc_feed_move(store, "none", 4, value, SIZE, 0), UC_NONE);
    EXPECT_STATUS(uc_feed_pop(store, "none", 4, 0, 1, value, SIZE, &found), UC_NONE);
    EXPECT_STATUS(uc_feed_info(store, "none", 4, &facts), UC_NONE);
    EXPECT_STATUS(uc_feed_compact(store, "none", 4), UC_NONE);

    EXPECT_OK(set(store, "s", "text"));
    EXPECT_STATUS(uc_feed_create(store, "s", 1, SIZE, NULL, NULL), UC_ERROR);
    EXPECT_STATUS(uc_feed_add(store, "s", 1, 0, 1, value, SIZE, NULL, 0, NULL), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_range(store, "s", 1, 0, 1, NULL, value, SIZE, NULL, 0, &found), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_count(store, "s", 1, NULL, &number), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_position(store, "s", 1, value, SIZE, 0, &number), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_del(store, "s", 1, 1, value, SIZE, NULL), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_hide(store, "s", 1, 1, value, SIZE, NULL), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_show(store, "s", 1, 1, value, SIZE, NULL), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_del_where(store, "s", 1, &query, NULL), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_move(store, "s", 1, value, SIZE, 0), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_set_attributes(store, "s", 1, value, SIZE, changed, 1, NULL), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_pop(store, "s", 1, 0, 1, value, SIZE, &found), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_info(store, "s", 1, &facts), UC_WRONG_TYPE);
    EXPECT_STATUS(uc_feed_compact(store, "s", 1), UC_WRONG_TYPE);
    EXPECT(holds(store, "s", "text"));
}

/* Tests that a value equal to a keyword of FEED.ADD is treated as a value. */
static void words_are_values(void)
{
    uint64_t items;
    size_t found;
    char values[15];
    EXPECT_OK(uc_feed_create(store, "w", 1, 5, NULL, NULL));
    EXPECT_OK(uc_feed_add(store, "w", 1, 0, 3, "appleattrsATTRS", 5, NULL, 0, &items));
    EXPECT_OK(uc_feed_range(store, "w", 1, 0, 3, NULL, values, 5, NULL, 0, &found));
    EXPECT(items == 3 && found == 3 && memcmp(values, "appleattrsATTRS", 15) == 0);
}

/* Tests sorted feeds. Unlike commands, these calls take numbers as bytes. */
static void sorted(void)
{
    int64_t numbers[6] = { 30, -5, 7, 30, 1000, -5 }, found_numbers[6];
    uint32_t attributes[6] = { 1, 2, 3, 4, 5, 6 }, found_attributes[6];
    float nan[1] = { 0.0f };
    uc_feed_info_reply facts = UC_FEED_INFO_INIT;
    uc_feed_query query = UC_FEED_QUERY_INIT;
    int64_t changed[1] = { 7 };
    uint64_t number;
    size_t found;

    EXPECT_OK(uc_feed_create(store, "n", 1, 8, "4", "sorted TYPE int64"));
    EXPECT_OK(uc_feed_add(store, "n", 1, UC_FEED_BY_VALUE, 6, numbers, 8, attributes, 1, &number));
    EXPECT(number == 6);
    EXPECT_OK(uc_feed_range(store, "n", 1, 0, 6, NULL, found_numbers, 8, found_attributes, 1, &found));
    EXPECT(found == 6 && found_numbers[0] == -5 && found_numbers[2] == 7 && found_numbers[5] == 1000);
    EXPECT(found_attributes[0] == 2 && found_attributes[1] == 6 && found_attributes[3] == 1);
    EXPECT_OK(uc_feed_between(store, "n", 1, "(-5", 3, "30", 2, 1, 6, NULL, found_numbers, 8, NULL, 0, &found));
    EXPECT(found == 2 && found_numbers[0] == 30 && found_numbers[1] == 30);
    query.flags = UC_FEED_REVERSE;
    query.filter = "<5";
    query.filter_length = 2;
    EXPECT_OK(uc_feed_between(store, "n", 1, "-inf", 4, "+", 1, 0, 2, &query, found_numbers, 8, found_attributes, 1,
                              &found));
    EXPECT(found == 2 && found_numbers[0] == 30 && found_attributes[0] == 4 && found_attributes[1] == 1);
    EXPECT_OK(uc_feed_position(store, "n", 1, &numbers[2], 8, 0, &number));
    EXPECT(number == 2);
    EXPECT_OK(uc_feed_set_attributes(store, "n", 1, &numbers[0], 8, changed, 1, &number));
    EXPECT(number == 2 && count("n", UC_FEED_VISIBLE, "7") == 2);
    EXPECT_OK(uc_feed_hide(store, "n", 1, 2, numbers, 8, &number));
    EXPECT(number == 4 && count("n", UC_FEED_HIDDEN, NULL) == 4);
    EXPECT_OK(uc_feed_show(store, "n", 1, 1, numbers, 8, &number));
    EXPECT_OK(uc_feed_del(store, "n", 1, 1, numbers, 8, &number));
    EXPECT(number == 2 && count("n", UC_FEED_ALL, NULL) == 4);
    EXPECT_OK(uc_feed_pop(store, "n", 1, UC_FEED_RIGHT, 1, found_numbers, 8, &found));
    EXPECT(found == 1 && found_numbers[0] == 1000);
    EXPECT_OK(uc_feed_info(store, "n", 1, &facts));
    EXPECT(strcmp(facts.order, "sorted") == 0 && strcmp(facts.value_type, "int64") == 0);
    EXPECT(facts.unique == 0 && facts.indexed == 0 && facts.items == 3);

    {
        uc_feed_query query = UC_FEED_QUERY_INIT;
        uint64_t all = count("n", UC_FEED_ALL, NULL);
        query.flags = UC_FEED_ALL;
        query.low = "(1000";
        query.low_length = 5;
        EXPECT_OK(uc_feed_count(store, "n", 1, &query, &number));
        EXPECT(number == 0);
        query.low = "-inf";
        query.low_length = 4;
        query.high = "+inf";
        query.high_length = 4;
        EXPECT_OK(uc_feed_count(store, "n", 1, &query, &number));
        EXPECT(number == all);
        EXPECT_OK(uc_feed_range(store, "n", 1, 0, 1, &query, found_numbers, 8, NULL, 0, &found));
        EXPECT(found == 1);
        REFUSED(uc_feed_count(store, "r", 1, &query, &number), UC_ERROR, "ranges of values need a sorted feed");
        REFUSED(uc_feed_del_where(store, "r", 1, &query, &number), UC_ERROR, "ranges of values need a sorted feed");
        EXPECT_OK(uc_feed_del_where(store, "n", 1, &query, &number));
        EXPECT(number == all && count("n", UC_FEED_ALL, NULL) == 0);
    }

    EXPECT_OK(uc_feed_create(store, "x", 1, 4, "4", "sorted TYPE float32 UNIQUE"));
    memset(nan, 0xff, sizeof nan);
    REFUSED(uc_feed_add(store, "x", 1, UC_FEED_BY_VALUE, 1, nan, 4, NULL, 0, NULL), UC_ERROR, "not of type float32");
    attributes[0] = 16;
    REFUSED(uc_feed_add(store, "x", 1, UC_FEED_BY_VALUE, 1, numbers, 4, attributes, 1, NULL), UC_ERROR,
            "attribute 0 is '16', expected 0 to 15");
    REFUSED(uc_feed_add(store, "x", 1, UC_FEED_BY_VALUE, 1, numbers, 8, NULL, 0, NULL), UC_ERROR,
            "value has 8 bytes, expected 4");
    REFUSED(uc_feed_add(store, "x", 1, -1, 1, numbers, 4, NULL, 0, NULL), UC_ERROR, "expected * in a sorted feed");
    REFUSED(uc_feed_add(store, "r", 1, UC_FEED_BY_VALUE, 1, "thread000009", 12, NULL, 0, NULL), UC_ERROR,
            "position is *, expected an integer");
    REFUSED(uc_feed_add(store, "none", 4, UC_FEED_BY_VALUE, 1, numbers, 4, NULL, 0, NULL), UC_ERROR, "no such key");
    REFUSED(uc_feed_between(store, "r", 1, "-", 1, "+", 1, 0, 1, NULL, found_numbers, 12, NULL, 0, &found), UC_ERROR,
            "ranges of values need a sorted feed");
    REFUSED(uc_feed_between(store, "x", 1, "a", 1, "+", 1, 0, 1, NULL, found_numbers, 4, NULL, 0, &found), UC_ERROR,
            "low is 'a', expected a number");
    REFUSED(uc_feed_between(store, "x", 1, NULL, 1, "+", 1, 0, 1, NULL, found_numbers, 4, NULL, 0, &found), UC_MISUSE,
            "");
    EXPECT(count("x", UC_FEED_ALL, NULL) == 0);
}

int main(int argc, char **argv)
{
    EXPECT(argc == 2);
    store = open_store(argv[1]);
    every_call();
    many();
    nothing_is_written_past_buffers();
    wrong_sizes_and_values();
    pointers();
    no_key_and_another_type();
    words_are_values();
    sorted();
    EXPECT_OK(uc_close(store));
    return 0;
}
