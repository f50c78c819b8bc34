#!/usr/bin/env bash
# Runs the main use case on real data, as described in examples/demo.py. It announces each step and
# its expected duration on two cores.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

say "1 of 3: installing redis-server for comparison and a Python environment (20 s the first time)"
scripts/setup/packages.sh demo
say "2 of 3: compiling the Python package, the command and a Rust program (2 minutes the first time)"
scripts/build.sh quick
say "3 of 3: the demo (25 s)"
exec .venv/bin/python examples/demo.py --binaries target/quick "$@"
