#!/usr/bin/env bash
# Usage: scripts/build.sh [PROFILE]
# Builds target/PROFILE/undercroft (default: release), the demo's Rust process in the same
# directory, and a .venv/bin/python that can import undercroft.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

profile=${1:-release}
scripts/setup/environment.sh

say "building target/$profile/undercroft and the Python package"
cargo build --profile "$profile" --locked \
    --package undercroft-cli --package undercroft-demo --package undercroft-python
.venv/bin/python scripts/setup/editable.py "target/$profile/libundercroft_python.so"
imports_undercroft || fail "the Python package was built, but .venv/bin/python cannot import undercroft"
