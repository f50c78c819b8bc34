#!/usr/bin/env bash
# Usage: scripts/php-extension.sh [build]
# Builds the PHP extension by phpize into target/php/undercroft.so, against the static C library, and tests it: its
# classes (.phpt), under valgrind, in PHP-FPM. With `build` it is only built. BUILT names the directory of a build of
# the C library that is there already.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

for tool in php phpize make cc; do
    if ! have "$tool"; then
        skip "the PHP extension: no $tool here (Debian: php-cli php-dev make gcc)"
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
cp -R clients/php/extension/. "$place/build/"
(
    cd "$place/build"
    # What was configured stays so until config.m4 is another.
    if [[ ! -f Makefile || config.m4 -nt Makefile ]]; then
        phpize
        UNDERCROFT_LIBRARY=$built/libundercroft_c.a UNDERCROFT_INCLUDE=$root/clients/c \
            ./configure --quiet --with-undercroft CFLAGS="-O2 -g -Wall -Wextra -Wno-unused-parameter"
    fi
    make
) >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    fail "the PHP extension cannot be built, see $log"
}
cp "$place/build/modules/undercroft.so" "$place/undercroft.so"
! have strip || strip --strip-debug "$place/undercroft.so"
[[ ${1:-} != build ]] || exit 0

export UNDERCROFT_EXTENSION=$place/undercroft.so
run_tests() {
    php -n "$place/build/run-tests.php" -n -q -j2 -p "$(command -v php)" --show-diff "$@"
}
run_tests -d "extension=$UNDERCROFT_EXTENSION" clients/php/extension/tests
