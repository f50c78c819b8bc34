#!/usr/bin/env bash
# Runs the tests of the Python client that interrupt its reads, with a build of the native
# module that lets them. The module of .venv stays as it is.

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
exec "$root/.venv/bin/python" -m pytest -q -p no:cacheprovider test_races.py "$@"
