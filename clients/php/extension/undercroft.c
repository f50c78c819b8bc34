/* The module: its beginning and end, what a thread keeps, and how PHP interrupts a wait. */
#include "php_undercroft.h"
#include "SAPI.h"
#include "ext/standard/info.h"

ZEND_DECLARE_MODULE_GLOBALS(undercroft)

uc_reply *undercroft_reply(void)
{
    if (UNEXPECTED(UNDERCROFT_G(reply) == NULL)) {
        int status = uc_reply_new(&UNDERCROFT_G(reply));
        if (status != UC_OK) {
            UNDERCROFT_G(reply) = NULL;
            undercroft_throw(status);
        }
    }
    return UNDERCROFT_G(reply);
}

#if PHP_VERSION_ID >= 80200
#define LOAD(flag) zend_atomic_bool_load_ex(&(flag))
#define CLEAR(flag) zend_atomic_bool_store_ex(&(flag), false)
#else
#define LOAD(flag) (flag)
#define CLEAR(flag) ((flag) = 0)
#endif

bool undercroft_is_interrupted(void)
{
    return LOAD(EG(vm_interrupt));
}

bool undercroft_interrupt(void)
{
    if (!undercroft_is_interrupted()) {
        return true;
    }
    CLEAR(EG(vm_interrupt));
    if (LOAD(EG(timed_out))) {
        zend_timeout();
#ifdef ZEND_HAS_OOM
    } else if (ZEND_HAS_OOM()) {
        zend_handle_delayed_oom();
#endif
    } else if (zend_interrupt_function != NULL) {
        zend_interrupt_function(EG(current_execute_data));
    }
    return EG(exception) == NULL;
}

/* The library asks this while it waits; no code of PHP's runs below it. */
static int check(void *nothing)
{
    (void)nothing;
    return undercroft_is_interrupted();
}

static PHP_GINIT_FUNCTION(undercroft)
{
#if defined(COMPILE_DL_UNDERCROFT) && defined(ZTS)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    memset(undercroft_globals, 0, sizeof(*undercroft_globals));
    undercroft_globals->is_trusting = strcmp(sapi_module.name, "cli") != 0;
}

static PHP_GSHUTDOWN_FUNCTION(undercroft)
{
    undercroft_close_kept(undercroft_globals);
    undercroft_close_idle(undercroft_globals);
    uc_reply_free(undercroft_globals->reply);
    undercroft_globals->reply = NULL;
}

static PHP_MINIT_FUNCTION(undercroft)
{
    (void)type;
    (void)module_number;
    if (uc_abi_version() >> 16 != UC_ABI_VERSION >> 16) {
        php_error_docref(NULL, E_CORE_WARNING, "expected the C interface %u of Undercroft, got %u",
                         (unsigned)UC_ABI_VERSION >> 16, (unsigned)uc_abi_version() >> 16);
        return FAILURE;
    }
    uc_set_interrupt(check, NULL);
    undercroft_register_exceptions();
    undercroft_register_store();
    undercroft_register_parser();
    undercroft_register_connection();
    return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(undercroft)
{
    (void)type;
    (void)module_number;
    uc_set_interrupt(NULL, NULL);
    return SUCCESS;
}

static PHP_RINIT_FUNCTION(undercroft)
{
    (void)type;
    (void)module_number;
#if defined(ZTS) && defined(COMPILE_DL_UNDERCROFT)
    ZEND_TSRMLS_CACHE_UPDATE();
#endif
    return SUCCESS;
}

static PHP_RSHUTDOWN_FUNCTION(undercroft)
{
    (void)type;
    (void)module_number;
    /* Objects may still be there: they make another one when they need it. */
    if (UNDERCROFT_G(is_large)) {
        uc_reply_free(UNDERCROFT_G(reply));
        UNDERCROFT_G(reply) = NULL;
        UNDERCROFT_G(is_large) = false;
    }
    return SUCCESS;
}

static PHP_MINFO_FUNCTION(undercroft)
{
    (void)zend_module;
    php_info_print_table_start();
    php_info_print_table_row(2, "Undercroft", "enabled");
    php_info_print_table_row(2, "Extension", PHP_UNDERCROFT_VERSION);
    php_info_print_table_row(2, "Engine", uc_version());
    php_info_print_table_end();
}

#ifdef UNDERCROFT_RACES
extern const zend_function_entry undercroft_test_functions[];
#else
#define undercroft_test_functions NULL
#endif

zend_module_entry undercroft_module_entry = {
    STANDARD_MODULE_HEADER,
    "undercroft",
    undercroft_test_functions,
    PHP_MINIT(undercroft),
    PHP_MSHUTDOWN(undercroft),
    PHP_RINIT(undercroft),
    PHP_RSHUTDOWN(undercroft),
    PHP_MINFO(undercroft),
    PHP_UNDERCROFT_VERSION,
    PHP_MODULE_GLOBALS(undercroft),
    PHP_GINIT(undercroft),
    PHP_GSHUTDOWN(undercroft),
    NULL,
    STANDARD_MODULE_PROPERTIES_EX
};

#ifdef COMPILE_DL_UNDERCROFT
#ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
#endif
ZEND_GET_MODULE(undercroft)
#endif
