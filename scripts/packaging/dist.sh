#!/usr/bin/env bash
# Builds a wheel and a source distribution in target/dist/. The wheel is for Linux on x86-64, glibc
# 2.17 or newer, and CPython 3.11 or newer. Maturin checks that the wheel needs no library that such
# a system lacks; then both are installed and tried.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

scripts/setup/environment.sh scripts/setup/requirements-dist.txt
rm -rf target/dist
# Maturin looks for zig as a module of the first Python in PATH.
export PATH="$VIRTUAL_ENV/bin:$PATH"

say "building the wheel"
.venv/bin/maturin build --release --locked --zig --compatibility manylinux2014 --auditwheel check \
    --target x86_64-unknown-linux-gnu --manifest-path clients/python/Cargo.toml --out target/dist
# `pip install ./clients/python` reuses this wheel.
.venv/bin/python clients/python/backend/undercroft_backend.py target/dist/*.whl
say "building the source distribution"
.venv/bin/maturin sdist --manifest-path clients/python/Cargo.toml --out target/dist

for made in target/dist/*; do
    scripts/packaging/installed.sh "$made"
done
ls -l target/dist
