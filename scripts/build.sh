#!/usr/bin/env bash
# Leaves target/release/undercroft with the demo's Rust process beside it, and a
# .venv/bin/python that imports undercroft.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup.sh

say "building target/release/undercroft"
cargo build --release --locked --package undercroft-cli --package undercroft-demo

if has_python_client; then
    say "building the Python package into .venv"
    .venv/bin/maturin develop --release --locked --quiet --manifest-path clients/python/Cargo.toml
    imports_undercroft || fail "the Python package was built, but .venv/bin/python cannot import undercroft"
else
    skip "the Python package: clients/python is not written yet"
fi
