/* Parses and writes the wire format of replies and commands: RESP2 and RESP3. */
#ifndef UNDERCROFT_RESP_H
#define UNDERCROFT_RESP_H

#include "../php_undercroft.h"
#include "zend_smart_str.h"

/*
 * Received bytes and the state of their scan. A reply is converted to PHP values only when it is
 * complete, so that nothing is half converted if the rest never arrives or PHP's memory runs out. A
 * zeroed structure is an empty input.
 */
typedef struct undercroft_input {
    char *data;
    size_t size;
    /* The first byte not converted yet. */
    size_t start;
    /* The reply is known to be well formed up to this byte. */
    size_t scanned;
    size_t end;
    /* The number of values still missing from the reply; 0 between two replies. */
    uint64_t missing;
    /* The end of the longest announced string, up to which bytes must be read. */
    size_t wanted;
    /* Whether the last converted reply was a push message. */
    bool is_push;
} undercroft_input;

typedef enum undercroft_found {
    UNDERCROFT_PARTIAL,
    UNDERCROFT_WHOLE,
    /* The bytes are not a valid reply. An exception was thrown. */
    UNDERCROFT_BROKEN
} undercroft_found;

/* Makes room for `room` bytes at `data + end`. */
void undercroft_input_reserve(undercroft_input *input, size_t room);

void undercroft_input_free(undercroft_input *input);

/* Scans for a complete reply. `whose` is named in exceptions and may be NULL. */
undercroft_found undercroft_input_scan(undercroft_input *input, const char *whose);

/* Converts the reply that a scan found complete. Returns false if an exception was thrown. */
bool undercroft_input_take(undercroft_input *input, zval *to, const char *whose);

/* Appends a command in the format that servers read. */
void undercroft_write_command(smart_str *to, size_t count, const uc_bytes *words);

#endif
