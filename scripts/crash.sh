#!/usr/bin/env bash
# Runs the complete kill tests, of which `make test` runs only a part: every integration test whose
# name begins with "crash" or "races", without shortcuts.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

shopt -s nullglob
tests=(crates/*/tests/{crash,races}*)
((${#tests[@]})) || fail "found no kill tests: no file matches crates/*/tests/crash*"
scripts/setup/environment.sh
export UNDERCROFT_CRASH=full
# Test one package at a time: one package's fail points must not be compiled into the code that
# another package's tests step through.
mapfile -t crates < <(printf '%s\n' "${tests[@]%/tests/*}" | sort -u)
for crate in "${crates[@]}"; do
    say "$crate"
    named=()
    for test in "$crate"/tests/{crash,races}*; do
        named+=(--test "$(basename "$test" .rs)")
    done
    cargo test --manifest-path "$crate/Cargo.toml" --release --locked "${named[@]}" \
        -- --nocapture --test-threads=1
done
