#!/usr/bin/env bash
# Runs the main job on real input; see examples/demo.py for what it does.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

[[ -f examples/demo.py ]] || fail "there is no demo yet: it comes with the Python package"
scripts/packages.sh test
scripts/build.sh
exec .venv/bin/python examples/demo.py "$@"
