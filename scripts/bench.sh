#!/usr/bin/env bash
# Usage: scripts/bench.sh TABLE [OPTION...]
# Measures one table of bench/ on this machine, including the installed peers. QUICK=1 shortens the
# measurement. Options are passed to bench/run.py (for example, --only server).

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

table=${1:?which table: core, types, feeds, python, php, everyday, server, cache, objects, streams, scripts, growth, links, network or durable}
shift
[[ -z ${QUICK:-} ]] || set -- --quick "$@"
scripts/setup/environment.sh scripts/setup/requirements-dev.txt scripts/setup/requirements-bench.txt
scripts/setup/packages.sh bench
scripts/build.sh
say "building target/release/undercroft-bench and the C library"
cargo build --release --locked --package undercroft-bench --package undercroft-c
if [[ $table == php ]]; then
    scripts/setup/packages.sh php
    scripts/php-extension.sh build
fi
if [[ $table == cache ]]; then
    # Build the peers separately, because they are many crates that nothing else needs.
    say "building target/release/undercroft-bench-cache"
    cargo build --release --locked --manifest-path bench/cache/Cargo.toml
fi
exec .venv/bin/python bench/run.py --table "$table" "$@"
