#!/usr/bin/env bash
# Checks format, lints and types without changing any file, and stops at the first finding.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup/environment.sh scripts/setup/requirements-dev.txt scripts/setup/requirements-frameworks.txt
scripts/setup/packages.sh lint

say "rustfmt"
cargo fmt --all --check
cargo fmt --manifest-path bench/cache/Cargo.toml --check

say "the lock file of bench/cache, which no test compiles"
cargo metadata --locked --format-version 1 --manifest-path bench/cache/Cargo.toml >/dev/null

say "clippy"
cargo clippy --workspace --features undercroft/full --all-targets --locked -- -D warnings

say "rustdoc"
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --features undercroft/full --no-deps --document-private-items --locked --quiet

say "shellcheck"
if have shellcheck; then
    shellcheck --external-sources scripts/*.sh scripts/*/*.sh .ci/run
else
    skip "shellcheck is not installed"
fi

say "ruff"
.venv/bin/ruff check
.venv/bin/ruff format --check

say "measured tables"
.venv/bin/python bench/readme.py --check

say "mypy"
.venv/bin/mypy scripts clients/python/backend clients/python/tools clients/python/undercroft \
    conformance/programs/run.py \
    examples/python examples/forum examples/migrating
