/*
 * Tests that scripts and numbers work normally in a program whose locale formats numbers
 * differently, and that the locale stays unchanged.
 */
#include <locale.h>

#include "../check.h"

static uc_session *session;
static uc_reply *reply;

static void answers(const char *script, const char *wanted)
{
    uc_bytes words[3];
    words[0] = uc_text("EVAL");
    words[1] = uc_text(script);
    words[2] = uc_text("0");
    EXPECT_OK(uc_command(session, 3, words, reply));
    if (!is_text(uc_reply_value(reply), wanted)) {
        fprintf(stderr, "%s: expected %s\n", script, wanted);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const char *const add[] = { "INCRBYFLOAT", "number", "1.25", NULL };
    static const char *const score[] = { "ZADD", "sorted", "1.5", "member", NULL };
    static const char *const function[] = { "FUNCTION", "LOAD",
        "#!lua name=l\nlocal n = 1.5 redis.register_function('f', function() return tostring(n * 1.5) end)", NULL };
    static const char *const fcall[] = { "FCALL", "f", "0", NULL };
    uc_store *store;
    char text[16];
    EXPECT(argc == 2);
    EXPECT(setlocale(LC_ALL, "") != NULL);
    snprintf(text, sizeof text, "%.1f", 1.5);
    EXPECT(strcmp(text, "1,5") == 0);
    store = open_store(argv[1]);
    EXPECT_OK(uc_session_open(store, &session));
    EXPECT_OK(uc_reply_new(&reply));
    answers("return tostring(1.5)", "1.5");
    answers("return 0.25 .. ''", "0.25");
    answers("return tostring(tonumber('1.5') + '0.25')", "1.75");
    answers("return tostring(tonumber('1,5'))", "nil");
    answers("return cjson.encode(cjson.decode('[1.5]'))", "[1.5]");
    answers("return string.format('%.2f %g %s', 1.5, 2.5, 3.5)", "1.50 2.5 3.5");
    answers("return tostring(cmsgpack.unpack(cmsgpack.pack(1.5)))", "1.5");
    answers("return tostring(struct.unpack('d', struct.pack('d', 1.5)))", "1.5");
    /* Lua does not treat non-ASCII letters as letters, and compares strings byte by byte. */
    answers("return tostring('a' < 'B') .. tostring('\303\244' < 'z')", "falsefalse");
    answers("return string.upper('\344x') .. tostring(string.find('\344', '%a'))", "\344Xnil");
    EXPECT_OK(command(session, reply, add));
    EXPECT(is_text(uc_reply_value(reply), "1.25"));
    EXPECT_OK(command(session, reply, score));
    answers("return redis.call('ZSCORE', 'sorted', 'member')", "1.5");
    EXPECT_OK(command(session, reply, function));
    EXPECT_OK(command(session, reply, fcall));
    EXPECT(is_text(uc_reply_value(reply), "2.25"));
    /* The locale still formats the program's numbers. */
    snprintf(text, sizeof text, "%.1f", 1.5);
    EXPECT(strcmp(text, "1,5") == 0);
    EXPECT_OK(uc_session_close(session));
    EXPECT_OK(uc_reply_free(reply));
    EXPECT_OK(uc_close(store));
    return 0;
}
