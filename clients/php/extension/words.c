/* Converts PHP values to command words. Strings are used in place, and numbers become text. */
#include "php_undercroft.h"
#include "zend_smart_str.h"

/* Throws a TypeError that names the expected and the actual type. */
static ZEND_COLD void refuse(const char *expected, const zval *got)
{
    zend_type_error("expected %s, got %s", expected, zend_zval_type_name(got));
}

/* Writes the shortest text that parses to the same number. */
static void write_double(uc_bytes *to, double value, char *number)
{
    smart_str text = { NULL, 0 };
    smart_str_append_double(&text, value, -1, false);
    to->length = ZSTR_LEN(text.s) < UNDERCROFT_NUMBER ? ZSTR_LEN(text.s) : UNDERCROFT_NUMBER;
    memcpy(number, ZSTR_VAL(text.s), to->length);
    to->data = number;
    smart_str_free(&text);
}

/* Reads the bytes of a word. Returns false and throws if the word's type is invalid. */
static zend_always_inline bool read_word(uc_bytes *to, const zval *word, char *number)
{
    if (EXPECTED(Z_TYPE_P(word) == IS_STRING)) {
        to->data = Z_STRVAL_P(word);
        to->length = Z_STRLEN_P(word);
        return true;
    }
    if (Z_TYPE_P(word) == IS_LONG) {
        char *end = number + UNDERCROFT_NUMBER - 1;
        to->data = zend_print_long_to_buf(end, Z_LVAL_P(word));
        to->length = (size_t)(end - (const char *)to->data);
        return true;
    }
    if (Z_TYPE_P(word) == IS_DOUBLE) {
        if (zend_isnan(Z_DVAL_P(word))) {
            zend_value_error("expected a number as a command argument, got NAN");
            return false;
        }
        write_double(to, Z_DVAL_P(word), number);
        return true;
    }
    refuse("a string or a number as a command argument", word);
    return false;
}

/*
 * Returns whether a word cannot be used in place, because its bytes could be freed while a call
 * waits (references) or because reading them runs PHP code (objects).
 */
static zend_always_inline bool is_foreign(const zval *word)
{
    return Z_TYPE_P(word) == IS_REFERENCE || Z_TYPE_P(word) == IS_OBJECT;
}

static bool has_foreign(HashTable *words)
{
    zval *word;
    ZEND_HASH_FOREACH_VAL(words, word) {
        if (UNEXPECTED(is_foreign(word))) {
            return true;
        }
    } ZEND_HASH_FOREACH_END();
    return false;
}

/*
 * Copies a list of words with references resolved and objects converted to strings. Returns false
 * if an exception was thrown.
 */
static bool settle(zval *to, HashTable *words)
{
    zval *word;
    array_init_size(to, zend_hash_num_elements(words));
    ZEND_HASH_FOREACH_VAL(words, word) {
        zval copy;
        ZVAL_DEREF(word);
        if (Z_TYPE_P(word) == IS_OBJECT && Z_OBJCE_P(word)->__tostring != NULL) {
            zend_string *text = zval_try_get_string(word);
            if (text == NULL) {
                zval_ptr_dtor(to);
                return false;
            }
            ZVAL_STR(&copy, text);
        } else {
            ZVAL_COPY(&copy, word);
        }
        zend_hash_next_index_insert_new(Z_ARRVAL_P(to), &copy);
    } ZEND_HASH_FOREACH_END();
    return true;
}

bool undercroft_read_words(undercroft_words *to, HashTable *words)
{
    char *number = to->numbers[0];
    zval *word;
    uc_bytes *place;
    ZVAL_UNDEF(&to->held);
    to->memory = NULL;
    to->words = to->few;
    if (UNEXPECTED(has_foreign(words))) {
        if (!settle(&to->held, words)) {
            return false;
        }
        words = Z_ARRVAL(to->held);
    }
    to->count = zend_hash_num_elements(words);
    if (UNEXPECTED(to->count == 0)) {
        zend_value_error("expected a command, got an empty list");
        undercroft_release_words(to);
        return false;
    }
    if (to->count > UNDERCROFT_FEW_WORDS) {
        to->memory = undercroft_allocate(to->count, sizeof(uc_bytes) + UNDERCROFT_NUMBER, 0);
        to->words = to->memory;
        number = (char *)(to->words + to->count);
    }
    place = to->words;
    ZEND_HASH_FOREACH_VAL(words, word) {
        if (UNEXPECTED(!read_word(place++, word, number))) {
            undercroft_release_words(to);
            return false;
        }
        number += UNDERCROFT_NUMBER;
    } ZEND_HASH_FOREACH_END();
    return true;
}

/* Copies a list of commands, with references resolved and objects converted to strings. */
static bool settle_all(zval *to, HashTable *commands)
{
    zval *command;
    array_init_size(to, zend_hash_num_elements(commands));
    ZEND_HASH_FOREACH_VAL(commands, command) {
        zval copy;
        ZVAL_DEREF(command);
        if (Z_TYPE_P(command) != IS_ARRAY) {
            refuse("a list of arguments as a command", command);
            zval_ptr_dtor(to);
            return false;
        }
        if (!has_foreign(Z_ARRVAL_P(command))) {
            ZVAL_COPY(&copy, command);
        } else if (!settle(&copy, Z_ARRVAL_P(command))) {
            zval_ptr_dtor(to);
            return false;
        }
        zend_hash_next_index_insert_new(Z_ARRVAL_P(to), &copy);
    } ZEND_HASH_FOREACH_END();
    return true;
}

bool undercroft_read_commands(undercroft_words *to, HashTable *commands)
{
    size_t words = 0;
    char *number;
    zval *command, *word;
    uc_words *of;
    uc_bytes *place;
    bool is_foreign_too = false;
    ZVAL_UNDEF(&to->held);
    to->memory = NULL;
    ZEND_HASH_FOREACH_VAL(commands, command) {
        if (Z_TYPE_P(command) != IS_ARRAY || has_foreign(Z_ARRVAL_P(command))) {
            is_foreign_too = true;
            break;
        }
    } ZEND_HASH_FOREACH_END();
    if (is_foreign_too) {
        if (!settle_all(&to->held, commands)) {
            return false;
        }
        commands = Z_ARRVAL(to->held);
    }
    ZEND_HASH_FOREACH_VAL(commands, command) {
        if (zend_hash_num_elements(Z_ARRVAL_P(command)) == 0) {
            zend_value_error("expected a command, got an empty list");
            undercroft_release_words(to);
            return false;
        }
        words += zend_hash_num_elements(Z_ARRVAL_P(command));
    } ZEND_HASH_FOREACH_END();
    to->count = words;
    to->command_count = zend_hash_num_elements(commands);
    to->memory = undercroft_allocate(words, sizeof(uc_bytes) + UNDERCROFT_NUMBER, to->command_count * sizeof(uc_words));
    to->commands = of = to->memory;
    to->words = place = (uc_bytes *)(of + to->command_count);
    number = (char *)(place + words);
    ZEND_HASH_FOREACH_VAL(commands, command) {
        of->count = zend_hash_num_elements(Z_ARRVAL_P(command));
        of->words = place;
        of++;
        ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(command), word) {
            if (UNEXPECTED(!read_word(place++, word, number))) {
                undercroft_release_words(to);
                return false;
            }
            number += UNDERCROFT_NUMBER;
        } ZEND_HASH_FOREACH_END();
    } ZEND_HASH_FOREACH_END();
    return true;
}

void undercroft_release_words(undercroft_words *words)
{
    if (UNEXPECTED(words->memory != NULL)) {
        efree(words->memory);
        words->memory = NULL;
    }
    zval_ptr_dtor(&words->held);
    ZVAL_UNDEF(&words->held);
}
