/*
 * Runs the commands of connections with a uc_session each, so that the conformance cases test this
 * library:
 *
 *     conform through conformance/clients/c.txt bridge
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

static uc_store *store;

/* Reads a line that begins with `start` and a number. Returns false at the end of the connection. */
static int read_number(FILE *in, char start, size_t *number)
{
    char line[64];
    if (fgets(line, sizeof line, in) == NULL)
        return 0;
    EXPECT(line[0] == start);
    *number = strtoull(line + 1, NULL, 10);
    return 1;
}

/* Reads a command. The caller frees the words. Returns false at the end of the connection. */
static int read_command(FILE *in, uc_bytes **words, size_t *count)
{
    size_t at, length;
    if (!read_number(in, '*', count))
        return 0;
    *words = (uc_bytes *)calloc(*count + 1, sizeof **words);
    EXPECT(*words != NULL);
    for (at = 0; at < *count; at++) {
        char *word;
        EXPECT(read_number(in, '$', &length));
        word = (char *)malloc(length + 2);
        EXPECT(word != NULL && fread(word, 1, length + 2, in) == length + 2);
        (*words)[at] = uc_data(word, length);
    }
    return 1;
}

static void write_text(FILE *out, char start, const uc_value *value)
{
    size_t length;
    const char *text = uc_value_string(value, &length);
    fputc(start, out);
    if (start == '$')
        fprintf(out, "%zu\r\n", length);
    fwrite(text, 1, length, out);
    fputs("\r\n", out);
}

/* Writes a value in RESP2. */
static void write_value(FILE *out, const uc_value *value)
{
    size_t at, length = uc_value_length(value);
    int type = uc_value_type(value);
    switch (type) {
    case UC_TYPE_NIL:
        fputs("$-1\r\n", out);
        break;
    case UC_TYPE_STATUS:
        write_text(out, '+', value);
        break;
    case UC_TYPE_STRING:
        write_text(out, '$', value);
        break;
    case UC_TYPE_ERROR:
        write_text(out, '-', value);
        break;
    case UC_TYPE_INTEGER:
    case UC_TYPE_BOOLEAN:
        fprintf(out, ":%lld\r\n", (long long)uc_value_integer(value));
        break;
    case UC_TYPE_DOUBLE: {
        char number[32];
        int digits = snprintf(number, sizeof number, "%.17g", uc_value_double(value));
        fprintf(out, "$%d\r\n%s\r\n", digits, number);
        break;
    }
    case UC_TYPE_ARRAY:
    case UC_TYPE_SET:
        fprintf(out, "*%zu\r\n", length);
        for (at = 0; at < length; at++)
            write_value(out, uc_value_item(value, at));
        break;
    case UC_TYPE_MAP:
        fprintf(out, "*%zu\r\n", 2 * length);
        for (at = 0; at < length; at++) {
            write_value(out, uc_value_key(value, at));
            write_value(out, uc_value_item(value, at));
        }
        break;
    default:
        fprintf(stderr, "unexpected type %d\n", type);
        exit(1);
    }
}

static void *serve(void *stream)
{
    int descriptor = (int)(intptr_t)stream;
    FILE *in = fdopen(descriptor, "rb"), *out = fdopen(dup(descriptor), "wb");
    const char *const hello[] = { "HELLO", "2", NULL };
    uc_session *session;
    uc_reply *reply;
    uc_bytes *words;
    size_t count, at;
    EXPECT(in != NULL && out != NULL);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    EXPECT_OK(command(session, reply, hello));
    while (read_command(in, &words, &count)) {
        int status = uc_command(session, count, words, reply);
        if (status < 0 && uc_value_type(uc_reply_value(reply)) != UC_TYPE_ERROR)
            fprintf(out, "-ERR %s: %s\r\n", uc_status_name(status), uc_error_message());
        else
            write_value(out, uc_reply_value(reply));
        fflush(out);
        for (at = 0; at < count; at++)
            free((void *)words[at].data);
        free(words);
    }
    uc_reply_free(reply);
    uc_session_close(session);
    fclose(in);
    fclose(out);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = { 0 };
    int listening = socket(AF_UNIX, SOCK_STREAM, 0), connected;
    pthread_t thread;
    EXPECT(argc == 3 && strlen(argv[2]) < sizeof address.sun_path);
    store = open_store(argv[1]);
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, argv[2]);
    EXPECT(bind(listening, (struct sockaddr *)&address, sizeof address) == 0);
    EXPECT(listen(listening, 100) == 0);
    while ((connected = accept(listening, NULL, NULL)) >= 0) {
        EXPECT(pthread_create(&thread, NULL, serve, (void *)(intptr_t)connected) == 0);
        EXPECT(pthread_detach(thread) == 0);
    }
    return 1;
}
