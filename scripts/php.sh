#!/usr/bin/env bash
# Tests the PHP client: what is of PHP alone once, and every family of commands on a Redis server by RESP2 and RESP3
# and on `undercroft serve`. UNDERCROFT_SEED repeats a random test.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/packages.sh php
for program in php phpunit; do
    if ! have "$program"; then
        skip "the PHP client: no $program here"
        exit 0
    fi
done
cargo build --release --locked --package undercroft-cli

cd clients/php
# What the tests leave in no working directory of ours.
unset UNDERCROFT_STORE

# suite NAME ENGINE: runs one, and repeats what it skipped.
suite() {
    local log=$root/target/test/phpunit.log
    say "PHP: $1 on $2"
    UNDERCROFT_ENGINE=$2 phpunit --verbose --testsuite "$1" | tee "$log"
    sed -n '/skipped tests\?:$/,$ s/^[0-9]*) .*::\(test[A-Za-z]*\).*/\1/p' "$log" | while read -r name; do
        (cd "$root" && skip "PHP: $name on $2")
    done
}

engines=(served)
if have redis-server; then
    engines+=(redis redis3)
    suite once redis
else
    skip "the PHP client on a Redis server: no redis-server here"
fi
for engine in "${engines[@]}"; do
    suite commands "$engine"
done
if [[ -d /usr/share/php/Cache/IntegrationTests && -d /usr/share/php/Symfony/Component/Cache &&
    -d /usr/share/php/Illuminate/Queue ]]; then
    suite ecosystem served
else
    skip "the PHP client's caches, sessions and Laravel: Debian's php-cache-integration-tests, php-symfony-cache or" \
        "php-illuminate-queue are not here"
fi
echo "PHP: all suites passed"
