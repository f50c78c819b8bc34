#!/usr/bin/env bash
# Builds Lua with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the script fuzz targets
# with it. The inputs are the targets' seeds and UNDERCROFT_FUZZ_INPUTS mutated inputs (default
# 20,000, divided by a target's cost).

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup/environment.sh
scripts/setup/packages.sh fuzz
runtime=$(cc -print-file-name=libasan.so)
if [[ $runtime != /* ]]; then
    skip "sanitize: the C compiler has no libasan"
    exit
fi
# Permit signed overflow: Lua 5.1 subtracts 1 from any table index and compares the result as
# unsigned.
checks='-fsanitize=address,undefined -fno-sanitize=signed-integer-overflow'
# Only C is instrumented, and stable Rust links the runtime libraries. With `fuzzing`, each block of
# an interpreter is a separate allocation, so that a write beyond its end is detected.
export CFLAGS="$checks -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
# Name the runtime libraries, because rustc links without the C compiler's own libraries. They must
# be loaded before all others.
export RUSTFLAGS="--cfg fuzzing -Clink-arg=-lasan -Clink-arg=-lubsan"
export CARGO_TARGET_DIR="$root/target/sanitize"
# The sanitizer delays the return of memory to the system, so the `calls` target does not measure
# memory and permits more time.
export ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16
export UBSAN_OPTIONS=print_stacktrace=1 UNDERCROFT_SANITIZED=1
export UNDERCROFT_FUZZ_INPUTS=${UNDERCROFT_FUZZ_INPUTS:-20000}
export UNDERCROFT_FUZZ_TARGETS=calls,cjson,cmsgpack,functions,struct
# Specify the host as the target, so that these flags do not apply to build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
runner=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$host")_RUNNER
export "$runner=env LD_PRELOAD=$runtime"
exec cargo test --locked --target "$host" --package undercroft-fuzz --test brief -- --show-output
