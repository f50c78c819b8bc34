#!/usr/bin/env bash
# Fuzzes every target, or only TARGET, for FUZZ_SECONDS each (default 60). If a C++ compiler is
# installed, libFuzzer runs the targets with coverage guidance on stable Rust. Otherwise, the
# targets get random inputs. Inputs that libFuzzer finds interesting are kept in target/fuzz/. A
# failing input is saved in fuzz/seeds/, so that `make test` runs it from then on.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

seconds=${FUZZ_SECONDS:-60}
scripts/setup/environment.sh
scripts/setup/packages.sh fuzz

if ! have c++; then
    say "libFuzzer needs a C++ compiler: fuzzing with random inputs instead"
    UNDERCROFT_FUZZ_INPUTS=$((seconds * 50000)) exec cargo test --release --locked \
        --package undercroft-fuzz --test brief -- --nocapture
fi

# The flags that cargo-fuzz passes for `--sanitizer none`, all of which are stable. The address
# sanitizer is unstable, and finds little in code without `unsafe`.
flags='-Cpasses=sancov-module -Ccodegen-units=1 -Cdebug-assertions --cfg fuzzing'
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    flags+=" -Cllvm-args=-sanitizer-coverage-$option"
done
# Specify the host as the target, so that these flags do not apply to build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
# Disable LTO, which conflicts with the sections of the instrumentation.
RUSTFLAGS=$flags CARGO_PROFILE_RELEASE_LTO=off cargo build --release --locked --target "$host" \
    --package undercroft-fuzz --features libfuzzer --bin libfuzzer

directories=(fuzz/seeds/*/)
[[ -z ${TARGET:-} ]] || directories=("fuzz/seeds/$TARGET/")
for directory in "${directories[@]}"; do
    target=$(basename "$directory")
    corpus=target/fuzz/$target
    mkdir -p "$corpus"
    say "fuzzing $target for $seconds s, corpus in $corpus"
    UNDERCROFT_FUZZ_TARGET=$target "target/$host/release/libfuzzer" "$corpus" "$directory" \
        -artifact_prefix="$directory" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1
done
