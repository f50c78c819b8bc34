/*
 * A cache shared by all processes on a machine: each process finds what any other has computed.
 *
 * cc cache.c $(pkg-config --cflags --libs undercroft) && ./a.out undercroft://pages 7
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <undercroft.h>

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, uc_error_message());
    exit(1);
}

/* Simulates an expensive computation. */
static size_t render(const char *page, char *text, size_t room)
{
    return (size_t)snprintf(text, room, "<h1>Page %s</h1>", page);
}

/*
 * Returns the page's text from the store, or renders it. The caller must free the text with free().
 */
static char *find_page(uc_store *store, const char *page, size_t *length, int *is_new)
{
    uc_set_options options = UC_SET_OPTIONS_INIT;
    char key[64], *text = NULL;
    size_t key_length = (size_t)snprintf(key, sizeof key, "page:%s", page), room = 0;
    int status;
    /*
     * The first call finds the length. Further calls follow only if another process changes the
     * page in the meantime.
     */
    while ((status = uc_get(store, key, key_length, text, room, length)) == UC_TOO_SMALL) {
        room = *length;
        text = (char *)realloc(text, room);
        if (text == NULL)
            abort();
    }
    *is_new = status == UC_NONE;
    if (status == UC_OK)
        return text != NULL ? text : (char *)calloc(1, 1);
    if (status != UC_NONE)
        fail("reading");
    text = (char *)realloc(text, 256);
    if (text == NULL)
        abort();
    *length = render(page, text, 256);
    options.expire_ms = 60000;
    if (uc_set_with(store, key, key_length, text, *length, &options, NULL) != UC_OK)
        fail("writing");
    return text;
}

int main(int argc, char **argv)
{
    uc_store *store;
    size_t length;
    int is_new, i;
    if (argc != 3) {
        fprintf(stderr, "usage: %s STORE PAGE, for example: %s undercroft://pages 7\n", argv[0], argv[0]);
        return 2;
    }
    if (uc_open(argv[1], NULL, &store) != UC_OK)
        fail("opening");
    for (i = 0; i < 2; i++) {
        char *text = find_page(store, argv[2], &length, &is_new);
        printf("%s %.*s\n", is_new ? "made: " : "found:", (int)length, text);
        free(text);
    }
    uc_close(store);
    return 0;
}
