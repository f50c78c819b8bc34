/*
 * Timed loops over feeds through the C interface, driven by standard input like
 * bench/loops/loop.py.
 *
 * The program reads lines "OPERATION COUNT" and answers each with the number of nanoseconds per
 * operation. A feed's name ends with the power of ten of its length: "feed7" has ten million items.
 * Operations are words joined by dashes:
 *
 *   fill-7             create and fill the feed if it is missing
 *   fill-7-INDEX       create and fill "indexed7", whose values are found by an index
 *   range-7-100-middle ranges of 100 items at the position first, middle, last or any
 *   attrs-7-100-middle the same ranges with attributes
 *   insert-7-head      single items at head, middle, tail or any position; removed again afterwards
 *   move-7             random items to the front of "indexed7", by value
 *   rare-7             a range of 50 from the start, with a filter that 1 item in 10,000 passes
 *   count-7            a count of items whose second attribute is 3
 *   both-7             a count of items whose second attribute is 3 and whose third is 1
 *   page-7-90000       a page of 25 of the items whose third attribute is 1
 *   visible-7-90000    the same page of all items that are not hidden
 *   short-7            open the store, read the first 100 items, close the store
 *   reads-7            for COUNT milliseconds, ranges of 100 items at any position; answers with
 *                      the CPU time of one range
 *   writes-7           for COUNT milliseconds, insert some 10,000 items a second at the front and
 *                      remove as many at the end
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <undercroft.h>

#define SIZE 12
#define COLUMNS 3
#define MOST 1000
#define CHUNK 1000
/* One item in RARE has RARE_VALUE as its first attribute; a page has PAGE items. */
#define RARE 10000
#define RARE_VALUE 15
#define PAGE 25

static const char *path;
static uc_store *store;
static char values[MOST * SIZE];
static uint32_t attributes[MOST * COLUMNS];
static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
static int failed;

static void fail(const char *what)
{
    if (!failed)
        printf("error %s: %s\n", what, uc_error_message());
    failed = 1;
}

static uint64_t chance(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Writes the value of an item; the values are unordered and distinct. */
static void make_value(char *place, uint64_t number)
{
    uint64_t mixed = number * 7919 % UINT64_C(99999999977);
    int digit;
    for (digit = SIZE - 2; digit >= 0; digit--) {
        place[digit] = (char)('0' + mixed % 10);
        mixed /= 10;
    }
    place[SIZE - 1] = 'z';
}

static void make_attributes(uint32_t *place)
{
    uint64_t number = chance((uint64_t)RARE * 1024);
    place[0] = number % RARE == 0 ? RARE_VALUE : (uint32_t)(number % 15);
    place[1] = (uint32_t)(number >> 3 & 7);
    place[2] = (uint32_t)(number >> 6 & 1);
}

/* Fills a feed with this number of items, some of which are hidden. */
static void fill(const char *key, uint64_t items, const char *order)
{
    uint64_t there = 0, number;
    uc_feed_query all = UC_FEED_QUERY_INIT;
    all.flags = UC_FEED_ALL;
    if (uc_feed_count(store, key, strlen(key), &all, &there) != UC_OK || there == items)
        return;
    if (uc_feed_create(store, key, strlen(key), SIZE, "4:3:1", order) != UC_OK)
        return fail("creating");
    for (number = 0; number < items && !failed; number += CHUNK) {
        size_t count = items - number < CHUNK ? items - number : CHUNK, i;
        for (i = 0; i < count; i++) {
            make_value(values + i * SIZE, number + i);
            make_attributes(attributes + i * COLUMNS);
        }
        if (uc_feed_add(store, key, strlen(key), -1, count, values, SIZE, attributes, COLUMNS, NULL) != UC_OK)
            fail("adding");
    }
}

static void range(const char *key, int64_t from, size_t count, const uc_feed_query *query, int with_attributes)
{
    size_t found;
    int status = uc_feed_range(store, key, strlen(key), from, count, query, values, SIZE,
                               with_attributes ? attributes : NULL, with_attributes ? COLUMNS : 0, &found);
    if (status != UC_OK)
        fail("a range");
    else if (found != count) {
        printf("error expected %zu items, got %zu\n", count, found);
        failed = 1;
    }
}

static double ranges(const char *key, uint64_t items, size_t length, const char *place, int with_attributes,
                     uint64_t count)
{
    double start;
    uint64_t i;
    int any = strcmp(place, "any") == 0;
    int64_t from = 0;
    if (strcmp(place, "middle") == 0)
        from = (int64_t)(items / 2);
    else if (strcmp(place, "last") == 0)
        from = -(int64_t)length;
    start = now(CLOCK_MONOTONIC);
    for (i = 0; i < count && !failed; i++)
        range(key, any ? (int64_t)chance(items - length) : from, length, NULL, with_attributes);
    return (now(CLOCK_MONOTONIC) - start) / (double)count;
}

static double inserts(const char *key, uint64_t items, const char *place, uint64_t count)
{
    static const char value[] = "inserted now";
    double start, taken;
    uint64_t i, removed = 0;
    int any = strcmp(place, "any") == 0;
    int64_t position = 0;
    make_attributes(attributes);
    if (strcmp(place, "middle") == 0)
        position = (int64_t)(items / 2);
    else if (strcmp(place, "tail") == 0)
        position = -1;
    start = now(CLOCK_MONOTONIC);
    for (i = 0; i < count && !failed; i++)
        if (uc_feed_add(store, key, strlen(key), any ? (int64_t)chance(items) : position, 1, value, SIZE, attributes,
                        COLUMNS, NULL) != UC_OK)
            fail("an insertion");
    taken = (now(CLOCK_MONOTONIC) - start) / (double)count;
    if (uc_feed_del(store, key, strlen(key), 1, value, SIZE, &removed) != UC_OK || removed != count)
        fail("removing what was inserted");
    return taken;
}

static double moves(const char *key, uint64_t items, uint64_t count)
{
    double start = now(CLOCK_MONOTONIC);
    uint64_t i;
    for (i = 0; i < count && !failed; i++) {
        make_value(values, chance(items));
        if (uc_feed_move(store, key, strlen(key), values, SIZE, 0) != UC_OK)
            fail("a move");
    }
    return (now(CLOCK_MONOTONIC) - start) / (double)count;
}

/* Times a range of filtered items, or a count if `length` is 0. */
static double filtered(const char *key, const char *filter, int64_t from, size_t length, uint64_t count)
{
    double start = now(CLOCK_MONOTONIC);
    uint64_t i, number;
    uc_feed_query query = UC_FEED_QUERY_INIT;
    query.filter = filter;
    query.filter_length = strlen(filter);
    for (i = 0; i < count && !failed; i++) {
        if (length > 0)
            range(key, from, length, &query, 1);
        else if (uc_feed_count(store, key, strlen(key), &query, &number) != UC_OK || number == 0)
            fail("a count");
    }
    return (now(CLOCK_MONOTONIC) - start) / (double)count;
}

static void open_store(void)
{
    uc_options options = UC_OPTIONS_INIT;
    options.max_memory = UC_UNLIMITED;
    if (uc_open(path, &options, &store) != UC_OK)
        fail("opening");
}

static double shorts(const char *key, uint64_t count)
{
    double start = now(CLOCK_MONOTONIC);
    uint64_t i;
    uc_close(store);
    for (i = 0; i < count && !failed; i++) {
        open_store();
        range(key, 0, 100, NULL, 0);
        uc_close(store);
    }
    start = (now(CLOCK_MONOTONIC) - start) / (double)count;
    open_store();
    return start;
}

static double reads(const char *key, uint64_t items, uint64_t milliseconds)
{
    double end = now(CLOCK_MONOTONIC) + (double)milliseconds * 1e6, start = now(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t done = 0, i;
    while (now(CLOCK_MONOTONIC) < end && !failed)
        for (i = 0; i < 100; i++, done++)
            range(key, (int64_t)chance(items - 100), 100, NULL, 0);
    return (now(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)done;
}

static double writes(const char *key, uint64_t milliseconds)
{
    double start = now(CLOCK_MONOTONIC), each = 1e5;
    struct timespec pause = { 0, 100000 };
    uint64_t done = 0, number = chance(1000000);
    size_t found;
    while (now(CLOCK_MONOTONIC) < start + (double)milliseconds * 1e6 && !failed) {
        /* A sleep takes longer than requested, so the writer catches up in small bursts. */
        while ((double)done * each < now(CLOCK_MONOTONIC) - start && !failed) {
            char value[SIZE];
            make_value(value, number++);
            make_attributes(attributes);
            if (uc_feed_add(store, key, strlen(key), 0, 1, value, SIZE, attributes, COLUMNS, NULL) != UC_OK ||
                uc_feed_pop(store, key, strlen(key), UC_FEED_RIGHT, 1, value, SIZE, &found) != UC_OK)
                fail("a write");
            done++;
        }
        nanosleep(&pause, NULL);
    }
    return (now(CLOCK_MONOTONIC) - start) / (double)done;
}

static double run(char *operation, uint64_t count)
{
    char *parts[4] = { "", "0", "", "" }, key[32];
    uint64_t items = 1;
    int given = 0, power;
    char *part;
    for (part = strtok(operation, "-"); part != NULL && given < 4; part = strtok(NULL, "-"))
        parts[given++] = part;
    power = atoi(parts[1]);
    while (power-- > 0)
        items *= 10;
    snprintf(key, sizeof key, "feed%s", parts[1]);
    if (strcmp(parts[0], "fill") == 0) {
        if (*parts[2] != 0)
            snprintf(key, sizeof key, "indexed%s", parts[1]);
        fill(key, items, *parts[2] != 0 ? "list INDEX" : NULL);
        return 0;
    }
    if (strcmp(parts[0], "range") == 0 || strcmp(parts[0], "attrs") == 0)
        return ranges(key, items, strtoull(parts[2], NULL, 10), parts[3], *parts[0] == 'a', count);
    if (strcmp(parts[0], "insert") == 0)
        return inserts(key, items, parts[2], count);
    if (strcmp(parts[0], "move") == 0) {
        snprintf(key, sizeof key, "indexed%s", parts[1]);
        return moves(key, items, count);
    }
    if (strcmp(parts[0], "rare") == 0)
        return filtered(key, "15::", 0, 50, count);
    if (strcmp(parts[0], "count") == 0)
        return filtered(key, ":3:", 0, 0, count);
    if (strcmp(parts[0], "both") == 0)
        return filtered(key, ":3:1", 0, 0, count);
    if (strcmp(parts[0], "page") == 0)
        return filtered(key, "::1", PAGE * atoll(parts[2]), PAGE, count);
    if (strcmp(parts[0], "visible") == 0)
        return filtered(key, "", PAGE * atoll(parts[2]), PAGE, count);
    if (strcmp(parts[0], "short") == 0)
        return shorts(key, count);
    if (strcmp(parts[0], "reads") == 0)
        return reads(key, items, count);
    if (strcmp(parts[0], "writes") == 0)
        return writes(key, count);
    printf("error no such operation: %s\n", parts[0]);
    failed = 1;
    return 0;
}

int main(int argc, char **argv)
{
    char line[128], operation[96];
    unsigned long long count;
    if (argc != 2) {
        fprintf(stderr, "expected a store\n");
        return 1;
    }
    path = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_store();
    if (failed)
        return 1;
    puts("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        double taken;
        if (sscanf(line, "%95s %llu", operation, &count) != 2)
            return 1;
        failed = 0;
        taken = run(operation, count);
        if (!failed)
            printf("%.3f\n", taken);
    }
    uc_close(store);
    return 0;
}
