#!/usr/bin/env bash
# Tests the Python client with the oldest supported redis-py. Only the tests that depend on
# redis-py's internals run. In .venv, the tests use the newest redis-py.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

requirements=scripts/setup/requirements-oldest.txt
venv=target/redis-oldest
# Recreate the environment if the requirements or the Python version have changed, or if its Python
# no longer exists.
stamp() { cat "$requirements" && .venv/bin/python --version; }
if ! cmp --silent <(stamp) "$venv/stamp" || ! "$venv/bin/python" -c '' 2>/dev/null; then
    say "installing $requirements"
    .venv/bin/python -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --requirement "$requirements" </dev/null
    stamp >"$venv/stamp"
fi

# Use the native module that was built into the package's directory.
export PYTHONPATH="$root/clients/python"
cd clients/python/tests
exec "$root/$venv/bin/python" -m pytest -q -p no:cacheprovider \
    asyncio/test_asyncio.py asyncio/test_asyncio_{crowded,kinds,replies,rescue,sharing,store,turns}.py \
    embedded/test_{client,like_redis,pipeline,pubsub,rows}.py \
    remote/test_{fast_path,line,remote,spelling,topology}.py "$@"
