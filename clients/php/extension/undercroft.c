/*
 * Implements the module: startup and shutdown, per-thread state, and the hook with which PHP
 * interrupts a wait.
 */
#include "php_undercroft.h"
#include "servers/socket.h"
#include "SAPI.h"
#include "ext/standard/info.h"
#include "zend_exceptions.h"

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

/*
 * PHP can run signal handlers after a native method has returned but before its result is assigned,
 * and while the PHP client passes the result to the program. If a handler throws an exception
 * during that time, the data that the call removed from the store is put back (M9).
 */

/* The previous interrupt hook, which belongs to PHP or another module. */
static void (*next_interrupt)(zend_execute_data *frame);

/*
 * Returns whether a frame belongs to the PHP client, which passes a store's result to the program.
 */
static bool hands_on(const zend_execute_data *frame)
{
    if (frame->func == NULL || !ZEND_USER_CODE(frame->func->type) || frame->func->common.scope == NULL) {
        return false;
    }
    return strncmp(ZSTR_VAL(frame->func->common.scope->name), "Undercroft\\", strlen("Undercroft\\")) == 0;
}

void undercroft_begin_result(void)
{
    UNDERCROFT_G(result).owner = NULL;
}

void undercroft_end_result(undercroft_store *owner)
{
    undercroft_result *result = &UNDERCROFT_G(result);
    zend_execute_data *frame = EG(current_execute_data)->prev_execute_data;
    size_t count = 0;
    if (frame == NULL || frame->func == NULL || !ZEND_USER_CODE(frame->func->type)) {
        return;
    }
    do {
        if (count == UNDERCROFT_CALLS) {
            return;
        }
        result->calls[count].frame = frame;
        result->calls[count].function = frame->func;
        result->calls[count].at = frame->opline;
        count++;
    } while (hands_on(frame) && (frame = frame->prev_execute_data) != NULL);
    result->count = count;
    result->owner = owner;
}

static bool is_same(const undercroft_call *call, const zend_execute_data *frame)
{
    return call->frame == frame && call->function == frame->func;
}

/*
 * Returns whether the last result is still on its way to the program when PHP checks for interrupts
 * in `frame`. Frames of earlier and later calls may have the same address, so the instruction
 * positions are also compared: a frame that has returned the result is past its recorded call, and
 * its caller is still at its own recorded call.
 */
static bool is_on_its_way(const zend_execute_data *frame)
{
    const undercroft_result *result = &UNDERCROFT_G(result);
    size_t depth = 0, level = 0;
    /*
     * Shutdown functions have no calling frame, and a fatal error may have ended the call whose
     * result is recorded.
     */
    if (result->owner == NULL || frame == NULL) {
        return false;
    }
    /* Some versions of PHP check for interrupts before they leave the native method's frame. */
    if (frame->func != NULL && !ZEND_USER_CODE(frame->func->type) && frame->prev_execute_data != NULL &&
        is_same(&result->calls[0], frame->prev_execute_data) &&
        frame->prev_execute_data->opline == result->calls[0].at) {
        frame = frame->prev_execute_data;
    } else {
        for (;; frame = frame->prev_execute_data, depth++) {
            if (frame == NULL || depth > UNDERCROFT_DEPTH) {
                return false;
            }
            for (level = 0; level < result->count && !is_same(&result->calls[level], frame); level++) {
            }
            if (level < result->count) {
                break;
            }
        }
        if (level + 1 == result->count) {
            /*
             * In the program's frame, the result is on its way only until the next instruction,
             * which uses it.
             */
            if (level > 0 || depth > 0 || frame->opline != result->calls[0].at + 1) {
                return false;
            }
        } else if (frame->opline <= result->calls[level].at) {
            return false;
        }
    }
    while (++level < result->count) {
        frame = frame->prev_execute_data;
        if (frame == NULL || !is_same(&result->calls[level], frame) || frame->opline != result->calls[level].at) {
            return false;
        }
    }
    return true;
}

/*
 * Runs the previous interrupt hook while an exception is pending.
 *
 * PHP also checks for interrupts after a native function that threw. pcntl then takes the signal
 * from its queue and calls the handler, but PHP calls no function while an exception is pending, so
 * the signal would be lost. The exception is therefore set aside until the hook returns, as PHP does
 * for destructors (zend_objects_destroy_object). An exit is left alone: it ends the program without
 * running handlers.
 */
static void interrupt_throwing(zend_execute_data *frame)
{
    zend_object *exception = EG(exception);
    const zend_op *opline = EG(opline_before_exception);
    if (next_interrupt == NULL) {
        return;
    }
    if (zend_is_unwind_exit(exception)) {
        next_interrupt(frame);
        return;
    }
    EG(exception) = NULL;
    next_interrupt(frame);
    EG(opline_before_exception) = opline;
    if (EG(exception) == NULL) {
        EG(exception) = exception;
    } else {
        zend_exception_set_previous(EG(exception), exception);
    }
}

/* Handles PHP's check for interrupts. */
static void interrupt(zend_execute_data *frame)
{
    undercroft_result result = UNDERCROFT_G(result);
    bool is_owned = is_on_its_way(frame) && result.owner->session != NULL;
    UNDERCROFT_G(result).owner = NULL;
    if (EG(exception) != NULL) {
        interrupt_throwing(frame);
        return;
    }
    if (!is_owned) {
        if (next_interrupt != NULL) {
            next_interrupt(frame);
        }
        return;
    }
    /* Hold a reference to the store, because the handler may use and close it. */
    undercroft_store *owner = result.owner;
    uc_session *session = owner->session;
    GC_ADDREF(&owner->std);
    uc_taken(session, UC_TAKEN_HOLD);
    if (next_interrupt != NULL) {
        next_interrupt(frame);
    }
    if (owner->session == session) {
        if (EG(exception) == NULL) {
            uc_taken(session, UC_TAKEN_RESUME);
            UNDERCROFT_G(result) = result;
        } else if (uc_taken(session, UC_TAKEN_GIVE_BACK) != UC_OK) {
            php_error_docref(NULL, E_WARNING, "the items that an interrupted call took could not be put back: %s",
                             uc_error_message());
        }
    }
    OBJ_RELEASE(&owner->std);
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

/*
 * Tells the library whether to end a wait. The library calls this function while it waits, so the
 * function must not run PHP code.
 */
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
        php_error_docref(NULL, E_CORE_WARNING, "expected version %u of Undercroft's C interface, got %u; "
                         "build the extension against this library",
                         (unsigned)UC_ABI_VERSION >> 16, (unsigned)uc_abi_version() >> 16);
        return FAILURE;
    }
    uc_set_interrupt(check, NULL);
    next_interrupt = zend_interrupt_function;
    zend_interrupt_function = interrupt;
    undercroft_count_forks();
    undercroft_register_exceptions();
    undercroft_register_store();
    undercroft_register_parser();
    undercroft_register_connection();
    undercroft_register_channel();
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
    undercroft_begin_result();
    return SUCCESS;
}

static PHP_RSHUTDOWN_FUNCTION(undercroft)
{
    (void)type;
    (void)module_number;
    /* Objects that still exist create a new reply when they need one. */
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

/* Load pcntl first, so that this module's hook calls pcntl's hook. */
static const zend_module_dep dependencies[] = {
    ZEND_MOD_OPTIONAL("pcntl")
    ZEND_MOD_END
};

zend_module_entry undercroft_module_entry = {
    STANDARD_MODULE_HEADER_EX,
    NULL,
    dependencies,
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
