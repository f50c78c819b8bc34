#!/usr/bin/env bash
# Usage: scripts/php-extension.sh [build | install | storm]
# Builds the PHP extension with phpize into target/php/undercroft.so, against the static C library,
# and tests it: with .phpt files, under valgrind, and in PHP-FPM. `build` only builds it. `install`
# also installs it in PHP's extension directory under DESTDIR, with its .ini file. `storm` only
# kills many PHP-FPM workers. BUILT specifies the directory of an existing build of the C library,
# and BUILT_RACES that of a build with its feature "races".

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

for tool in php phpize make cc; do
    if ! have "$tool"; then
        skip "the PHP extension: $tool is not installed (Debian: php-cli php-dev make gcc)"
        exit 0
    fi
done

built=${BUILT:-}
if [[ ! $built ]]; then
    cargo build --release --locked --package undercroft-c --package undercroft-cli
    built=$root/target/release
fi
[[ -f $built/libundercroft_c.a ]] || fail "expected the C library at $built/libundercroft_c.a"

place=$root/target/php
mkdir -p "$place/build"
log=$place/build.log
say "building the PHP extension"
rm -rf "$place/build/tests"
cp -R clients/php/extension/. "$place/build/"
(
    cd "$place/build"
    # Configure again only if config.m4 has changed.
    if [[ ! -f Makefile || config.m4 -nt Makefile ]]; then
        phpize
        UNDERCROFT_LIBRARY=$built/libundercroft_c.a UNDERCROFT_INCLUDE=$root/clients/c \
            ./configure --quiet --with-undercroft CFLAGS="-O2 -g -Wall -Wextra -Wno-unused-parameter -Werror=implicit-function-declaration"
    fi
    make
) >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    fail "the PHP extension cannot be built, see $log"
}
cp "$place/build/modules/undercroft.so" "$place/undercroft.so"
! have strip || strip --strip-debug "$place/undercroft.so"
# storm KILLS: kills PHP-FPM workers.
storm() {
    if have nginx && compgen -c php-fpm >/dev/null; then
        say "in PHP-FPM with nginx, with workers killed"
        export UNDERCROFT=$built/undercroft
        clients/php/extension/tests/fpm/run.sh "$place/undercroft.so" "$place/fpm" "$1"
    else
        skip "the PHP extension in PHP-FPM: php-fpm or nginx is not installed"
    fi
}

case ${1:-} in
    '') ;;
    build) exit 0 ;;
    storm)
        storm 600
        exit 0
        ;;
    install)
        extensions=${DESTDIR:-}$(php-config --extension-dir)
        # Debian has a directory for the .ini files of modules, which phpenmod links. Other systems'
        # PHP reads a single directory.
        scanned=$(php-config --ini-dir 2>/dev/null || true)
        modules=/etc/php/$(php -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;')/mods-available
        [[ ! -d $modules ]] || scanned=$modules
        install -d "$extensions"
        install -m 755 "$place/undercroft.so" "$extensions/undercroft.so"
        if [[ $scanned ]]; then
            install -d "${DESTDIR:-}$scanned"
            install -m 644 clients/php/extension/undercroft.ini "${DESTDIR:-}$scanned/undercroft.ini"
        fi
        say "installed in $extensions${scanned:+, $scanned/undercroft.ini; in Debian now: phpenmod undercroft}"
        exit 0
        ;;
    *) fail "expected build, install, storm or nothing, got $1" ;;
esac

# run_tests EXTENSION TEST...: runs .phpt files, and prints their output if any fails.
run_tests() {
    export UNDERCROFT_EXTENSION=$1 UNDERCROFT=$built/undercroft
    php -n "$place/build/run-tests.php" -n -q -j2 --set-timeout 900 -p "$(command -v php)" --show-diff -d "extension=$1" "${@:2}" \
        >"$place/tests.log" 2>&1 || {
        cat "$place/tests.log" >&2
        fail "tests of the PHP extension failed"
    }
    grep -E '^Tests (passed|skipped)' "$place/tests.log"
}

say "its classes"
run_tests "$place/undercroft.so" "$place/build/tests"

say "compiling for a thread-safe build of PHP"
read -ra includes <<<"$(php-config --includes)"
for source in clients/php/extension/*.c clients/php/extension/servers/*.c; do
    cc -fsyntax-only -DZTS=1 -DCOMPILE_DL_UNDERCROFT=1 -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1 -Wall -Werror \
        -Wno-cpp "${includes[@]}" -Iclients/c "$source" || fail "$source does not compile for a thread-safe PHP"
done

if have valgrind; then
    say "under valgrind"
    USE_ZEND_ALLOC=0 valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect php -n -d "extension=$place/undercroft.so" \
        clients/php/extension/tests/memory.php
else
    skip "the PHP extension under valgrind: valgrind is not installed"
fi

storm "${UNDERCROFT_PHP_KILLS:-60}"

# Use the library that changes the store during reads, which scripts/c.sh builds as well.
say "changes during reads, writes that run twice"
races=${BUILT_RACES:-}
if [[ ! $races ]]; then
    cargo build --locked --package undercroft-c --features races
    races=$root/target/debug
fi
(
    cd "$place/build"
    cc -shared -fPIC -DUNDERCROFT_RACES -DCOMPILE_DL_UNDERCROFT -fvisibility=hidden "${includes[@]}" \
        "-I$root/clients/c" -o "$place/races.so" races.c undercroft.c \
        .libs/{memory,words,values,exceptions,store,commands,messages}.o \
        servers/.libs/{resp,parser,socket,idle,connection}.o \
        "$races/libundercroft_c.a" \
        -lm -ldl -lrt -lpthread -Wl,-z,nodelete -Wl,--exclude-libs,ALL
)
run_tests "$place/races.so" "$place/build/tests/races.phpt"
UNDERCROFT_RERUN=1 run_tests "$place/races.so" "$place"/build/tests/{strings,commands,processes}.phpt
