/* Connections that outlive the request that made them, until another one takes them. */
#ifndef UNDERCROFT_IDLE_H
#define UNDERCROFT_IDLE_H

#include "../php_undercroft.h"

/* Takes an idle connection to an address that was left under this name. Returns its descriptor, or -1. It is this
 * process' own and nobody else has it, the server has not closed it, and nothing has come over it unasked. */
int undercroft_take_idle(const zend_string *address, const zend_string *name);

/* Leaves a connection, between two replies, to whoever asks for this address and name. */
void undercroft_leave_idle(const zend_string *address, const zend_string *name, int descriptor);

#endif
