#!/usr/bin/env bash
# Builds a wheel and a source distribution in target/dist/. The wheel is for Linux on x86-64, glibc
# 2.17 or newer, and CPython 3.11 or newer. Maturin checks that the wheel needs no library that such
# a system lacks. Finally both distributions are installed and tested.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

scripts/setup/environment.sh scripts/setup/requirements-dist.txt
rm -rf target/dist
# Maturin searches for zig as a module of the first Python in PATH.
export PATH="$VIRTUAL_ENV/bin:$PATH"

say "building the wheel"
.venv/bin/maturin build --release --locked --zig --compatibility manylinux2014 --auditwheel check \
    --target x86_64-unknown-linux-gnu --manifest-path clients/python/Cargo.toml --out target/dist
# Cache the wheel, so that `pip install ./clients/python` reuses it.
.venv/bin/python clients/python/backend/undercroft_backend.py target/dist/*.whl
say "building the source distribution"
.venv/bin/maturin sdist --manifest-path clients/python/Cargo.toml --out target/dist

for made in target/dist/*; do
    scripts/packaging/installed.sh "$made"
done
ls -l target/dist
