#!/usr/bin/env bash
# Packs the module that scripts/build.sh has built into a wheel for this machine, and tries
# it in an empty environment. `make dist` makes the one for others.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

rm -rf target/test/wheel
.venv/bin/maturin build --release --locked --quiet --compatibility linux \
    --manifest-path clients/python/Cargo.toml --out target/test/wheel
scripts/installed.sh target/test/wheel/*.whl
