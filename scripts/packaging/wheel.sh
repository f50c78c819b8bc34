#!/usr/bin/env bash
# Builds a wheel for this machine, without fail points and debug assertions, and tests it in an
# empty environment. `make dist` builds a wheel for other machines.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

rm -rf target/test/wheel
.venv/bin/maturin build --profile quick --locked --quiet --compatibility linux \
    --manifest-path clients/python/Cargo.toml --out target/test/wheel
scripts/packaging/installed.sh target/test/wheel/*.whl

say "installing the checkout without cargo, from the wheel that was just built"
.venv/bin/python clients/python/backend/undercroft_backend.py target/test/wheel/*.whl
place=target/test/without-cargo
rm -rf "$place"
mkdir -p "$place/programs"
ln -s "$(command -v git)" "$place/programs/git"
.venv/bin/python -m venv "$place/environment"
python=$root/$place/environment/bin/python
PATH=$root/$place/programs "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
    ./clients/python </dev/null
[[ $("$python" -m undercroft --version) == undercroft\ * ]] || fail "the kept wheel does not work"
