#!/usr/bin/env bash
# Usage: scripts/setup/environment.sh [REQUIREMENTS...]
# Checks the essential tools, and creates .venv/ with the pinned Python packages of
# scripts/setup/requirements-build.txt and of the given files. If the environment is up to date, it
# returns quickly.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/../lib.sh"

have cargo || fail "cargo is missing: install a Rust toolchain (https://rustup.rs), then run this again"
have cc || fail "a C compiler is missing; type: apt-get install build-essential"

python=${PYTHON:-python3}
have "$python" || fail "$python is missing: Python 3.11 or newer is needed; type: apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Python 3.11 or newer is needed, but $python is $("$python" --version); name another: make PYTHON=python3.12 ..."

make_venv() { "$python" -m venv --clear .venv >target/test/venv.log 2>&1; }

if [[ ! -x .venv/bin/python ]] || ! .venv/bin/python -c '' 2>/dev/null; then
    say "making .venv with $("$python" --version)"
    mkdir -p target/test
    # Debian has a separate package for the pip that a new environment needs.
    if ! make_venv && ! { ((EUID == 0)) && have apt-get && {
        apt-get update --quiet && DEBIAN_FRONTEND=noninteractive \
            apt-get install --yes --quiet --no-install-recommends python3-venv
    } </dev/null >>target/test/apt.log 2>&1 && make_venv; }; then
        cat target/test/venv.log >&2
        rm -rf .venv
        fail "cannot create .venv; on Debian type: apt-get install python3-venv"
    fi
fi

for requirements in scripts/setup/requirements-build.txt "$@"; do
    stamp=.venv/stamp-$(basename "$requirements")
    cmp --silent "$requirements" "$stamp" && continue
    say "installing $requirements"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --requirement "$requirements" </dev/null
    cp "$requirements" "$stamp"
done
