dnl Builds the undercroft extension. UNDERCROFT_LIBRARY is the static C library, and UNDERCROFT_INCLUDE is the
dnl directory of undercroft.h.

PHP_ARG_WITH([undercroft],
  [for Undercroft: Redis data structures in shared memory],
  [AS_HELP_STRING([--with-undercroft[=DIR]], [DIR is where the C library is installed; /usr/local])],
  [yes])

if test "$PHP_UNDERCROFT" != "no"; then
  if test "$PHP_UNDERCROFT" = "yes"; then
    PHP_UNDERCROFT=/usr/local
  fi
  UNDERCROFT_LIBRARY=${UNDERCROFT_LIBRARY:-$PHP_UNDERCROFT/lib/libundercroft.a}
  UNDERCROFT_INCLUDE=${UNDERCROFT_INCLUDE:-$PHP_UNDERCROFT/include}
  if ! test -f "$UNDERCROFT_LIBRARY"; then
    AC_MSG_ERROR([expected the static C library of Undercroft at $UNDERCROFT_LIBRARY: run make install first])
  fi
  if ! test -f "$UNDERCROFT_INCLUDE/undercroft.h"; then
    AC_MSG_ERROR([expected undercroft.h in $UNDERCROFT_INCLUDE])
  fi
  PHP_ADD_INCLUDE([$UNDERCROFT_INCLUDE])
  dnl nodelete keeps the library mapped when PHP unloads the extension, because thread exits and forks still call it.
  dnl Only get_module is exported, so that another copy of the library in the process does not conflict. PHP's functions
  dnl are resolved at load time: resolving them in a PHP-FPM worker would touch pages of every library.
  UNDERCROFT_SHARED_LIBADD="$UNDERCROFT_LIBRARY -lm -ldl -lrt -lpthread"
  UNDERCROFT_SHARED_LIBADD="$UNDERCROFT_SHARED_LIBADD -Wl,-z,nodelete -Wl,-z,now -Wl,--gc-sections -Wl,--exclude-libs,ALL"
  PHP_SUBST(UNDERCROFT_SHARED_LIBADD)
  PHP_NEW_EXTENSION([undercroft],
    [undercroft.c memory.c words.c values.c exceptions.c store.c commands.c messages.c ]dnl
    [channels.c races.c servers/resp.c servers/parser.c servers/socket.c servers/idle.c servers/connection.c],
    [$ext_shared],, [-DZEND_ENABLE_STATIC_TSRMLS_CACHE=1 -fvisibility=hidden])
  PHP_ADD_BUILD_DIR([$ext_builddir/servers], 1)
fi
