#!/usr/bin/env bash
# Usage: scripts/test.sh [OPTION...]
# Runs all tests. Options are passed to scripts/run_tests.py (see --help).

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

mkdir -p target/test
: >target/test/skipped.log
scripts/setup/environment.sh scripts/setup/requirements-dev.txt scripts/setup/requirements-frameworks.txt
scripts/setup/packages.sh test
scripts/setup/packages.sh php
scripts/setup/servers.sh
exec .venv/bin/python scripts/run_tests.py "$@"
