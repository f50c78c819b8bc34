/* Implements Undercroft\Native\Parser, which parses replies from bytes that PHP has read. */
#include "resp.h"
#include "zend_exceptions.h"

typedef struct parser {
    undercroft_input input;
    /* The reply that next() found and that has not been fetched yet. */
    zval reply;
    bool is_broken;
    zend_object std;
} parser;

static zend_object_handlers handlers;

static parser *parser_of(zend_object *object)
{
    return (parser *)((char *)object - XtOffsetOf(parser, std));
}

static zend_object *create(zend_class_entry *class)
{
    parser *this = zend_object_alloc(sizeof(parser), class);
    zend_object_std_init(&this->std, class);
    object_properties_init(&this->std, class);
    ZVAL_UNDEF(&this->reply);
    this->std.handlers = &handlers;
    return &this->std;
}

static void release(zend_object *object)
{
    parser *this = parser_of(object);
    undercroft_input_free(&this->input);
    zval_ptr_dtor(&this->reply);
    ZVAL_UNDEF(&this->reply);
    zend_object_std_dtor(object);
}

/* Exposes the reply to PHP's cycle collector. */
static HashTable *collect(zend_object *object, zval **table, int *count)
{
    *table = &parser_of(object)->reply;
    *count = 1;
    return zend_std_get_properties(object);
}

static ZEND_METHOD(Undercroft_Native_Parser, feed)
{
    parser *this = parser_of(Z_OBJ_P(ZEND_THIS));
    zend_string *bytes;
    ZEND_PARSE_PARAMETERS_START(1, 1)
        Z_PARAM_STR(bytes)
    ZEND_PARSE_PARAMETERS_END();
    if (ZSTR_LEN(bytes) == 0) {
        return;
    }
    undercroft_input_reserve(&this->input, ZSTR_LEN(bytes));
    memcpy(this->input.data + this->input.end, ZSTR_VAL(bytes), ZSTR_LEN(bytes));
    this->input.end += ZSTR_LEN(bytes);
}

static ZEND_METHOD(Undercroft_Native_Parser, next)
{
    parser *this = parser_of(Z_OBJ_P(ZEND_THIS));
    zval reply;
    ZEND_PARSE_PARAMETERS_NONE();
    if (this->is_broken) {
        zend_throw_exception(undercroft_protocol_exception,
                             "the position of the next reply is unknown after an error; make a new parser", 0);
        RETURN_THROWS();
    }
    switch (undercroft_input_scan(&this->input, NULL)) {
        case UNDERCROFT_PARTIAL:
            RETURN_FALSE;
        case UNDERCROFT_BROKEN:
            this->is_broken = true;
            RETURN_THROWS();
        default:
            break;
    }
    if (!undercroft_input_take(&this->input, &reply, NULL)) {
        this->is_broken = true;
        RETURN_THROWS();
    }
    zval_ptr_dtor(&this->reply);
    ZVAL_COPY_VALUE(&this->reply, &reply);
    RETURN_TRUE;
}

static ZEND_METHOD(Undercroft_Native_Parser, reply)
{
    parser *this = parser_of(Z_OBJ_P(ZEND_THIS));
    ZEND_PARSE_PARAMETERS_NONE();
    if (Z_TYPE(this->reply) == IS_UNDEF) {
        zend_throw_error(NULL, "expected a reply that next() found, got none");
        RETURN_THROWS();
    }
    ZVAL_COPY_VALUE(return_value, &this->reply);
    ZVAL_UNDEF(&this->reply);
}

static ZEND_METHOD(Undercroft_Native_Parser, isPush)
{
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(parser_of(Z_OBJ_P(ZEND_THIS))->input.is_push);
}

static ZEND_METHOD(Undercroft_Native_Parser, hasBytes)
{
    parser *this = parser_of(Z_OBJ_P(ZEND_THIS));
    ZEND_PARSE_PARAMETERS_NONE();
    RETURN_BOOL(this->input.start < this->input.end);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(feed_arguments, 0, 1, IS_VOID, 0)
    ZEND_ARG_TYPE_INFO(0, bytes, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(bool_arguments, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(reply_arguments, 0, 0, IS_MIXED, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry methods[] = {
    ZEND_ME(Undercroft_Native_Parser, feed, feed_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Parser, next, bool_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Parser, reply, reply_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Parser, isPush, bool_arguments, ZEND_ACC_PUBLIC)
    ZEND_ME(Undercroft_Native_Parser, hasBytes, bool_arguments, ZEND_ACC_PUBLIC)
    ZEND_FE_END
};

void undercroft_register_parser(void)
{
    zend_class_entry entry, *class;
    INIT_CLASS_ENTRY(entry, "Undercroft\\Native\\Parser", methods);
    class = zend_register_internal_class(&entry);
    class->ce_flags |= ZEND_ACC_FINAL | ZEND_ACC_NO_DYNAMIC_PROPERTIES | ZEND_ACC_NOT_SERIALIZABLE;
    class->create_object = create;
    memcpy(&handlers, &std_object_handlers, sizeof(handlers));
    handlers.offset = XtOffsetOf(parser, std);
    handlers.free_obj = release;
    handlers.get_gc = collect;
    handlers.clone_obj = NULL;
}
