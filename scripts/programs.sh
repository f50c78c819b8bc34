#!/usr/bin/env bash
# Usage: scripts/programs.sh [--only NAME] [--write]
# Runs the programs of conformance/programs on redis-server, on `undercroft serve` and embedded,
# each in its language's environment. Missing or stale environments are created in target/programs/.
# An environment that cannot be created is skipped with a message. Options are passed to
# conformance/programs/run.py.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

scripts/setup/packages.sh test
if ! have redis-server; then
    skip "programs: redis-server is not installed"
    exit 0
fi
built
programs=conformance/programs
places=target/programs
mkdir -p "$places" target/test

# environment NAME MAKE FILE...: unless the environment that these files describe is up to date,
# runs MAKE with its directory to create it.
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

version_node() { node --version; }
make_node() {
    cp "${@:2}" "$1" && (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund)
}

version_go() { go version; }
make_go() {
    (cd "$programs/go" && go build -o "$root/$1/" ./...)
}

version_java() { java -version 2>&1; }
make_java() {
    mvn --quiet --batch-mode --file "$programs/java/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$root/$1/jars" &&
        javac -nowarn -d "$1/classes" -cp "$1/jars/*" "$programs"/java/*.java
}

version_ruby() { ruby --version; }
# Use the system's packages. Nothing is created, but the versions must match.
make_ruby() {
    ruby -e 'File.read(ARGV[0]).scan(/^gem "(.*)", "(.*)"/) { |name, version| gem name, version }' "$2"
}

version_php() { php -r 'echo PHP_VERSION, phpversion("redis");'; }
# Use the system's extension. Nothing is created, but its version must match.
make_php() {
    grep --quiet --fixed-strings "\"$(php -r 'echo phpversion("redis");')\"" "$2"
}

# language NAME PROGRAMS TOOL...: succeeds if the tools that this language's programs need are
# installed. Without these tools, even an existing environment is useless.
language() {
    local name=$1 those=$2 tool
    for tool in "${@:3}"; do
        have "$tool" && continue
        skip "programs: $those: $tool is not installed"
        rm -rf "${places:?}/$name"
        return 1
    done
}

for requirements in "$programs"/python/requirements-*.txt; do
    name=$(basename "$requirements" .txt)
    environment "${name#requirements-}" python "$requirements"
done
if language node "BullMQ, connect-redis, ioredis" node npm; then
    environment node node "$programs"/node/package.json "$programs"/node/package-lock.json
fi
if language go "Asynq, Machinery, go-redis" go; then
    environment go go "$programs"/go/go.mod "$programs"/go/go.sum "$programs"/go/*/*.go
fi
if language php "phpredis" php; then
    environment php php "$programs"/php/composer.json
fi
if language ruby "Sidekiq" ruby; then
    environment ruby ruby "$programs"/ruby/Gemfile
fi
if language java "Redisson" java javac mvn; then
    environment java java "$programs"/java/pom.xml "$programs"/java/*.java
fi

exec .venv/bin/python "$programs/run.py" "$@"
