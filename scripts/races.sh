#!/usr/bin/env bash
# Runs the tests of the Python client that interrupt its reads, and those of the embedded store
# with the first run of every write rolled back, with a build of the native module that lets
# them. The module of .venv stays as it is.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

cargo build --locked --package undercroft-python --features races
package=target/test/races
rm -rf "$package"
mkdir -p "$package"
cp -R clients/python/undercroft "$package/undercroft"
rm -f "$package"/undercroft/_native*.so
cp target/debug/libundercroft_python.so "$package/undercroft/_native.abi3.so"
export PYTHONPATH="$root/$package"
cd clients/python/tests
pytest=("$root/.venv/bin/python" -m pytest -q -p no:cacheprovider)
"${pytest[@]}" test_races.py "$@"
UNDERCROFT_RERUN=1 "${pytest[@]}" test_client.py test_pipeline.py test_like_redis.py test_blocking.py \
    test_pubsub.py test_lock.py test_interrupted.py test_asyncio_store.py test_rows.py test_store.py test_feeds.py
