/* Replies as they come over a socket: RESP2 and RESP3. */
#ifndef UNDERCROFT_RESP_H
#define UNDERCROFT_RESP_H

#include "../php_undercroft.h"
#include "zend_smart_str.h"

/* Bytes that came, and how far they were looked at. A reply is made PHP's only when it is there as a whole, so that
 * nothing is half done when the rest of it does not come, or when PHP's memory ends. All zero is an empty one. */
typedef struct undercroft_input {
    char *data;
    size_t size;
    /* The first byte that is not taken yet. */
    size_t start;
    /* Up to here the reply is known to be well formed. */
    size_t scanned;
    size_t end;
    /* So many values are to come before the reply is whole; 0 between two replies. */
    uint64_t missing;
    /* The end of the longest string that was announced: what is to be read at least. */
    size_t wanted;
    /* Whether the last reply that was taken was pushed by the server. */
    bool is_push;
} undercroft_input;

typedef enum undercroft_found {
    UNDERCROFT_PARTIAL,
    UNDERCROFT_WHOLE,
    /* The bytes are no replies; an exception was thrown. */
    UNDERCROFT_BROKEN
} undercroft_found;

/* Makes room for so many bytes at `data + end`. */
void undercroft_input_reserve(undercroft_input *input, size_t room);

void undercroft_input_free(undercroft_input *input);

/* Whether there is a whole reply. `whose` is named in the exception; it may be NULL. */
undercroft_found undercroft_input_scan(undercroft_input *input, const char *whose);

/* Takes the reply, after WHOLE. False: an exception was thrown. */
bool undercroft_input_take(undercroft_input *input, zval *to, const char *whose);

/* Writes a command as servers read it. */
void undercroft_write_command(smart_str *to, size_t count, const uc_bytes *words);

#endif
