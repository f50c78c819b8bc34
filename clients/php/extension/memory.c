/* Allocates PHP memory whose size is determined by a server or a store. */
#include "php_undercroft.h"

#ifdef femalloc

/* Ends the script with PHP's own fatal error for an exceeded memory limit. */
static ZEND_COLD ZEND_NORETURN void end(size_t wanted)
{
    zend_error_noreturn(E_ERROR,
                        "Allowed memory size of " ZEND_LONG_FMT " bytes exhausted (tried to allocate %zu bytes)",
                        PG(memory_limit), wanted);
}

zend_string *undercroft_new_string(size_t length)
{
    zend_string *string = zend_string_falloc(length, false, true);
    if (UNEXPECTED(string == NULL)) {
        end(length);
    }
    return string;
}

void *undercroft_allocate(size_t count, size_t size, size_t more)
{
    void *memory = safe_femalloc(count, size, more, true);
    if (UNEXPECTED(memory == NULL)) {
        end(count * size + more);
    }
    return memory;
}

void *undercroft_reallocate(void *memory, size_t size)
{
    void *moved = ferealloc(memory, size, true);
    if (UNEXPECTED(moved == NULL)) {
        end(size);
    }
    return moved;
}

void undercroft_new_list(zval *to, size_t items)
{
    array_init_size(to, (uint32_t)items);
    if (UNEXPECTED(zend_hash_real_finit_packed(Z_ARRVAL_P(to), true) != SUCCESS)) {
        end(items * sizeof(zval));
    }
}

void undercroft_new_map(zval *to, size_t items)
{
    array_init_size(to, (uint32_t)items);
    if (items > 0 && UNEXPECTED(zend_hash_real_finit_mixed(Z_ARRVAL_P(to), true) != SUCCESS)) {
        end(items * sizeof(Bucket));
    }
}

#else

zend_string *undercroft_new_string(size_t length)
{
    return zend_string_alloc(length, 0);
}

void *undercroft_allocate(size_t count, size_t size, size_t more)
{
    return safe_emalloc(count, size, more);
}

void *undercroft_reallocate(void *memory, size_t size)
{
    return erealloc(memory, size);
}

void undercroft_new_list(zval *to, size_t items)
{
    array_init_size(to, (uint32_t)items);
    zend_hash_real_init_packed(Z_ARRVAL_P(to));
}

void undercroft_new_map(zval *to, size_t items)
{
    array_init_size(to, (uint32_t)items);
}

#endif
