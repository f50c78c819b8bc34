#!/usr/bin/env bash
# Rewrites Rust and Python sources in the format that scripts/lint.sh checks.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup/environment.sh scripts/setup/requirements-dev.txt
cargo fmt --all
cargo fmt --manifest-path bench/cache/Cargo.toml
.venv/bin/ruff check --fix
.venv/bin/ruff format
