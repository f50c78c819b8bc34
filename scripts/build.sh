#!/usr/bin/env bash
# Usage: scripts/build.sh [PROFILE]
# Leaves target/PROFILE/undercroft (release unless another profile is named) with the demo's Rust process next to it, and
# a .venv/bin/python that imports undercroft.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

profile=${1:-release}
scripts/setup.sh

say "building target/$profile/undercroft"
cargo build --profile "$profile" --locked --package undercroft-cli --package undercroft-demo

say "building the Python package into .venv"
.venv/bin/maturin develop --profile "$profile" --locked --quiet --manifest-path clients/python/Cargo.toml
imports_undercroft || fail "the Python package was built, but .venv/bin/python cannot import undercroft"
