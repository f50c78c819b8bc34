#!/usr/bin/env bash
# Runs under miri the tests that need neither a mapped file nor a socket: those of the wire format's
# reader and writer. Tests with long inputs are skipped, because miri is slow.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    fail "miri is not installed; type: rustup toolchain install nightly --component miri --component rust-src"
fi
long=(bulks_equal_separate hostile_nesting malformed_requests malformed_replies fast_path_parses_lengths steady_state
    no_byte_is_searched_twice wanted_counts)
skipped=()
for name in "${long[@]}"; do
    skipped+=(--skip "$name")
done
export MIRIFLAGS="-Zmiri-disable-isolation" CARGO_TARGET_DIR="$root/target/miri"
exec cargo +nightly miri test --locked --package undercroft-resp --lib -- "${skipped[@]}"
