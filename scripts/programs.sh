#!/usr/bin/env bash
# Usage: scripts/programs.sh [--only NAME] [--write]
# Runs the programs of conformance/programs on redis-server, on `undercroft serve` and embedded, each
# in the environment of its language; these are made in target/programs/ where they are missing or
# stale. What cannot be made is skipped with a word. Options go to conformance/programs/run.py.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup.sh
scripts/packages.sh test
if ! have redis-server; then
    skip "programs: no redis-server here"
    exit 0
fi
scripts/build.sh
programs=conformance/programs
places=target/programs
mkdir -p "$places" target/test

# environment NAME MAKE FILE...: has MAKE, which is given the place, make an environment that these
# files describe, unless it was made of the same already.
environment() {
    local name=$1 make=$2 place=$places/$1 log=target/test/programs-$1.log
    shift 2
    stamp() { cat "$@" && "version_$make"; }
    if cmp --silent <(stamp "$@") "$place/stamp" && { [[ $make != python ]] || "$place/bin/python" -c ''; }; then
        return
    fi
    say "making $place"
    rm -rf "$place"
    mkdir -p "$place"
    if "make_$make" "$place" "$@" </dev/null >"$log" 2>&1; then
        stamp "$@" >"$place/stamp"
    else
        skip "programs: $name: could not be installed, see $log"
    fi
}

version_python() { .venv/bin/python --version; }
make_python() {
    .venv/bin/python -m venv "$1" &&
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$2"
}

for requirements in "$programs"/python/requirements-*.txt; do
    name=$(basename "$requirements" .txt)
    environment "${name#requirements-}" python "$requirements"
done

exec .venv/bin/python "$programs/run.py" "$@"
