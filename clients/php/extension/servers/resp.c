/* Implements the RESP parser and writer. */
#include "resp.h"
#include "zend_exceptions.h"

/* The maximum nesting depth of replies. */
#define DEPTH 64

/* The maximum length of a line in bytes. Lines contain only lengths, numbers and errors. */
#define LINE (64 * 1024)

/* The maximum size in bytes of a buffer that is retained when it becomes empty. */
#define KEPT (256 * 1024)

#define LEAST (16 * 1024)

/*
 * The maximum number of bytes or items that a reply may announce. A larger number is a protocol
 * error.
 */
#define MOST ((zend_long)1 << 40)

void undercroft_input_free(undercroft_input *input)
{
    if (input->data != NULL) {
        efree(input->data);
    }
    memset(input, 0, sizeof(*input));
}

void undercroft_input_reserve(undercroft_input *input, size_t room)
{
    size_t needed;
    if (input->start == input->end && input->missing == 0) {
        input->start = input->scanned = input->end = 0;
        if (input->size > KEPT && room <= KEPT) {
            undercroft_input_free(input);
        }
    } else if (input->start > input->size / 2) {
        memmove(input->data, input->data + input->start, input->end - input->start);
        input->scanned -= input->start;
        input->end -= input->start;
        input->wanted = input->wanted > input->start ? input->wanted - input->start : 0;
        input->start = 0;
    }
    needed = input->end + room;
    if (input->size < needed) {
        size_t size = input->size * 2;
        size = size < LEAST ? LEAST : size;
        size = size < needed ? needed : size;
        input->data = undercroft_reallocate(input->data, size);
        input->size = size;
    }
}

/* Throws a protocol error that shows the expected and the received bytes. */
static ZEND_COLD void broken(const char *whose, const char *expected, const char *got, size_t length)
{
    char shown[4 * 40 + 1], *to = shown;
    size_t at;
    for (at = 0; at < length && at < 40; at++) {
        unsigned char byte = (unsigned char)got[at];
        if (byte >= 32 && byte < 127) {
            *to++ = (char)byte;
        } else {
            to += sprintf(to, "\\x%02x", byte);
        }
    }
    *to = 0;
    zend_throw_exception_ex(undercroft_protocol_exception, 0, "%s%sexpected %s, got '%s'", whose == NULL ? "" : whose,
                            whose == NULL ? "" : ": ", expected, shown);
}

/* Parses the number in a line, from `at` to `end`. Returns false if the text is not a number. */
static bool number(const char *at, const char *end, zend_long *to)
{
    zend_ulong value = 0, limit = ZEND_LONG_MAX;
    bool is_negative = false;
    if (at < end && (*at == '-' || *at == '+')) {
        is_negative = *at == '-';
        limit += is_negative;
        at++;
    }
    if (at == end) {
        return false;
    }
    for (; at < end; at++) {
        zend_ulong digit = (zend_ulong)(*at - '0');
        if (*at < '0' || *at > '9' || value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *to = is_negative ? (zend_long)(0 - value) : (zend_long)value;
    return true;
}

/*
 * Returns the position of the \r\n that ends the line starting at `from`, or NULL if the line is
 * incomplete.
 */
static zend_always_inline const char *line_end(const char *from, const char *end)
{
    const char *at = from;
    while ((at = memchr(at, '\r', (size_t)(end - at))) != NULL) {
        if (at + 1 == end) {
            return NULL;
        }
        if (at[1] == '\n') {
            return at;
        }
        at++;
    }
    return NULL;
}

undercroft_found undercroft_input_scan(undercroft_input *input, const char *whose)
{
    const char *data = input->data, *end = data + input->end, *at = data + input->scanned;
    if (input->start == input->end) {
        return UNDERCROFT_PARTIAL;
    }
    if (input->missing == 0) {
        input->missing = 1;
        at = data + input->start;
    }
    while (input->missing > 0) {
        const char *line = at, *stop = at == end ? NULL : line_end(at, end);
        zend_long count;
        input->scanned = (size_t)(at - data);
        if (stop == NULL) {
            if (end - at > LINE) {
                broken(whose, "a line of at most 65536 bytes", at, (size_t)(end - at));
                return UNDERCROFT_BROKEN;
            }
            return UNDERCROFT_PARTIAL;
        }
        at = stop + 2;
        switch (*line) {
            case '$':
            case '=':
            case '!':
                if (!number(line + 1, stop, &count) || count < -(*line == '$') || count > MOST) {
                    broken(whose, "the length of a string", line, (size_t)(stop - line));
                    return UNDERCROFT_BROKEN;
                }
                if (count >= 0) {
                    if ((size_t)(end - at) < (size_t)count + 2) {
                        input->wanted = (size_t)(at - data) + (size_t)count + 2;
                        return UNDERCROFT_PARTIAL;
                    }
                    if (at[count] != '\r' || at[count + 1] != '\n') {
                        broken(whose, "the end of a string", at + count, 2);
                        return UNDERCROFT_BROKEN;
                    }
                    at += count + 2;
                }
                break;
            case '*':
            case '~':
            case '>':
            case '%':
            case '|':
                if (!number(line + 1, stop, &count) || count < -(*line == '*') || count > MOST) {
                    broken(whose, "a number of items", line, (size_t)(stop - line));
                    return UNDERCROFT_BROKEN;
                }
                count = count < 0 ? 0 : count;
                if (input->missing > (uint64_t)MOST) {
                    broken(whose, "fewer items", line, (size_t)(stop - line));
                    return UNDERCROFT_BROKEN;
                }
                input->missing += (uint64_t)count * (*line == '%' || *line == '|' ? 2 : 1) + (*line == '|');
                break;
            case '+':
            case '-':
            case ':':
            case '_':
            case '#':
            case ',':
            case '(':
                break;
            default:
                broken(whose, "a reply", line, (size_t)(stop - line));
                return UNDERCROFT_BROKEN;
        }
        input->missing--;
    }
    input->scanned = (size_t)(at - data);
    input->wanted = 0;
    return UNDERCROFT_WHOLE;
}

/* The current position in a reply that is being converted to PHP values. */
typedef struct place {
    const char *at;
    const char *whose;
    unsigned int depth;
} place;

static bool take(place *from, zval *to);

/* Converts `count` items to a list. */
static bool take_list(place *from, zval *to, zend_long count)
{
    if (count == 0) {
        ZVAL_EMPTY_ARRAY(to);
        return true;
    }
    if (++from->depth > DEPTH) {
        broken(from->whose, "replies nested at most 64 levels deep", "more", 4);
        return false;
    }
    undercroft_new_list(to, (size_t)count);
    for (; count > 0; count--) {
        zval item;
        if (!take(from, &item)) {
            zval_ptr_dtor(to);
            return false;
        }
        zend_hash_next_index_insert_new(Z_ARRVAL_P(to), &item);
    }
    from->depth--;
    return true;
}

static bool take_map(place *from, zval *to, zend_long count)
{
    if (++from->depth > DEPTH) {
        broken(from->whose, "replies nested at most 64 levels deep", "more", 4);
        return false;
    }
    undercroft_new_map(to, (size_t)count);
    for (; count > 0; count--) {
        zval key, item;
        bool is_set;
        if (!take(from, &key)) {
            zval_ptr_dtor(to);
            return false;
        }
        if (!take(from, &item)) {
            zval_ptr_dtor(&key);
            zval_ptr_dtor(to);
            return false;
        }
        is_set = undercroft_set_item(to, &key, &item);
        if (!is_set) {
            const char *name = zend_zval_type_name(&key);
            broken(from->whose, "strings or numbers as keys of a map", name, strlen(name));
            zval_ptr_dtor(&item);
        }
        zval_ptr_dtor(&key);
        if (!is_set) {
            zval_ptr_dtor(to);
            return false;
        }
    }
    from->depth--;
    return true;
}

/* Converts the text of a line to a float. */
static bool take_double(place *from, zval *to, const char *text, size_t length)
{
    char copy[128];
    const char *end;
    if (length == 0 || length >= sizeof(copy)) {
        broken(from->whose, "a number", text, length);
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = 0;
    if (strcmp(copy, "inf") == 0 || strcmp(copy, "+inf") == 0) {
        ZVAL_DOUBLE(to, ZEND_INFINITY);
    } else if (strcmp(copy, "-inf") == 0) {
        ZVAL_DOUBLE(to, -ZEND_INFINITY);
    } else if (strcmp(copy, "nan") == 0 || strcmp(copy, "-nan") == 0) {
        ZVAL_DOUBLE(to, ZEND_NAN);
    } else {
        ZVAL_DOUBLE(to, zend_strtod(copy, &end));
        if (end != copy + length) {
            broken(from->whose, "a number", text, length);
            return false;
        }
    }
    return true;
}

/*
 * Converts a value. A scan has already verified that the value is complete and that its lengths are
 * valid.
 */
static bool take(place *from, zval *to)
{
    const char *line = from->at, *text = line + 1, *stop;
    zend_long count = 0;
    size_t length;
    if (UNDERCROFT_IS_OVER()) {
        ZVAL_NULL(to);
        return true;
    }
    /* A scanned reply always ends with \r\n, so the search needs no limit. */
    for (stop = text; *stop != '\r' || stop[1] != '\n'; stop++) {
    }
    from->at = stop + 2;
    length = (size_t)(stop - text);
    switch (*line) {
        case '$':
        case '=':
        case '!':
            number(text, stop, &count);
            if (count < 0) {
                ZVAL_NULL(to);
                return true;
            }
            text = from->at;
            from->at += count + 2;
            if (*line == '!') {
                undercroft_error_value(to, text, (size_t)count);
            } else if (*line == '=') {
                /* A verbatim string begins with its format, such as "txt:". */
                undercroft_string(to, text + (count < 4 ? 0 : 4), (size_t)(count < 4 ? count : count - 4));
            } else {
                undercroft_string(to, text, (size_t)count);
            }
            return true;
        case '+':
            undercroft_string(to, text, length);
            return true;
        case '-':
            undercroft_error_value(to, text, length);
            return true;
        case ':':
            if (!number(text, stop, &count)) {
                broken(from->whose, "a number", line, length + 1);
                return false;
            }
            ZVAL_LONG(to, count);
            return true;
        case '(':
            undercroft_string(to, text, length);
            return true;
        case '_':
            ZVAL_NULL(to);
            return true;
        case '#':
            if (length != 1 || (*text != 't' && *text != 'f')) {
                broken(from->whose, "#t or #f", line, length + 1);
                return false;
            }
            ZVAL_BOOL(to, *text == 't');
            return true;
        case ',':
            return take_double(from, to, text, length);
        default:
            break;
    }
    number(text, stop, &count);
    if (count < 0) {
        ZVAL_NULL(to);
        return true;
    }
    if ((zend_ulong)count > HT_MAX_SIZE / 2) {
        broken(from->whose, "fewer items than an array can hold", line, length + 1);
        return false;
    }
    if (*line == '%') {
        return take_map(from, to, count);
    }
    if (*line == '|') {
        /* Skip an attribute map, which only describes the reply that follows it. */
        zval about;
        bool is_taken;
        if (!take_map(from, &about, count)) {
            return false;
        }
        zval_ptr_dtor(&about);
        if (++from->depth > DEPTH) {
            broken(from->whose, "replies nested at most 64 levels deep", "more", 4);
            return false;
        }
        is_taken = take(from, to);
        from->depth--;
        return is_taken;
    }
    return take_list(from, to, count);
}

bool undercroft_input_take(undercroft_input *input, zval *to, const char *whose)
{
    place from = { input->data + input->start, whose, 0 };
    input->is_push = *from.at == '>';
    if (!take(&from, to)) {
        return false;
    }
    input->start = input->scanned;
    return true;
}

static void write_header(smart_str *to, char kind, size_t number)
{
    char digits[32], *end = digits + sizeof(digits), *at = end;
    *--at = '\n';
    *--at = '\r';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    *--at = kind;
    smart_str_appendl(to, at, (size_t)(end - at));
}

void undercroft_write_command(smart_str *to, size_t count, const uc_bytes *words)
{
    size_t at;
    write_header(to, '*', count);
    for (at = 0; at < count; at++) {
        write_header(to, '$', words[at].length);
        smart_str_appendl(to, words[at].data, words[at].length);
        smart_str_appendl(to, "\r\n", 2);
    }
}
