/*
 * Implements the methods of Undercroft\Native\Store that run commands given as words, pipelines and
 * transactions.
 */
#include "php_undercroft.h"
#include "zend_exceptions.h"

/*
 * Returns the object's session, which is created on first use. Returns NULL if an exception was
 * thrown.
 */
static uc_session *session_of(undercroft_store *this)
{
    if (EXPECTED(this->session != NULL)) {
        return this->session;
    }
    if (this->store == NULL) {
        undercroft_closed_store();
        return NULL;
    }
    int status = uc_session_open(this->store, &this->session);
    if (status == UC_OK) {
        status = uc_taken(this->session, UC_TAKEN_KEEP);
    }
    if (status != UC_OK) {
        undercroft_throw(status);
        return NULL;
    }
    return this->session;
}

static bool begins(const uc_bytes *word, const char *with)
{
    size_t length = strlen(with);
    return word->length >= length && zend_binary_strcasecmp(word->data, length, with, length) == 0;
}

/*
 * Returns whether a command may wait for anything other than a lock. If a signal interrupts such a
 * command, the call is not repeated, because its timeout would restart.
 */
static bool may_wait(const uc_bytes *name)
{
    return (begins(name, "B") && !begins(name, "BIT") && !begins(name, "BG")) || begins(name, "XREAD") ||
           begins(name, "WAIT") || begins(name, "FEED.B");
}

/*
 * Runs PHP's interrupt handlers after a wait was interrupted. Returns whether the caller must
 * repeat the call, which has changed nothing.
 */
static bool is_again(bool is_for_waiting)
{
    if (!undercroft_interrupt()) {
        return false;
    }
    if (is_for_waiting) {
        zend_throw_exception(undercroft_store_exception, "a signal interrupted the wait; nothing was changed", 0);
        return false;
    }
    return true;
}

/* Throws the exception for a failed call, unless an exception is already pending. */
static void fail(int status)
{
    if (!EG(exception)) {
        undercroft_throw(status);
    }
}

/* Throws the exception for a failed call that must not be repeated after an interrupt. */
static void fail_at_once(int status)
{
    if (status == UC_INTERRUPTED) {
        undercroft_interrupt();
    }
    fail(status);
}

ZEND_METHOD(Undercroft_Native_Store, execute)
{
    HashTable *given;
    undercroft_words words;
    uc_session *session;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(given)
    ZEND_PARSE_PARAMETERS_END();
    if (!undercroft_read_words(&words, given)) {
        RETURN_THROWS();
    }
    session = session_of(undercroft_store_of(Z_OBJ_P(ZEND_THIS)));
    if (UNEXPECTED(session == NULL || undercroft_reply() == NULL)) {
        undercroft_release_words(&words);
        RETURN_THROWS();
    }
    undercroft_begin_result();
    do {
        status = uc_command(session, words.count, words.words, UNDERCROFT_G(reply));
    } while (UNEXPECTED(status == UC_INTERRUPTED) && is_again(may_wait(words.words)));
    undercroft_release_words(&words);
    if (UNEXPECTED(status < 0)) {
        fail(status);
        RETURN_THROWS();
    }
    undercroft_from_reply(return_value);
    undercroft_end_result(undercroft_store_of(Z_OBJ_P(ZEND_THIS)));
}

/*
 * Runs several commands with one call to the library. If the call is interrupted, it is not
 * repeated, because some commands may have run, or the session may no longer watch its keys.
 */
static void run_together(zval *store, HashTable *given, zval *return_value,
    int (*run)(uc_session *session, size_t count, const uc_words *commands, uc_reply *reply))
{
    undercroft_words words;
    uc_session *session;
    int status;
    if (!undercroft_read_commands(&words, given)) {
        RETURN_THROWS();
    }
    session = session_of(undercroft_store_of(Z_OBJ_P(store)));
    if (UNEXPECTED(session == NULL || undercroft_reply() == NULL)) {
        undercroft_release_words(&words);
        RETURN_THROWS();
    }
    undercroft_begin_result();
    status = run(session, words.command_count, words.commands, UNDERCROFT_G(reply));
    undercroft_release_words(&words);
    if (UNEXPECTED(status < 0)) {
        fail_at_once(status);
        RETURN_THROWS();
    }
    undercroft_from_reply(return_value);
    undercroft_end_result(undercroft_store_of(Z_OBJ_P(store)));
}

ZEND_METHOD(Undercroft_Native_Store, pipeline)
{
    HashTable *given;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(given)
    ZEND_PARSE_PARAMETERS_END();
    if (zend_hash_num_elements(given) == 0) {
        RETURN_EMPTY_ARRAY();
    }
    run_together(ZEND_THIS, given, return_value, uc_pipeline);
}

ZEND_METHOD(Undercroft_Native_Store, transaction)
{
    HashTable *given;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(given)
    ZEND_PARSE_PARAMETERS_END();
    if (zend_hash_num_elements(given) == 0) {
        zend_argument_value_error(1, "must contain at least one command");
        RETURN_THROWS();
    }
    run_together(ZEND_THIS, given, return_value, uc_transaction);
}
