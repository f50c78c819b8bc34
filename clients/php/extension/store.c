/*
 * Implements Undercroft\Native\Store, a store in shared memory: opening and closing it, and the
 * calls for strings and keys.
 */
#include "php_undercroft.h"
#include "zend_exceptions.h"
#include "store_arginfo.h"
#include <time.h>

/*
 * The maximum length of a string that is read into a buffer without first requesting its length,
 * because an extra copy costs less than that request.
 */
#define SHORT 512

/* How long, in milliseconds, requests assume after a check that a store's file still exists. */
#define TRUSTED 100

zend_class_entry *undercroft_store_class;
static zend_object_handlers handlers;

/* ---- Stores kept open between requests */

void undercroft_close_kept(zend_undercroft_globals *globals)
{
    size_t at;
    for (at = 0; at < UNDERCROFT_KEPT; at++) {
        uc_close(globals->kept[at].store);
        free(globals->kept[at].url);
        globals->kept[at].store = NULL;
        globals->kept[at].url = NULL;
    }
}

/* Returns whether a store's location is independent of the working directory. */
static bool is_absolute(const char *url)
{
    return url[0] == '/' || strncmp(url, "undercroft://", 13) == 0;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/*
 * Retains an open store after its request and closes the store that was retained earlier for the
 * same URL. The next request then finds the store mapped, and a file that was replaced is unmapped.
 */
static void keep(const undercroft_store *of, uc_store *store)
{
    undercroft_kept *place = NULL;
    const char *url = ZSTR_VAL(of->url);
    size_t at;
    for (at = 0; at < UNDERCROFT_KEPT; at++) {
        undercroft_kept *one = &UNDERCROFT_G(kept)[at];
        if (one->url == NULL) {
            place = place == NULL ? one : place;
        } else if (one->database == of->database && strcmp(one->url, url) == 0) {
            /* A newer store was opened after the file was replaced, so close this older one. */
            if (one->store != NULL && one->looked_at > of->looked_at) {
                uc_close(store);
                return;
            }
            uc_close(one->store);
            one->store = store;
            one->timeout_ms = of->timeout_ms;
            one->looked_at = of->looked_at;
            return;
        }
    }
    if (place == NULL) {
        place = &UNDERCROFT_G(kept)[UNDERCROFT_G(oldest)++ % UNDERCROFT_KEPT];
        uc_close(place->store);
        free(place->url);
    }
    place->url = strdup(url);
    place->database = of->database;
    place->timeout_ms = of->timeout_ms;
    place->looked_at = of->looked_at;
    place->store = store;
    if (place->url == NULL) {
        uc_close(store);
        place->store = NULL;
    }
}

/*
 * Returns the retained store for a URL if its file was checked less than 100 ms ago. The check
 * takes longer than all other steps of opening a store. Command-line programs always check, because
 * they may have replaced the file themselves.
 */
static undercroft_kept *find_kept(const undercroft_store *of)
{
    size_t at;
    if (!UNDERCROFT_G(is_trusting) || !is_absolute(ZSTR_VAL(of->url))) {
        return NULL;
    }
    for (at = 0; at < UNDERCROFT_KEPT; at++) {
        undercroft_kept *one = &UNDERCROFT_G(kept)[at];
        if (one->store != NULL && one->database == of->database && strcmp(one->url, ZSTR_VAL(of->url)) == 0) {
            return of->looked_at - one->looked_at <= TRUSTED && one->timeout_ms == of->timeout_ms ? one : NULL;
        }
    }
    return NULL;
}

static void close_store(undercroft_store *this)
{
    uc_store *store = this->store;
    if (store == NULL) {
        return;
    }
    this->store = NULL;
    if (UNDERCROFT_G(result).owner == this) {
        undercroft_begin_result();
    }
    uc_subscription_close(this->subscription);
    uc_session_close(this->session);
    this->subscription = NULL;
    this->session = NULL;
    keep(this, store);
}

/* ---- Objects */

static zend_object *create(zend_class_entry *class)
{
    undercroft_store *this = zend_object_alloc(sizeof(undercroft_store), class);
    zend_object_std_init(&this->std, class);
    object_properties_init(&this->std, class);
    this->std.handlers = &handlers;
    return &this->std;
}

static void release(zend_object *object)
{
    undercroft_store *this = undercroft_store_of(object);
    close_store(this);
    if (this->url != NULL) {
        zend_string_release(this->url);
        this->url = NULL;
    }
    zend_object_std_dtor(object);
}

ZEND_COLD void undercroft_closed_store(void)
{
    zend_throw_exception(undercroft_store_exception, "the store is closed; create a new object for it", 0);
}

/* Gets the object's open store. If the store is closed, throws and returns from the method. */
#define OPEN_STORE(name) \
    undercroft_store *name = undercroft_store_of(Z_OBJ_P(ZEND_THIS)); \
    if (UNEXPECTED(name->store == NULL)) { \
        undercroft_closed_store(); \
        RETURN_THROWS(); \
    }

/* Makes a call that waits only for locks, and repeats it if a signal handler interrupted it. */
#define CALL(status, call) \
    do { \
        status = call; \
    } while (UNEXPECTED(status == UC_INTERRUPTED) && undercroft_interrupt())

/* Throws an exception if a call failed, unless a signal handler has already thrown an exception. */
#define CHECK(status) \
    if (UNEXPECTED((status) < 0)) { \
        if (!EG(exception)) { \
            undercroft_throw(status); \
        } \
        RETURN_THROWS(); \
    }

/* ---- Opening */

static bool read_number(const char *name, const zval *value, zend_long least, uint64_t *to)
{
    if (Z_TYPE_P(value) != IS_LONG || Z_LVAL_P(value) < least) {
        zend_argument_value_error(2, "must have a number of at least " ZEND_LONG_FMT " as %s", least, name);
        return false;
    }
    *to = (uint64_t)Z_LVAL_P(value);
    return true;
}

static bool read_text(const char *what, const zval *value, const char **to)
{
    if (Z_TYPE_P(value) != IS_STRING || strlen(Z_STRVAL_P(value)) != Z_STRLEN_P(value)) {
        zend_argument_value_error(2, "must have %s", what);
        return false;
    }
    *to = Z_STRVAL_P(value);
    return true;
}

static bool read_option(uc_options *to, const zend_string *name, const zval *value)
{
    ZVAL_DEREF(value);
    if (zend_string_equals_literal(name, "db")) {
        return read_number("db", value, 0, &to->database);
    }
    if (zend_string_equals_literal(name, "capacity")) {
        return read_number("capacity", value, 1, &to->capacity);
    }
    if (zend_string_equals_literal(name, "maxmemory")) {
        /* The smallest allowed value is -1, which becomes UC_UNLIMITED. */
        return read_number("maxmemory", value, -1, &to->max_memory);
    }
    if (zend_string_equals_literal(name, "policy")) {
        return read_text("the name of an eviction policy as policy", value, &to->policy);
    }
    if (zend_string_equals_literal(name, "timeout")) {
        bool is_number = Z_TYPE_P(value) == IS_LONG || Z_TYPE_P(value) == IS_DOUBLE;
        double seconds = is_number ? zval_get_double((zval *)value) : 0;
        if (!(seconds > 0 && seconds < 1e9)) {
            zend_argument_value_error(2, "must have more than 0 seconds as timeout");
            return false;
        }
        to->timeout_ms = (uint64_t)(seconds * 1000);
        to->timeout_ms += to->timeout_ms == 0;
        return true;
    }
    if (zend_string_equals_literal(name, "strict")) {
        to->strict = zend_is_true((zval *)value);
        return true;
    }
    if (zend_string_equals_literal(name, "durability")) {
        return read_text("a durability mode as durability", value, &to->durability);
    }
    if (zend_string_equals_literal(name, "journal")) {
        return read_text("the path of a folder as journal", value, &to->journal);
    }
    zend_argument_value_error(2,
                              "must have only the options db, capacity, maxmemory, policy, durability, journal, strict "
                              "and timeout, got %s",
                              ZSTR_VAL(name));
    return false;
}

ZEND_METHOD(Undercroft_Native_Store, __construct)
{
    undercroft_store *this = undercroft_store_of(Z_OBJ_P(ZEND_THIS));
    uc_options options = UC_OPTIONS_INIT;
    zend_string *url, *name;
    HashTable *given = NULL;
    zval *value;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_PATH_STR(url)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(given)
    ZEND_PARSE_PARAMETERS_END();
    if (this->url != NULL) {
        zend_throw_error(NULL, "Undercroft\\Native\\Store is already constructed");
        RETURN_THROWS();
    }
    if (given != NULL) {
        ZEND_HASH_FOREACH_STR_KEY_VAL(given, name, value) {
            if (name == NULL) {
                zend_argument_value_error(2, "must have option names as keys");
                RETURN_THROWS();
            }
            if (!read_option(&options, name, value)) {
                RETURN_THROWS();
            }
        } ZEND_HASH_FOREACH_END();
    }
    this->url = zend_string_copy(url);
    this->database = options.database;
    this->timeout_ms = options.timeout_ms;
    this->looked_at = now();
    /*
     * A retained store is used only if no creation options are given, because only opening a store
     * validates them.
     */
    if (options.capacity == 0 && options.max_memory == 0 && options.policy == NULL && options.durability == NULL) {
        undercroft_kept *kept = find_kept(this);
        if (kept != NULL) {
            this->store = kept->store;
            this->looked_at = kept->looked_at;
            kept->store = NULL;
            return;
        }
    }
    CALL(status, uc_open(ZSTR_VAL(url), &options, &this->store));
    CHECK(status);
    const char *warning = uc_store_warning(this->store);
    if (warning != NULL) {
        php_error_docref(NULL, E_WARNING, "%s", warning);
    }
}

ZEND_METHOD(Undercroft_Native_Store, close)
{
    ZEND_PARSE_PARAMETERS_NONE();
    close_store(undercroft_store_of(Z_OBJ_P(ZEND_THIS)));
}

/* ---- Strings */

ZEND_METHOD(Undercroft_Native_Store, get)
{
    zend_string *key;
    char buffer[SHORT];
    size_t length;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_STORE(this);
    CALL(status, uc_get(this->store, ZSTR_VAL(key), ZSTR_LEN(key), buffer, SHORT, &length));
    if (EXPECTED(status == UC_OK)) {
        undercroft_string(return_value, buffer, length);
        return;
    }
    while (status == UC_TOO_SMALL) {
        size_t capacity = length;
        zend_string *value = undercroft_new_string(capacity);
        CALL(status, uc_get(this->store, ZSTR_VAL(key), ZSTR_LEN(key), ZSTR_VAL(value), capacity, &length));
        if (EXPECTED(status == UC_OK)) {
            if (length < capacity) {
                value = zend_string_truncate(value, length, 0);
            }
            ZSTR_VAL(value)[length] = 0;
            RETURN_NEW_STR(value);
        }
        zend_string_efree(value);
    }
    CHECK(status);
    RETURN_NULL();
}

ZEND_METHOD(Undercroft_Native_Store, set)
{
    zend_string *key, *value;
    zend_long ttl = 0;
    bool is_forever = true;
    int status;
    ZEND_PARSE_PARAMETERS_START(2, 3)
        Z_PARAM_STR(key)
        Z_PARAM_STR(value)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG_OR_NULL(ttl, is_forever)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_STORE(this);
    if (ZEND_NUM_ARGS() < 3 || is_forever) {
        CALL(status, uc_set(this->store, ZSTR_VAL(key), ZSTR_LEN(key), ZSTR_VAL(value), ZSTR_LEN(value)));
    } else {
        uc_set_options options = UC_SET_OPTIONS_INIT;
        if (ttl <= 0 || ttl > ZEND_LONG_MAX / 2) {
            zend_argument_value_error(3, "must be more than 0 milliseconds, or null");
            RETURN_THROWS();
        }
        options.expire_ms = ttl;
        CALL(status, uc_set_with(this->store, ZSTR_VAL(key), ZSTR_LEN(key), ZSTR_VAL(value), ZSTR_LEN(value), &options,
                                 NULL));
    }
    CHECK(status);
    RETURN_TRUE;
}

ZEND_METHOD(Undercroft_Native_Store, incr)
{
    zend_string *key;
    zend_long by = 1;
    int64_t sum;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_STR(key)
        Z_PARAM_OPTIONAL
        Z_PARAM_LONG(by)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_STORE(this);
    CALL(status, uc_incr(this->store, ZSTR_VAL(key), ZSTR_LEN(key), by, &sum));
    CHECK(status);
    RETURN_LONG(sum);
}

ZEND_METHOD(Undercroft_Native_Store, mget)
{
    HashTable *keys;
    undercroft_words words;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(keys)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_STORE(this);
    if (zend_hash_num_elements(keys) == 0) {
        RETURN_EMPTY_ARRAY();
    }
    if (undercroft_reply() == NULL || !undercroft_read_words(&words, keys)) {
        RETURN_THROWS();
    }
    CALL(status, uc_mget(this->store, words.count, words.words, UNDERCROFT_G(reply)));
    undercroft_release_words(&words);
    CHECK(status);
    undercroft_from_reply(return_value);
}

/* Splits an array into its keys and its values. */
static void split(HashTable *pairs, zval *names, zval *values)
{
    zend_ulong number;
    zend_string *name;
    zval *value;
    array_init_size(names, zend_hash_num_elements(pairs));
    array_init_size(values, zend_hash_num_elements(pairs));
    ZEND_HASH_FOREACH_KEY_VAL(pairs, number, name, value) {
        zval key;
        if (name != NULL) {
            ZVAL_STR_COPY(&key, name);
        } else {
            ZVAL_LONG(&key, (zend_long)number);
        }
        zend_hash_next_index_insert_new(Z_ARRVAL_P(names), &key);
        Z_TRY_ADDREF_P(value);
        zend_hash_next_index_insert_new(Z_ARRVAL_P(values), value);
    } ZEND_HASH_FOREACH_END();
}

ZEND_METHOD(Undercroft_Native_Store, mset)
{
    HashTable *pairs;
    zval names, values;
    undercroft_words keys, texts;
    int status;
    bool is_read;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_ARRAY_HT(pairs)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_STORE(this);
    if (zend_hash_num_elements(pairs) == 0) {
        RETURN_TRUE;
    }
    split(pairs, &names, &values);
    is_read = undercroft_read_words(&keys, Z_ARRVAL(names));
    if (is_read && !undercroft_read_words(&texts, Z_ARRVAL(values))) {
        undercroft_release_words(&keys);
        is_read = false;
    }
    if (is_read) {
        CALL(status, uc_mset(this->store, keys.count, keys.words, texts.words));
        undercroft_release_words(&keys);
        undercroft_release_words(&texts);
        RETVAL_TRUE;
        if (UNEXPECTED(status < 0) && !EG(exception)) {
            undercroft_throw(status);
        }
    }
    zval_ptr_dtor(&names);
    zval_ptr_dtor(&values);
}

/* ---- Keys */

/* Makes a call whose keys are passed as separate arguments. */
static void of_keys(INTERNAL_FUNCTION_PARAMETERS, int (*call)(uc_store *, size_t, const uc_bytes *, uint64_t *))
{
    zval *keys;
    uint32_t count, at;
    uc_bytes few[UNDERCROFT_FEW_WORDS], *names = few;
    uint64_t found;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, -1)
        Z_PARAM_VARIADIC('+', keys, count)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_STORE(this);
    for (at = 0; at < count; at++) {
        zend_string *key;
        if (!zend_parse_arg_str(&keys[at], &key, false, at + 1)) {
            zend_wrong_parameter_type_error(at + 1, Z_EXPECTED_STRING, &keys[at]);
            RETURN_THROWS();
        }
    }
    if (UNEXPECTED(count > UNDERCROFT_FEW_WORDS)) {
        names = safe_emalloc(count, sizeof(uc_bytes), 0);
    }
    for (at = 0; at < count; at++) {
        names[at] = uc_data(Z_STRVAL(keys[at]), Z_STRLEN(keys[at]));
    }
    CALL(status, call(this->store, count, names, &found));
    if (names != few) {
        efree(names);
    }
    CHECK(status);
    RETURN_LONG((zend_long)found);
}

ZEND_METHOD(Undercroft_Native_Store, del)
{
    of_keys(INTERNAL_FUNCTION_PARAM_PASSTHRU, uc_del);
}

ZEND_METHOD(Undercroft_Native_Store, exists)
{
    of_keys(INTERNAL_FUNCTION_PARAM_PASSTHRU, uc_exists);
}

ZEND_METHOD(Undercroft_Native_Store, expire)
{
    zend_string *key;
    zend_long milliseconds;
    int status;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STR(key)
        Z_PARAM_LONG(milliseconds)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_STORE(this);
    CALL(status, uc_expire(this->store, ZSTR_VAL(key), ZSTR_LEN(key), milliseconds));
    CHECK(status);
    RETURN_BOOL(status == UC_OK);
}

ZEND_METHOD(Undercroft_Native_Store, ttl)
{
    zend_string *key;
    int64_t milliseconds;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(key)
    ZEND_PARSE_PARAMETERS_END();
    OPEN_STORE(this);
    CALL(status, uc_ttl(this->store, ZSTR_VAL(key), ZSTR_LEN(key), &milliseconds));
    CHECK(status);
    if (status == UC_NONE) {
        RETURN_NULL();
    }
    RETURN_LONG(milliseconds);
}

void undercroft_register_store(void)
{
    zend_class_entry entry;
    INIT_CLASS_ENTRY(entry, "Undercroft\\Native\\Store", store_methods);
    undercroft_store_class = zend_register_internal_class(&entry);
    undercroft_store_class->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_NO_DYNAMIC_PROPERTIES | ZEND_ACC_NOT_SERIALIZABLE;
    undercroft_store_class->create_object = create;
    memcpy(&handlers, &std_object_handlers, sizeof(handlers));
    handlers.offset = XtOffsetOf(undercroft_store, std);
    handlers.free_obj = release;
    handlers.clone_obj = NULL;
}
