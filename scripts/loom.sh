#!/usr/bin/env bash
# Checks the loom models of the memory layer: loom explores the interleavings of a few threads with
# a bounded number of preemptions, and must reject broken variants of the models.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup/environment.sh
# The flag applies to every crate, so this build uses a separate directory.
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$root/target/loom"
exec cargo test --release --locked --package undercroft-memory --lib models -- --show-output
