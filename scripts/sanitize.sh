#!/usr/bin/env bash
# Builds Lua with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the fuzz targets of scripts against it: their
# seeds, and UNDERCROFT_FUZZ_INPUTS inputs made of them (default 20,000, divided by a target's cost).

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup/environment.sh
scripts/setup/packages.sh fuzz
runtime=$(cc -print-file-name=libasan.so)
if [[ $runtime != /* ]]; then
    skip "sanitize: cc has no libasan"
    exit
fi
# Lua 5.1 takes 1 from any index of a table and compares the result as unsigned: this overflow is meant.
checks='-fsanitize=address,undefined -fno-sanitize=signed-integer-overflow'
# Only C is instrumented, and stable Rust links the run-time libraries. Under `fuzzing` each block of an interpreter is
# an allocation of its own, so that a write beyond its end is seen.
export CFLAGS="$checks -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
# rustc links without a compiler's own libraries, so these are named. They have to be loaded before all others.
export RUSTFLAGS="--cfg fuzzing -Clink-arg=-lasan -Clink-arg=-lubsan"
export CARGO_TARGET_DIR="$root/target/sanitize"
# Memory is not given back to the system at once, so the target of calls does not count it, and allows more time.
export ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16
export UBSAN_OPTIONS=print_stacktrace=1 UNDERCROFT_SANITIZED=1
export UNDERCROFT_FUZZ_INPUTS=${UNDERCROFT_FUZZ_INPUTS:-20000}
export UNDERCROFT_FUZZ_TARGETS=calls,cjson,cmsgpack,functions,struct
# Naming the host as the target keeps the flags away from build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
runner=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$host")_RUNNER
export "$runner=env LD_PRELOAD=$runtime"
exec cargo test --locked --target "$host" --package undercroft-fuzz --test brief -- --show-output
