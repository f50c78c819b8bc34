/*
 * Runs GET or SET through the C interface, with the same keys, values and order that
 * `undercroft-bench loop` uses through the engine.
 *
 * loop get|set KEYS ROUNDS STORE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <undercroft.h>

#define KEY 16
#define VALUE 64

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, uc_error_message());
    exit(1);
}

int main(int argc, char **argv)
{
    uc_options options = UC_OPTIONS_INIT;
    uc_store *store;
    size_t keys, rounds, index, round, length;
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    char(*names)[KEY], text[32], value[VALUE], buffer[VALUE];
    int gets;

    if (argc != 5)
        fail("expected get or set, keys, rounds and a store");
    gets = strcmp(argv[1], "get") == 0;
    keys = strtoull(argv[2], NULL, 10);
    rounds = strtoull(argv[3], NULL, 10);
    names = malloc(keys * sizeof *names);
    options.capacity = UINT64_C(4) << 30;
    options.max_memory = UC_UNLIMITED;
    if (names == NULL || uc_open(argv[4], &options, &store) != UC_OK)
        fail("opening");
    for (index = 0; index < keys; index++) {
        snprintf(text, sizeof text, "key:%012zu", index);
        memcpy(names[index], text, KEY);
    }
    /*
     * Shuffle the keys into an order that no prefetcher can predict and that is the same in every
     * run.
     */
    for (index = keys - 1; index > 0; index--) {
        char kept[KEY];
        size_t other;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        other = state % (index + 1);
        memcpy(kept, names[index], sizeof kept);
        memcpy(names[index], names[other], sizeof kept);
        memcpy(names[other], kept, sizeof kept);
    }
    memset(value, 'a', VALUE);
    for (index = 0; index < keys; index++)
        if (uc_set(store, names[index], KEY, value, VALUE) != UC_OK)
            fail("SET");
    for (round = 0; round < rounds; round++) {
        memset(value, 'a' + (int)(round % 26), VALUE);
        for (index = 0; index < keys; index++) {
            if (gets) {
                if (uc_get(store, names[index], KEY, buffer, VALUE, &length) != UC_OK || length != VALUE)
                    fail("GET");
            } else if (uc_set(store, names[index], KEY, value, VALUE) != UC_OK)
                fail("SET");
        }
    }
    printf("{\"operations\": %zu}\n", rounds * keys);
    uc_close(store);
    return 0;
}
