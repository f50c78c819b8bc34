/* Manages connections that outlive their request until another request uses them. */
#ifndef UNDERCROFT_IDLE_H
#define UNDERCROFT_IDLE_H

#include "../php_undercroft.h"

/*
 * Takes an idle connection with this address and name. Returns its descriptor, or -1 if there is
 * none. The connection belongs to this process alone, is still open, and has no unread bytes.
 */
int undercroft_take_idle(const zend_string *address, const zend_string *name);

/*
 * Leaves a connection that has no pending replies open for the next object with this address and
 * name.
 */
void undercroft_leave_idle(const zend_string *address, const zend_string *name, int descriptor);

#endif
