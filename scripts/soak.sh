#!/usr/bin/env bash
# Usage: scripts/soak.sh [OPTION...]
# Runs storms, kill tests and random tests for a given time. Options are passed to scripts/soak.py
# (see --help).

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

built
scripts/setup/packages.sh fuzz
exec .venv/bin/python scripts/soak.py "$@"
