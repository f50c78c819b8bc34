#!/usr/bin/env bash
# Usage: scripts/c.sh [storm]
# Installs the C library into target/test/c and tests it there: the exported symbols, every program
# in clients/c/tests as C11, as C++17, with sanitizers and under valgrind, a storm of kill -9,
# changes during reads, and the examples. UNDERCROFT_SEED repeats a storm. With `storm`, it runs
# only the storm, with ten times as many kills, and tests children that are forked under load.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

place=$root/target/test/c
rm -rf "$place"
mkdir -p "$place/bin"
stores=$(mktemp -d /dev/shm/undercroft-c-XXXXXX)
trap 'rm -rf "$stores"' EXIT

built
PREFIX=/usr BUILT=target/debug DESTDIR=$place scripts/packaging/install.sh
export PKG_CONFIG_SYSROOT_DIR=$place PKG_CONFIG_PATH=$place/usr/lib/pkgconfig
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export LD_LIBRARY_PATH=$place/usr/lib
have pkg-config && read -ra flags <<<"$(pkg-config --cflags --libs undercroft)"
# If pkg-config is not installed, use its usual output.
[[ ${flags[*]:-} ]] || flags=("-I$place/usr/include" "-L$place/usr/lib" -lundercroft)
warnings=(-Wall -Wextra -Werror -pedantic -g -O1)
c=(cc -std=c11 -D_GNU_SOURCE)
cpp=(c++ -x c++ -std=c++17)

# build LANGUAGE... -- SOURCE PROGRAM OPTION...: compiles a source into a program.
build() {
    local compiler=()
    while [[ $1 != -- ]]; do
        compiler+=("$1")
        shift
    done
    "${compiler[@]}" "${warnings[@]}" "${@:4}" -o "$place/bin/$3" "$2" "${flags[@]}" -pthread
}

# try PROGRAM ARGUMENT...: runs a program on a new store, with the command in $by.
by=()
try() {
    rm -f "$stores/store"
    "${by[@]}" "$place/bin/$1" "$stores/store" "${@:2}" || fail "$1 failed${by[0]:+, by ${by[0]}}"
}

# storm KILLS: runs three writing and three reading programs, and kills them one after another.
storm() {
    say "kill -9"
    build "${c[@]}" -- clients/c/tests/robustness/storm.c storm
    try storm "$1" "${UNDERCROFT_SEED:-$RANDOM}"
    target/debug/undercroft check --store "$stores/store"
}

fork_load() {
    say "children forked under load"
    # Run without the address sanitizer: a fork during other threads' calls can copy its internal
    # locks while they are locked.
    build "${c[@]}" -- clients/c/tests/robustness/fork_load.c fork_load
    try fork_load
}

if [[ ${1:-} == storm ]]; then
    storm 2000
    fork_load
    exit
fi

say "exported names"
wanted=clients/c/tests/exports.txt
library=$place/usr/lib/libundercroft.so
exported() { nm "$@" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort; }
# The feature `races` adds two functions, which release builds do not export.
with_races=$place/exports.txt
printf '%s\n' uc_test_change_reads uc_test_panic | cat "$wanted" - | LC_ALL=C sort >"$with_races"
exported --dynamic --defined-only "$library" |
    diff "$with_races" - || fail "the shared library exports other names than $wanted"
grep -o 'uc_[a-z_]*(' <(grep -vE '^(static|typedef| \*|/\*)' clients/c/undercroft.h) | tr -d '(' | LC_ALL=C sort -u |
    diff "$wanted" - || fail "clients/c/undercroft.h declares other names than $wanted"
sed -n 's/^SAME([^,]*, \(uc_[a-z_]*\),.*/\1/p' clients/c/tests/signatures.c | LC_ALL=C sort |
    diff "$wanted" - || fail "clients/c/tests/signatures.c checks other names than $wanted"
readelf --dynamic "$library" | grep -q 'SONAME.*\[libundercroft\.so\.0\]' || fail "expected the soname libundercroft.so.0"

tests=(signatures abi calls/{strings,feeds,objects,channels,commands,misuse,messages,limits,waiting,taking}
    robustness/{removed,busy,fork,threads,durable})
say "as C11, as C++17, with sanitizers"
have c++ || skip "the C tests as C++: c++ is not installed"
for source in "${tests[@]}"; do
    test=${source##*/}
    source=clients/c/tests/$source.c
    build "${c[@]}" -- "$source" "$test"
    try "$test"
    build "${c[@]}" -- "$source" "$test-sanitized" -fsanitize=address,undefined -fno-sanitize-recover=all
    try "$test-sanitized"
    if have c++; then
        build "${cpp[@]}" -- "$source" "$test-c++"
        try "$test-c++"
    fi
done

say "at the end of a thread and of the process"
build "${c[@]}" -- clients/c/tests/robustness/ends.c ends
try ends
build "${c[@]}" -- clients/c/tests/robustness/ends.c ends-sanitized -fsanitize=address,undefined -fno-sanitize-recover=all
# Disable leak detection: memory that a thread allocates after its destructors have run is never
# freed.
ASAN_OPTIONS=detect_leaks=0 try ends-sanitized

fork_load

say "without memory"
# Run without sanitizers, which need a lot of address space.
build "${c[@]}" -- clients/c/tests/robustness/memory.c memory
try memory

say "with German numbers"
if have localedef && localedef --no-archive -i de_DE -f UTF-8 "$place/de_DE.UTF-8" 2>/dev/null; then
    build "${c[@]}" -- clients/c/tests/robustness/locale.c locale
    LOCPATH=$place LC_ALL=de_DE.UTF-8 try locale
else
    skip "the C library in a program with German number format: localedef or de_DE is not installed"
fi

say "with the static library"
exported --defined-only --extern-only "$place/usr/lib/libundercroft.a" |
    diff "$with_races" - || fail "the static library exports other names than $wanted"
# Link a program with its own Lua, allocators and Rust library.
echo 'int lua_newstate, luaL_openlibs, rust_eh_personality, mi_malloc, ZSTD_compress, LZ4_compress_default;' \
    >"$place/others.c"
static=("${flags[@]/-lundercroft/-l:libundercroft.a}")
"${c[@]}" "${warnings[@]}" -o "$place/bin/static" clients/c/tests/calls/strings.c "$place/others.c" "${static[@]}" -lm -ldl -lrt -pthread
LD_LIBRARY_PATH='' try static

if have valgrind; then
    say "under valgrind"
    # Omit some tests: valgrind runs one thread at a time, so tests whose threads poll for each
    # other's progress take minutes. A process that is stopped under valgrind may hold valgrind's
    # own locks.
    by=(valgrind --quiet --error-exitcode=9 --leak-check=full "--show-leak-kinds=definite,indirect"
        "--errors-for-leak-kinds=definite,indirect")
    for test in strings feeds objects channels commands misuse messages limits removed waiting; do
        try "$test"
    done
    by=()
else
    skip "the C tests under valgrind: valgrind is not installed"
fi

say "the conformance cases"
build "${c[@]}" -- clients/c/tests/bridge.c bridge
target/debug/conform through conformance/clients/c.txt "$place/bin/bridge" | grep -v ^skipped: ||
    fail "the conformance cases failed through the C library"

storm "${UNDERCROFT_C_KILLS:-200}"

say "changes during reads, writes that run twice"
build "${c[@]}" -- clients/c/tests/robustness/second_try.c second_try
# Suppress the backtrace, because the test panics on purpose.
RUST_BACKTRACE=0 try second_try
export UNDERCROFT_RERUN=1
for test in "${tests[@]##*/}"; do
    try "$test"
done
unset UNDERCROFT_RERUN

# sorted COMMAND...: runs a command and sorts its output by the numbers in it.
sorted() { "$@" | sort -V; }

# expect TEXT COMMAND...: runs an example that must print this text.
expect() {
    local printed
    printed=$("${@:2}") || fail "$2 failed"
    diff <(printf '%s\n' "$1") <(printf '%s\n' "$printed") || fail "$2 printed unexpected output"
}

say "examples"
for example in cache jobs; do
    build "${c[@]}" -- "examples/c/$example.c" "$example"
    ! have c++ || build "${cpp[@]}" -- "examples/c/$example.c" "$example-c++"
done
rm -f "$stores/store"
expect $'made:  <h1>Page 7</h1>\nfound: <h1>Page 7</h1>' "$place/bin/cache" "$stores/store" 7
expect "$(printf 'done: job %d\n' {1..12})" sorted "$place/bin/jobs" "$stores/store"
# The first program in the guide must equal the first program in the header.
awk '/^```$/ { exit } shown; /^```c$/ { shown = 1 }' docs/c.md >"$place/first.c"
sed -n 's/^ \*     \(#include <stdio\.h>\)$/\1/; /^#include <stdio/,/^ \*     }$/ { s/^ \*     //; s/^ \*$//; p }' \
    clients/c/undercroft.h >"$place/header.c"
diff "$place/first.c" "$place/header.c" || fail "docs/c.md and clients/c/undercroft.h must begin with the same program"
sed -i "s|undercroft://demo|$stores/first|" "$place/first.c"
build "${c[@]}" -- "$place/first.c" first
expect hello "$place/bin/first"

say "the samples of the documentation, each twice"
mkdir "$place/samples"
while read -r page; do
    awk -v name="$place/samples/${page//\//-}" \
        '/^```$/ { shown = 0 } shown { print > (name "-" count ".c") } /^```c$/ { shown = 1; count++ }' "$page"
done < <(git ls-files '*.md')
target/debug/undercroft exec --create --store "$stores/samples" RPUSH queue first second
samples=0
for sample in "$place"/samples/*.c; do
    sed -i "s|undercroft://[a-z]*|$stores/samples|" "$sample"
    # If a sample is only part of a program, add an open store and the names that samples assume.
    code=$(<"$sample")
    [[ $code == *$'\nint main('* ]] || cat >"$sample" <<SAMPLE
#include <stdio.h>
#include <string.h>
#include <undercroft.h>
char buffer[64], frame[] = "a frame";
size_t length, frame_length = sizeof frame;
void send_to_somebody(const char *id) { (void)id; }
void show(const void *data, size_t size) { printf("%.*s\n", (int)size, (const char *)data); }
int main(void)
{
uc_store *store;
if (uc_open("$stores/samples", NULL, &store) != UC_OK)
    return 1;
$code
}
SAMPLE
    build "${c[@]}" -- "$sample" sample
    expect "$("$place/bin/sample")" "$place/bin/sample"
    samples=$((samples + 1))
done
((samples >= 5)) || fail "expected the five samples in C of README.md and docs/c.md, found $samples"
if have go && have pkg-config; then
    (cd examples/go && GOTOOLCHAIN=local GOFLAGS=-mod=mod go build -o "$place/bin/go" .)
    expect $'hello from Go\n1000 bytes, true\n8000\nERR value is not an integer or out of range' \
        "$place/bin/go" "$stores/store"
else
    skip "the example in Go: go or pkg-config is not installed"
fi
# Only the download may fail, if the network is unavailable.
if have npm && cp -R examples/node "$place/node" &&
    (cd "$place/node" && npm install --no-audit --no-fund --loglevel=error); then
    LIBRARY=$library expect \
        $'hello from Node\n1000 bytes, true\n1000\na b c\nERR value is not an integer or out of range' \
        node "$place/node/main.mjs" "$stores/store"
else
    skip "the example in Node: npm is not installed, or koffi cannot be downloaded"
fi
echo "C: ${#tests[@]} programs passed"
