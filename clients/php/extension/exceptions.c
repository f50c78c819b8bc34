/* Defines the package's exception classes while the extension is loaded. */
#include "php_undercroft.h"
#include "zend_exceptions.h"
#include "ext/spl/spl_exceptions.h"

zend_class_entry *undercroft_exception;
zend_class_entry *undercroft_server_exception;
zend_class_entry *undercroft_store_exception;
zend_class_entry *undercroft_connection_exception;
zend_class_entry *undercroft_timeout_exception;
zend_class_entry *undercroft_protocol_exception;

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(kind_arguments, 0, 0, IS_STRING, 0)
ZEND_END_ARG_INFO()

/* Returns the error code, which is the first word of the message. */
static ZEND_METHOD(Undercroft_ServerException, kind)
{
    zval place, *message;
    const char *text, *space;
    ZEND_PARSE_PARAMETERS_NONE();
    message = zend_read_property(zend_ce_exception, Z_OBJ_P(ZEND_THIS), ZEND_STRL("message"), true, &place);
    if (Z_TYPE_P(message) != IS_STRING) {
        RETURN_EMPTY_STRING();
    }
    text = Z_STRVAL_P(message);
    space = memchr(text, ' ', Z_STRLEN_P(message));
    RETURN_STRINGL(text, space == NULL ? Z_STRLEN_P(message) : (size_t)(space - text));
}

static const zend_function_entry server_exception_methods[] = {
    ZEND_ME(Undercroft_ServerException, kind, kind_arguments, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

static zend_class_entry *exception(const char *name, const zend_function_entry *methods, zend_class_entry *parent)
{
    zend_class_entry entry;
    INIT_CLASS_ENTRY_EX(entry, name, strlen(name), methods);
    return zend_register_internal_class_ex(&entry, parent);
}

void undercroft_register_exceptions(void)
{
    undercroft_exception = exception("Undercroft\\UndercroftException", NULL, spl_ce_RuntimeException);
    undercroft_server_exception =
        exception("Undercroft\\ServerException", server_exception_methods, undercroft_exception);
    undercroft_store_exception = exception("Undercroft\\StoreException", NULL, undercroft_exception);
    undercroft_connection_exception = exception("Undercroft\\ConnectionException", NULL, undercroft_exception);
    undercroft_timeout_exception =
        exception("Undercroft\\TimeoutException", NULL, undercroft_connection_exception);
    undercroft_protocol_exception =
        exception("Undercroft\\ProtocolException", NULL, undercroft_connection_exception);
}

void undercroft_error_value(zval *to, const char *text, size_t length)
{
    zval message;
    object_init_ex(to, undercroft_server_exception);
    ZVAL_STRINGL(&message, text, length);
    zend_update_property_ex(zend_ce_exception, Z_OBJ_P(to), ZSTR_KNOWN(ZEND_STR_MESSAGE), &message);
    zval_ptr_dtor(&message);
}

void undercroft_throw(int status)
{
    zend_class_entry *class;
    switch (status) {
        case UC_ERROR:
        case UC_WRONG_TYPE:
        case UC_FULL:
        case UC_READ_ONLY:
            class = undercroft_server_exception;
            break;
        default:
            class = undercroft_store_exception;
    }
    zend_throw_exception(class, uc_error_message(), 0);
}
