/* Implements the methods of Undercroft\Native\Store that publish and receive messages. */
#include "php_undercroft.h"
#include <time.h>

/*
 * Returns the object's subscription, which is created on first use. Returns NULL if an exception
 * was thrown.
 */
static uc_subscription *subscription_of(undercroft_store *this)
{
    if (this->subscription != NULL) {
        return this->subscription;
    }
    if (this->store == NULL) {
        undercroft_closed_store();
        return NULL;
    }
    int status = uc_subscription_open(this->store, &this->subscription);
    if (status != UC_OK) {
        undercroft_throw(status);
        return NULL;
    }
    return this->subscription;
}

ZEND_METHOD(Undercroft_Native_Store, publish)
{
    zend_string *channel, *message;
    uint64_t receivers;
    int status;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_STR(channel)
        Z_PARAM_STR(message)
    ZEND_PARSE_PARAMETERS_END();
    undercroft_store *this = undercroft_store_of(Z_OBJ_P(ZEND_THIS));
    if (this->store == NULL) {
        undercroft_closed_store();
        RETURN_THROWS();
    }
    do {
        status = uc_publish(this->store, ZSTR_VAL(channel), ZSTR_LEN(channel), ZSTR_VAL(message), ZSTR_LEN(message),
                            &receivers);
    } while (UNEXPECTED(status == UC_INTERRUPTED) && undercroft_interrupt());
    if (UNEXPECTED(status < 0)) {
        if (!EG(exception)) {
            undercroft_throw(status);
        }
        RETURN_THROWS();
    }
    RETURN_LONG((zend_long)receivers);
}

typedef int change(uc_subscription *, int, size_t, const uc_bytes *);

/*
 * Subscribes to names or ends subscriptions. Returns a negative status if an exception was thrown.
 */
static int change_topics(uc_subscription *subscription, change *call, int topic, HashTable *names)
{
    undercroft_words words;
    int status;
    if (zend_hash_num_elements(names) == 0) {
        return UC_OK;
    }
    if (!undercroft_read_words(&words, names)) {
        return UC_MISUSE;
    }
    do {
        status = call(subscription, topic, words.count, words.words);
    } while (UNEXPECTED(status == UC_INTERRUPTED) && undercroft_interrupt());
    undercroft_release_words(&words);
    if (status < 0 && !EG(exception)) {
        undercroft_throw(status);
    }
    return status;
}

/*
 * Subscribes to names or ends subscriptions. If the store was removed, throws an exception and
 * closes the subscription. The next subscription is opened in the store that the name refers to at
 * that time.
 */
static void change_all(INTERNAL_FUNCTION_PARAMETERS, change *call)
{
    undercroft_store *this = undercroft_store_of(Z_OBJ_P(ZEND_THIS));
    HashTable *channels, *patterns = NULL;
    uc_subscription *subscription;
    int status;
    ZEND_PARSE_PARAMETERS_START(1, 2)
        Z_PARAM_ARRAY_HT(channels)
        Z_PARAM_OPTIONAL
        Z_PARAM_ARRAY_HT(patterns)
    ZEND_PARSE_PARAMETERS_END();
    (void)return_value;
    subscription = subscription_of(this);
    if (subscription == NULL) {
        return;
    }
    status = change_topics(subscription, call, UC_CHANNEL, channels);
    if (status >= 0 && patterns != NULL) {
        status = change_topics(subscription, call, UC_PATTERN, patterns);
    }
    if (status == UC_REMOVED && this->subscription == subscription) {
        uc_subscription_close(subscription);
        this->subscription = NULL;
    }
}

ZEND_METHOD(Undercroft_Native_Store, subscribe)
{
    change_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, uc_subscribe);
}

ZEND_METHOD(Undercroft_Native_Store, unsubscribe)
{
    change_all(INTERNAL_FUNCTION_PARAM_PASSTHRU, uc_unsubscribe);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

bool undercroft_set_deadline(undercroft_deadline *deadline, double seconds, bool is_forever, uint32_t argument)
{
    deadline->left = -1;
    deadline->end = 0;
    if (is_forever) {
        return true;
    }
    if (!(seconds >= 0 && seconds < 1e12)) {
        zend_argument_value_error(argument, "must be 0 or more seconds, or null");
        return false;
    }
    deadline->left = (int64_t)(seconds * 1000 + 0.999);
    deadline->end = deadline->left == 0 ? 0 : now() + deadline->left;
    return true;
}

void undercroft_update_deadline(undercroft_deadline *deadline)
{
    if (deadline->left > 0) {
        deadline->left = deadline->end - now();
        deadline->left = deadline->left < 0 ? 0 : deadline->left;
    }
}

ZEND_METHOD(Undercroft_Native_Store, message)
{
    double seconds = 0;
    bool is_forever = true;
    uc_subscription *subscription;
    undercroft_deadline deadline;
    int status;
    ZEND_PARSE_PARAMETERS_START(0, 1)
        Z_PARAM_OPTIONAL
        Z_PARAM_DOUBLE_OR_NULL(seconds, is_forever)
    ZEND_PARSE_PARAMETERS_END();
    if (!undercroft_set_deadline(&deadline, seconds, ZEND_NUM_ARGS() == 0 || is_forever, 1)) {
        RETURN_THROWS();
    }
    subscription = subscription_of(undercroft_store_of(Z_OBJ_P(ZEND_THIS)));
    if (subscription == NULL || undercroft_reply() == NULL) {
        RETURN_THROWS();
    }
    for (;;) {
        status = uc_subscription_next(subscription, deadline.left, UNDERCROFT_G(reply));
        if (EXPECTED(status != UC_INTERRUPTED) || !undercroft_interrupt()) {
            break;
        }
        /* A signal handler may have closed the store during the call. */
        if (undercroft_store_of(Z_OBJ_P(ZEND_THIS))->subscription != subscription) {
            undercroft_closed_store();
            RETURN_THROWS();
        }
        undercroft_update_deadline(&deadline);
    }
    if (UNEXPECTED(status < 0)) {
        if (!EG(exception)) {
            undercroft_throw(status);
        }
        RETURN_THROWS();
    }
    if (status == UC_NONE) {
        RETURN_NULL();
    }
    undercroft_from_reply(return_value);
}
