/* Parses replies and writes commands in the RESP2 and RESP3 wire formats. */
#ifndef UNDERCROFT_RESP_H
#define UNDERCROFT_RESP_H

#include "../php_undercroft.h"
#include "zend_smart_str.h"

/*
 * Received bytes and the state of their scan. A reply is converted to PHP values only when it is
 * complete. This way, no value is left half converted if the remaining bytes never arrive or PHP
 * runs out of memory. A zeroed structure is an empty input.
 */
typedef struct undercroft_input {
    char *data;
    size_t size;
    /* The position of the first byte that has not been converted yet. */
    size_t start;
    /* The position up to which the reply is known to be well formed. */
    size_t scanned;
    size_t end;
    /* The number of values still missing from the reply, or 0 between two replies. */
    uint64_t missing;
    /* The position at which the longest announced string ends, up to which bytes must be read. */
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

/* Makes space for `room` bytes at `data + end`. */
void undercroft_input_reserve(undercroft_input *input, size_t room);

void undercroft_input_free(undercroft_input *input);

/* Scans for a complete reply. Exceptions name the sender `whose`, which may be NULL. */
undercroft_found undercroft_input_scan(undercroft_input *input, const char *whose);

/* Converts the reply that a scan found to be complete. Returns false if an exception was thrown. */
bool undercroft_input_take(undercroft_input *input, zval *to, const char *whose);

/* Appends a command in the wire format. */
void undercroft_write_command(smart_str *to, size_t count, const uc_bytes *words);

#endif
