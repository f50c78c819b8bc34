/*
 * Kills writers and readers with SIGKILL, one at a time and at any point. A value's bytes are
 * derived from its first bytes, and values keep changing size, so a reader notices a mix of two
 * values.
 *
 * storm STORE KILLS SEED
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"

#define WRITERS 3
#define READERS 3
#define KEYS 24
#define LONGEST 70000
#define ITEMS 400
#define ITEM 12

/* The memory that all processes share. */
struct shared {
    uint64_t written[WRITERS + READERS];
    uint64_t found;
};

static struct shared *shared;
static uc_store *store;
static uc_session *session;
static uc_reply *reply;
static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* Makes a value: a seed, then bytes derived from the seed and the length. */
static size_t make_value(unsigned char *value)
{
    static const size_t longest[] = { 16, 100, 300, 5000, LONGEST };
    size_t length = 8 + chance(longest[chance(5)] - 8), i;
    uint64_t seed = state;
    memcpy(value, &seed, 8);
    for (i = 8; i < length; i++)
        value[i] = (unsigned char)(seed + length + i * 31);
    return length;
}

static void check_value(const void *data, size_t length)
{
    const unsigned char *value = (const unsigned char *)data;
    uint64_t seed;
    size_t i;
    EXPECT(length >= 8 && length <= LONGEST);
    memcpy(&seed, value, 8);
    for (i = 8; i < length; i++)
        EXPECT(value[i] == (unsigned char)(seed + length + i * 31));
    __atomic_add_fetch(&shared->found, 1, __ATOMIC_RELAXED);
}

/* Returns the name of a key, or of the second key in a pair whose values are always equal. */
static uc_bytes key_of(char *text, size_t size, uint64_t number, const char *which)
{
    snprintf(text, size, "%s %d", which, (int)number);
    return uc_text(text);
}

/*
 * Makes items for a feed. Each value is derived from a seed, and its attributes are derived from
 * the value.
 */
static void make_items(unsigned char *values, uint32_t *attributes, size_t count)
{
    size_t i, k;
    for (i = 0; i < count; i++) {
        unsigned char *value = values + i * ITEM;
        for (k = 0; k < 8; k++)
            value[k] = (unsigned char)chance(256);
        for (k = 8; k < ITEM; k++)
            value[k] = (unsigned char)(value[k - 8] + k);
        attributes[i * 2] = value[0] % 16;
        attributes[i * 2 + 1] = value[1] + 256u * value[2];
    }
}

static void check_items(const unsigned char *values, const uint32_t *attributes, size_t count)
{
    size_t i, k;
    for (i = 0; i < count; i++) {
        const unsigned char *value = values + i * ITEM;
        for (k = 8; k < ITEM; k++)
            EXPECT(value[k] == (unsigned char)(value[k - 8] + k));
        EXPECT(attributes[i * 2] == value[0] % 16u && attributes[i * 2 + 1] == value[1] + 256u * value[2]);
    }
    __atomic_add_fetch(&shared->found, count, __ATOMIC_RELAXED);
}

/* Changes a feed, which grows at random positions and shrinks when it is long. */
static void write_feed(void)
{
    unsigned char values[ITEMS * ITEM];
    uint32_t attributes[ITEMS * 2];
    uint64_t items;
    size_t count = 1 + chance(chance(4) ? 9 : ITEMS - 1), found;
    uc_feed_query query = UC_FEED_QUERY_INIT;
    make_items(values, attributes, count);
    EXPECT_OK(uc_feed_add(store, "feed", 4, (int64_t)chance(20000) - 10000, count, values, ITEM, attributes, 2, &items));
    if (items > 8000) {
        query.flags = UC_FEED_ALL;
        query.filter = "<9:";
        query.filter_length = 3;
        EXPECT_OK(uc_feed_del_where(store, "feed", 4, &query, NULL));
    } else if (chance(3) == 0) {
        EXPECT_OK(uc_feed_hide(store, "feed", 4, count, values, ITEM, NULL));
    } else if (chance(3) == 0) {
        int status = uc_feed_pop(store, "feed", 4, (int)chance(2), chance(ITEMS), values, ITEM, &found);
        EXPECT(status == UC_OK || status == UC_NONE);
    }
}

static void read_feed(void)
{
    unsigned char values[ITEMS * ITEM];
    uint32_t attributes[ITEMS * 2];
    size_t found;
    uc_feed_query query = UC_FEED_QUERY_INIT;
    query.flags = chance(8) % 7;
    if ((query.flags & 3) == 3)
        query.flags = 0;
    query.filter = chance(2) ? "3|7:" : "";
    query.filter_length = strlen((const char *)query.filter);
    EXPECT_OK(uc_feed_range(store, "feed", 4, (int64_t)chance(9000) - 3000, ITEMS, &query, values, ITEM, attributes, 2,
                            &found));
    check_items(values, attributes, found);
    EXPECT(query.filter_length == 0 || found == 0 || attributes[0] == 3 || attributes[0] == 7);
}

static void write_once(void)
{
    static unsigned char value[LONGEST];
    char name[32], first[32], second[32];
    size_t length = make_value(value);
    uint64_t number = chance(KEYS);
    uc_bytes key = key_of(name, sizeof name, number, "single"), pair[2], values[2], words[6];
    uc_set_options options = UC_SET_OPTIONS_INIT;
    uc_words commands[2];
    pair[0] = key_of(first, sizeof first, number, "first");
    pair[1] = key_of(second, sizeof second, number, "second");
    values[0] = values[1] = uc_data(value, length);
    switch (chance(8)) {
    case 0:
        EXPECT_OK(uc_set(store, key.data, key.length, value, length));
        break;
    case 1:
        options.expire_ms = 1 + (int64_t)chance(50);
        EXPECT_OK(uc_set_with(store, key.data, key.length, value, length, &options, NULL));
        break;
    case 2:
        EXPECT_OK(uc_set_with(store, key.data, key.length, value, length, NULL, reply));
        if (uc_value_type(uc_reply_value(reply)) != UC_TYPE_NIL)
            check_value(uc_value_string(uc_reply_value(reply), NULL), uc_value_length(uc_reply_value(reply)));
        break;
    case 3:
        EXPECT_OK(uc_mset(store, 2, pair, values));
        break;
    case 4:
        words[0] = words[3] = uc_text("SET");
        words[1] = pair[0];
        words[4] = pair[1];
        words[2] = words[5] = values[0];
        commands[0].count = commands[1].count = 3;
        commands[0].words = words;
        commands[1].words = words + 3;
        EXPECT_OK(uc_transaction(session, 2, commands, reply));
        break;
    case 5:
    case 6:
        write_feed();
        break;
    default:
        EXPECT_OK(uc_del(store, 2, pair, NULL));
        break;
    }
}

static void read_once(void)
{
    static unsigned char value[LONGEST];
    char name[32], first[32], second[32];
    uint64_t number = chance(KEYS);
    uc_bytes key = key_of(name, sizeof name, number, "single"), pair[2], words[2];
    size_t length, room = chance(2) ? LONGEST : 8 + chance(400);
    const uc_value *one, *other;
    int status;
    pair[0] = key_of(first, sizeof first, number, "first");
    pair[1] = key_of(second, sizeof second, number, "second");
    switch (chance(4)) {
    case 0:
        status = uc_get(store, key.data, key.length, value, room, &length);
        if (status == UC_OK)
            check_value(value, length);
        else if (status == UC_TOO_SMALL)
            EXPECT(length > room && length <= LONGEST);
        else
            EXPECT_STATUS(status, UC_NONE);
        break;
    case 1:
        words[0] = uc_text("GET");
        words[1] = key;
        EXPECT_OK(uc_command(session, 2, words, reply));
        one = uc_reply_value(reply);
        if (uc_value_type(one) != UC_TYPE_NIL)
            check_value(uc_value_string(one, NULL), uc_value_length(one));
        break;
    case 2:
        read_feed();
        break;
    default:
        EXPECT_OK(uc_mget(store, 2, pair, reply));
        one = uc_value_item(uc_reply_value(reply), 0);
        other = uc_value_item(uc_reply_value(reply), 1);
        EXPECT(uc_value_type(one) == uc_value_type(other) && uc_value_length(one) == uc_value_length(other));
        if (uc_value_type(one) != UC_TYPE_NIL) {
            check_value(uc_value_string(one, NULL), uc_value_length(one));
            EXPECT(memcmp(uc_value_string(one, NULL), uc_value_string(other, NULL), uc_value_length(one)) == 0);
        }
    }
}

static pid_t begin(const char *path, int place, uint64_t seed)
{
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child != 0)
        return child;
    /* The child dies with its parent. */
    EXPECT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    state = seed * 2 + 1;
    store = open_store(path);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    for (;;) {
        if (place < WRITERS)
            write_once();
        else
            read_once();
        __atomic_add_fetch(&shared->written[place], 1, __ATOMIC_SEQ_CST);
    }
}

/* Kills a process, which must still be running and must not have found an error. */
static void end(pid_t child)
{
    int status;
    EXPECT(kill(child, SIGKILL) == 0);
    EXPECT(waitpid(child, &status, 0) == child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        fprintf(stderr, "a process of the storm ended by itself with %#x\n", status);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    pid_t children[WRITERS + READERS];
    struct timespec pause = { 0, 200000 };
    uint64_t seed, kills, killed, done;
    int place;
    EXPECT(argc == 4);
    kills = strtoull(argv[2], NULL, 10);
    seed = strtoull(argv[3], NULL, 10);
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    store = open_store(argv[1]);
    EXPECT_OK(uc_feed_create(store, "feed", 4, ITEM, "4:16", "list"));
    EXPECT_OK(uc_close(store));
    for (place = 0; place < WRITERS + READERS; place++)
        children[place] = begin(argv[1], place, seed * 1000 + (uint64_t)place);
    state = seed * 2 + 1;
    for (killed = 0; killed < kills; killed++) {
        /*
         * The process has completed work since it started, so it is now in the middle of further
         * work.
         */
        place = (int)chance(WRITERS + READERS);
        done = __atomic_load_n(&shared->written[place], __ATOMIC_SEQ_CST) + 1 + chance(40);
        while (__atomic_load_n(&shared->written[place], __ATOMIC_SEQ_CST) < done) {
            EXPECT(waitpid(children[place], NULL, WNOHANG) == 0);
            nanosleep(&pause, NULL);
        }
        end(children[place]);
        children[place] = begin(argv[1], place, seed * 1000 + 100 + killed);
    }
    for (place = 0; place < WRITERS + READERS; place++)
        end(children[place]);
    for (place = 0, done = 0; place < WRITERS; place++)
        done += shared->written[place];
    EXPECT(done > 0 && shared->found > 0);
    printf("storm: %d kills of C programs, %llu writes, %llu values read whole, seed %llu\n", (int)kills,
           (unsigned long long)done, (unsigned long long)shared->found, (unsigned long long)seed);
    return 0;
}
