/*
 * Implements test hooks that change data in the middle of reads. Empty unless the library was built
 * with the "races" feature.
 */
#include "php_undercroft.h"

#ifdef UNDERCROFT_RACES

int uc_test_change_reads(uc_store *store, size_t count, const uc_words *commands, uint64_t *made);

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(change_reads_arguments, 0, 2, IS_LONG, 0)
    ZEND_ARG_OBJ_INFO(0, store, Undercroft\\Native\\Store, 0)
    ZEND_ARG_TYPE_INFO(0, commands, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

/*
 * Makes another handle run one of the given commands between each read and its validation. Returns
 * the number of commands that the previous setup ran.
 */
static ZEND_FUNCTION(undercroft_test_change_reads)
{
    zval *store;
    HashTable *commands;
    undercroft_words words;
    uint64_t made;
    int status;
    ZEND_PARSE_PARAMETERS_START(2, 2)
        Z_PARAM_OBJECT_OF_CLASS(store, undercroft_store_class)
        Z_PARAM_ARRAY_HT(commands)
    ZEND_PARSE_PARAMETERS_END();
    if (!undercroft_read_commands(&words, commands)) {
        RETURN_THROWS();
    }
    status = uc_test_change_reads(undercroft_store_of(Z_OBJ_P(store))->store, words.command_count, words.commands,
                                  &made);
    undercroft_release_words(&words);
    if (status < 0) {
        undercroft_throw(status);
        RETURN_THROWS();
    }
    RETURN_LONG((zend_long)made);
}

const zend_function_entry undercroft_test_functions[] = {
    ZEND_FE(undercroft_test_change_reads, change_reads_arguments)
    ZEND_FE_END
};

#endif
