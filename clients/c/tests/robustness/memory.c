/*
 * Tests that calls that need memory return an error in a process without free memory, and work
 * again once memory is free.
 */
#include "../check.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the bytes of address space that this process uses. */
static rlim_t used(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void limit(rlim_t bytes)
{
    struct rlimit both;
    EXPECT(getrlimit(RLIMIT_AS, &both) == 0);
    both.rlim_cur = bytes;
    EXPECT(setrlimit(RLIMIT_AS, &both) == 0);
}

static const char *const reads[][6] = {
    { "LRANGE", "list", "0", "-1", NULL },
    { "LRANGE", "numbers", "0", "-1", NULL },
    { "GET", "text", NULL },
    { "GETRANGE", "text", "1", "-1", NULL },
    { "MGET", "text", "text", "text", NULL },
};

/*
 * Makes each read call with `more` bytes of free memory. Returns the number of calls that failed.
 */
static int failures_within(uc_session *session, uc_reply *reply, rlim_t more)
{
    size_t each, refused = 0;
    for (each = 0; each < sizeof reads / sizeof *reads; each++) {
        int status;
        uc_reply *fresh;
        EXPECT_OK(uc_reply_new(&fresh));
        limit(used() + more);
        status = command(session, fresh, reads[each]);
        limit(RLIM_INFINITY);
        if (status != UC_OK) {
            EXPECT_STATUS(status, UC_ERROR);
            EXPECT(strstr(uc_error_message(), "could not allocate ") != NULL);
            EXPECT_OK(command(session, reply, reads[each]));
            refused++;
        }
        EXPECT_OK(uc_reply_free(fresh));
    }
    return (int)refused;
}

/*
 * Makes the allocator map each large block separately, because it would otherwise retain freed
 * blocks for later calls. Small blocks, whose failed allocation aborts the process, come from a
 * heap with free space.
 */
static void arrange_blocks(void)
{
#ifdef M_MMAP_THRESHOLD
    void *volatile block;
    EXPECT(mallopt(M_MMAP_THRESHOLD, 1 << 17) == 1);
    EXPECT(mallopt(M_TRIM_THRESHOLD, 64 << 20) == 1);
    EXPECT(mallopt(M_TOP_PAD, 8 << 20) == 1);
    block = malloc(100000);
    free(block);
#endif
}

int main(int count, char **arguments)
{
    static char text[8 << 20];
    static const char *const numbers[] = {
        "EVAL", "for i = 1, 400000 do redis.call('RPUSH', KEYS[1], i) end", "1", "numbers", NULL
    };
    uc_store *store;
    uc_session *session;
    uc_reply *reply;
    uc_bytes words[3];
    int i, refused = 0;
    size_t more;
    EXPECT(count == 2);
    arrange_blocks();
    store = open_store(arguments[1]);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    memset(text, 'x', sizeof text);
    EXPECT_OK(uc_set(store, "text", 4, text, sizeof text));
    words[0] = uc_text("RPUSH");
    words[1] = uc_text("list");
    words[2] = uc_data(text, 100000);
    for (i = 0; i < 100; i++)
        EXPECT_OK(uc_command(session, 3, words, reply));
    EXPECT_OK(command(session, reply, numbers));
    for (more = 0; more <= 32; more += 2)
        refused += failures_within(session, reply, (rlim_t)more << 20);
    EXPECT(refused >= 20);
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_close(store));
    return 0;
}
