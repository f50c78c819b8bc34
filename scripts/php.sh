#!/usr/bin/env bash
# Usage: scripts/php.sh [storm]
# Tests the PHP extension and the PHP client. Tests that concern only PHP run once. The tests of
# every command family run on a Redis server with RESP2 and RESP3, on `undercroft serve`, and with
# the extension on a Redis server and on a store. Three of these runs use a locale that writes 1.5
# as 1,5.
# UNDERCROFT_SEED repeats a random test. With `storm`, only the storm tests run: killed PHP-FPM
# workers, and children that are forked under load.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup/packages.sh php
for program in php phpunit; do
    if ! have "$program"; then
        skip "the PHP client: $program is not installed"
        exit 0
    fi
done
built
export UNDERCROFT_PROGRAM=$root/target/debug/undercroft
export BUILT=$root/target/debug BUILT_RACES=$root/target/debug
if [[ ${1:-} == storm ]]; then
    scripts/php-extension.sh storm
else
    scripts/php-extension.sh
fi
extension=$root/target/php/undercroft.so

cd clients/php
# Prevent the tests from writing to the caller's stores and servers.
unset UNDERCROFT_STORE UNDERCROFT_EXTENSION UNDERCROFT_URL

mkdir -p "$root/target/test"
# suite NAME ENGINE OPTION...: runs a suite with phpunit and these options, and prints which tests
# it skipped. If UNDERCROFT_EXTENSION names the extension's file, PHP loads the extension and
# opcache, which loads the client's methods differently.
suite() {
    local log=$root/target/test/phpunit.log
    say "PHP: $1 on $2"
    local load=()
    [[ ! ${UNDERCROFT_EXTENSION:-} ]] || load=(-d "extension=$UNDERCROFT_EXTENSION" -d opcache.enable_cli=1)
    UNDERCROFT_ENGINE=$2 php "${load[@]}" "$(command -v phpunit)" --verbose --testsuite "$1" "${@:3}" | tee "$log"
    sed -n '/skipped tests\?:$/,$ s/^[0-9]*) .*::\(test[A-Za-z]*\).*/\1/p' "$log" | while read -r name; do
        (cd "$root" && skip "PHP: $name on $2")
    done
}

# abroad NAME COMMAND...: runs a suite in a program that has set the locale NAME. de_DE writes 1.5
# as 1,5. tr_TR does too, and also has a different capital letter for i. If the locale cannot be
# created, the suite runs without it.
locales=$root/target/test/locales
abroad() {
    local name=$1
    mkdir -p "$locales"
    if [[ -d $locales/$name.UTF-8 ]] || { have localedef &&
        localedef --no-archive -i "$name" -f UTF-8 "$locales/$name.UTF-8" 2>/dev/null; }; then
        LOCPATH=$locales UNDERCROFT_LOCALE=$name.UTF-8 "${@:2}"
    else
        skip "the PHP client with another number format: localedef or $name is not installed"
        "${@:2}"
    fi
}

if [[ ${1:-} == storm ]]; then
    UNDERCROFT_EXTENSION=$extension suite once embedded --filter ForkLoad
    exit
fi

engines=(served)
if have redis-server; then
    engines+=(redis3)
    suite once redis
    abroad de_DE suite commands redis
else
    skip "the PHP client on a Redis server: redis-server is not installed"
fi
for engine in "${engines[@]}"; do
    suite commands "$engine"
done
if [[ -f $extension ]]; then
    UNDERCROFT_EXTENSION=$extension abroad de_DE suite commands embedded
    UNDERCROFT_EXTENSION=$extension suite once embedded --filter ForkLoad
    say "PHP: the conformance cases"
    "$root/target/debug/conform" through "$root/conformance/clients/php.txt" \
        php -d "extension=$extension" tests/bridge.php | grep -v ^skipped: ||
        fail "the conformance cases failed through the PHP client"
    if have redis-server; then
        UNDERCROFT_EXTENSION=$extension abroad tr_TR suite commands native
        UNDERCROFT_EXTENSION=$extension suite once native --filter 'BrokenServer|Persistent|Fork|Descriptors|testTls|testSamplesOfTheOtherPages'
    fi
else
    skip "the PHP client with the extension: the extension is not built"
fi
if [[ -d /usr/share/php/Cache/IntegrationTests && -d /usr/share/php/Symfony/Component/Cache &&
    -d /usr/share/php/Illuminate/Queue ]]; then
    suite ecosystem served
    # The embedded run omits php-cache's suites, which mostly wait and behave the same there.
    if [[ -f $extension ]]; then
        UNDERCROFT_EXTENSION=$extension suite ecosystem embedded --filter 'Apcu|Laravel|Session|CachesTest'
        ! have redis-server || UNDERCROFT_EXTENSION=$extension suite ecosystem native --filter Session
    fi
else
    skip "the PHP client's caches, sessions and Laravel: Debian's php-cache-integration-tests, php-symfony-cache or" \
        "php-illuminate-queue are not installed"
fi

# visit URL OPTION...: serves the guest book with PHP-FPM and its data at URL, and visits it in a
# browser.
visit() {
    local place port server
    place=$(mktemp -d)
    port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
    "$root/examples/php/serve.sh" "$place" "$port" "$@" &
    server=$!
    python3 "$root/examples/php/browse.py" "http://127.0.0.1:$port/" || fail "the guest book at $1 failed"
    kill "$server"
    wait "$server" || fail "the servers of the guest book ended with an error"
    rm -rf "$place"
}

say "PHP: the guest book names what is missing"
programs=$(mktemp -d)
for program in bash dirname sort tail; do
    ln -s "$(command -v "$program")" "$programs/$program"
done
! printed=$(PATH=$programs bash "$root/examples/php/serve.sh" "$programs/place" 8080 undercroft://guests 2>&1) ||
    fail "the guest book started without PHP-FPM"
[[ $printed == 'serve.sh: php-fpm is missing;'* ]] || fail "expected the name of the missing program, got: $printed"
rm -rf "$programs"

say "PHP: the guest book in a browser"
if have chromium && have nginx && compgen -c php-fpm >/dev/null && [[ -f $extension ]]; then
    stores=$(mktemp -d /dev/shm/undercroft-php-XXXXXX)
    trap 'rm -rf "$stores"' EXIT
    visit "undercroft://$stores/guests" "$extension"
else
    skip "the PHP guest book in a browser: chromium, nginx, php-fpm or the extension is not installed"
fi
echo "PHP: all suites passed"
