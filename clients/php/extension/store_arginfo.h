/*
 * The argument declarations of Undercroft\Native\Store from undercroft.stub.php, in the form of
 * PHP's C macros.
 */

ZEND_BEGIN_ARG_INFO_EX(store_construct_arguments, 0, 0, 1)
    ZEND_ARG_TYPE_INFO(0, url, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, options, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_get_arguments, 0, 1, IS_STRING, 1)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_set_arguments, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttl_ms, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_incr_arguments, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, by, IS_LONG, 0, "1")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_mget_arguments, 0, 1, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_mset_arguments, 0, 1, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, pairs, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_keys_arguments, 0, 1, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_VARIADIC_TYPE_INFO(0, keys, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_expire_arguments, 0, 2, _IS_BOOL, 0)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, ttl_ms, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_ttl_arguments, 0, 1, IS_LONG, 1)
    ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_execute_arguments, 0, 1, IS_MIXED, 0)
    ZEND_ARG_TYPE_INFO(0, words, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_pipeline_arguments, 0, 1, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO(0, commands, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_transaction_arguments, 0, 1, IS_ARRAY, 1)
    ZEND_ARG_TYPE_INFO(0, commands, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_publish_arguments, 0, 2, IS_LONG, 0)
    ZEND_ARG_TYPE_INFO(0, channel, IS_STRING, 0)
    ZEND_ARG_TYPE_INFO(0, message, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_subscribe_arguments, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, channels, IS_ARRAY, 0)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, patterns, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_message_arguments, 0, 0, IS_ARRAY, 1)
    ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeout, IS_DOUBLE, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(store_close_arguments, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

ZEND_METHOD(Undercroft_Native_Store, __construct);
ZEND_METHOD(Undercroft_Native_Store, get);
ZEND_METHOD(Undercroft_Native_Store, set);
ZEND_METHOD(Undercroft_Native_Store, incr);
ZEND_METHOD(Undercroft_Native_Store, mget);
ZEND_METHOD(Undercroft_Native_Store, mset);
ZEND_METHOD(Undercroft_Native_Store, del);
ZEND_METHOD(Undercroft_Native_Store, exists);
ZEND_METHOD(Undercroft_Native_Store, expire);
ZEND_METHOD(Undercroft_Native_Store, ttl);
ZEND_METHOD(Undercroft_Native_Store, close);

static const zend_function_entry store_methods[] = {
    ZEND_ME(Undercroft_Native_Store, __construct, store_construct_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, get, store_get_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, set, store_set_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, incr, store_incr_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, mget, store_mget_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, mset, store_mset_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, del, store_keys_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, exists, store_keys_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, expire, store_expire_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, ttl, store_ttl_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, execute, store_execute_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, pipeline, store_pipeline_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, transaction, store_transaction_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, publish, store_publish_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, subscribe, store_subscribe_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, unsubscribe, store_subscribe_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, message, store_message_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Store, close, store_close_arguments, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};
