/*
 * Tests that programs built with older or newer headers work with this library. The structures
 * below come from those headers.
 */
#include <stddef.h>

#include "check.h"

/* The options structure in UC_ABI_VERSION 1 to 3. */
typedef struct options_1 {
    size_t size;
    uint64_t capacity;
    uint64_t max_memory;
    const char *policy;
    uint64_t timeout_ms;
    uint64_t database;
} options_1;

/* The query structure in UC_ABI_VERSION 2, the first version with queries. */
typedef struct query_2 {
    size_t size;
    uint64_t flags;
    const void *filter;
    size_t filter_length;
} query_2;

typedef struct facts_2 {
    size_t size;
    uint64_t items;
    uint64_t visible;
    uint64_t hidden;
    uint64_t leaves;
    uint64_t nodes;
    uint64_t bytes;
    uint64_t fill_percent;
    uint32_t value_size;
    uint32_t attribute_count;
    uint8_t attribute_bits[16];
    char order[16];
} facts_2;

/* The query structure in a future version. */
typedef struct query_newer {
    uc_feed_query known;
    uint64_t more;
} query_newer;

typedef struct facts_newer {
    uc_feed_info_reply known;
    uint64_t more;
} facts_newer;

typedef struct set_newer {
    uc_set_options known;
    uint64_t more;
} set_newer;

static void older(uc_store *store)
{
    query_2 query = { sizeof query, UC_FEED_ALL, NULL, 0 };
    struct {
        facts_2 facts;
        unsigned char behind[64];
    } room;
    uint64_t count;
    size_t i;
    memset(&room, 0x55, sizeof room);
    room.facts.size = sizeof room.facts;
    EXPECT_OK(uc_feed_count(store, "feed", 4, (const uc_feed_query *)(void *)&query, &count));
    EXPECT(count == 1);
    EXPECT_OK(uc_feed_info(store, "feed", 4, (uc_feed_info_reply *)(void *)&room.facts));
    EXPECT(room.facts.size == sizeof room.facts && room.facts.items == 1 && room.facts.value_size == 4);
    EXPECT(strcmp(room.facts.order, "list") == 0);
    for (i = 0; i < sizeof room.behind; i++)
        EXPECT(room.behind[i] == 0x55);
    query.size = sizeof query - 8;
    EXPECT_STATUS(uc_feed_count(store, "feed", 4, (const uc_feed_query *)(void *)&query, &count), UC_MISUSE);
    EXPECT(strstr(uc_error_message(), "uc_feed_query") != NULL);
}

static void newer(uc_store *store)
{
    query_newer query = { UC_FEED_QUERY_INIT, 0 };
    facts_newer facts;
    set_newer options;
    uint64_t count;
    query.known.size = sizeof query;
    EXPECT_OK(uc_feed_count(store, "feed", 4, &query.known, &count));
    EXPECT(count == 1);
    /* The library refuses a nonzero value in a field that it does not know. */
    query.more = 1;
    EXPECT_STATUS(uc_feed_count(store, "feed", 4, &query.known, &count), UC_MISUSE);
    memset(&facts, 0, sizeof facts);
    facts.known.size = sizeof facts;
    EXPECT_OK(uc_feed_info(store, "feed", 4, &facts.known));
    EXPECT(facts.known.size == sizeof facts && facts.known.items == 1 && facts.more == 0);
    memset(&options, 0, sizeof options);
    options.known.size = sizeof options;
    EXPECT_OK(uc_set_with(store, "key", 3, "value", 5, &options.known, NULL));
    options.more = 1;
    EXPECT_STATUS(uc_set_with(store, "key", 3, "other", 5, &options.known, NULL), UC_MISUSE);
    EXPECT(holds(store, "key", "value"));
}

int main(int argc, char **argv)
{
    options_1 options = { sizeof options, UINT64_C(1) << 30, 0, NULL, 0, 0 };
    uc_store *store;
    EXPECT(argc == 2);
    EXPECT_OK(uc_open(argv[1], (const uc_options *)(void *)&options, &store));
    EXPECT_OK(uc_feed_create(store, "feed", 4, 4, NULL, "list"));
    EXPECT_OK(uc_feed_add(store, "feed", 4, 0, 1, "item", 4, NULL, 0, NULL));
    older(store);
    newer(store);
    EXPECT_OK(uc_close(store));
    return 0;
}
