#!/usr/bin/env bash
# Usage: scripts/bench.sh TABLE
# Measures one table of bench/ on this machine, beside the peers that are there.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

table=${1:?which table: core}
[[ -f bench/run.py ]] || fail "there is no benchmark yet: bench/run.py comes with the Python package"
scripts/setup.sh scripts/requirements-bench.txt
scripts/packages.sh bench
scripts/build.sh
exec .venv/bin/python bench/run.py --table "$table"
