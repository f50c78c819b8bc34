/* Converts the library's values to PHP values. */
#include "php_undercroft.h"

/* The maximum number of items in a reply that is retained after the request. */
#define LARGE 1024

bool undercroft_set_item(zval *map, zval *key, zval *value)
{
    switch (Z_TYPE_P(key)) {
        case IS_STRING:
            zend_symtable_update(Z_ARRVAL_P(map), Z_STR_P(key), value);
            return true;
        case IS_LONG:
            zend_hash_index_update(Z_ARRVAL_P(map), (zend_ulong)Z_LVAL_P(key), value);
            return true;
        default:
            return false;
    }
}

static void list_of(zval *to, const uc_value *value)
{
    size_t length = uc_value_length(value), at;
    if (length == 0) {
        ZVAL_EMPTY_ARRAY(to);
        return;
    }
    undercroft_new_list(to, length);
    for (at = 0; at < length; at++) {
        zval item;
        undercroft_from_value(&item, uc_value_item(value, at));
        zend_hash_next_index_insert_new(Z_ARRVAL_P(to), &item);
    }
}

static void map_of(zval *to, const uc_value *value)
{
    size_t length = uc_value_length(value), at;
    undercroft_new_map(to, length);
    for (at = 0; at < length; at++) {
        zval key, item;
        undercroft_from_value(&key, uc_value_key(value, at));
        undercroft_from_value(&item, uc_value_item(value, at));
        if (!undercroft_set_item(to, &key, &item)) {
            /*
             * No command returns keys of other types, but if one did, the value would get a numeric
             * key.
             */
            zend_hash_next_index_insert(Z_ARRVAL_P(to), &item);
        }
        zval_ptr_dtor(&key);
    }
}

void undercroft_from_value(zval *to, const uc_value *value)
{
    size_t length;
    const char *text;
    if (UNDERCROFT_IS_OVER()) {
        ZVAL_NULL(to);
        return;
    }
    switch (uc_value_type(value)) {
        case UC_TYPE_STATUS:
        case UC_TYPE_STRING:
            text = uc_value_string(value, &length);
            undercroft_string(to, text, length);
            break;
        case UC_TYPE_INTEGER:
            ZVAL_LONG(to, uc_value_integer(value));
            break;
        case UC_TYPE_DOUBLE:
            ZVAL_DOUBLE(to, uc_value_double(value));
            break;
        case UC_TYPE_BOOLEAN:
            ZVAL_BOOL(to, uc_value_integer(value) != 0);
            break;
        case UC_TYPE_ERROR:
            text = uc_value_string(value, &length);
            undercroft_error_value(to, text, length);
            break;
        case UC_TYPE_ARRAY:
        case UC_TYPE_SET:
            list_of(to, value);
            break;
        case UC_TYPE_MAP:
            map_of(to, value);
            break;
        default:
            ZVAL_NULL(to);
    }
}

void undercroft_from_reply(zval *to)
{
    const uc_value *value = uc_reply_value(UNDERCROFT_G(reply));
    if (uc_value_length(value) > LARGE) {
        UNDERCROFT_G(is_large) = true;
    }
    undercroft_from_value(to, value);
}
