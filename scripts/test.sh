#!/usr/bin/env bash
# Runs every test there is, each stage even when one before it failed, and ends
# with what ran, what was left out and why. Exit status 0 only if all passed.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

mkdir -p target/test
: >target/test/skipped.log
started=$SECONDS
failed=()
flaky=()
took=()

# stage NAME COMMAND...: runs it with its output shown and kept. Where nobody watches, what failed of a stage is run
# once more, as processes that are stopped and killed can meet a machine that is busy otherwise; the summary says what
# it was that passed only then.
stage() {
    local since=$SECONDS
    attempts "$@"
    took+=("$1 $((SECONDS - since)) s")
}

attempts() {
    local name=$1
    shift
    say "$name"
    "$@" </dev/null 2>&1 | tee "target/test/$name.log" && return
    words "$name" >"target/test/$name.failed"
    if [[ ${CI:-} ]]; then
        say "what failed of $name is run once more"
        cat "target/test/$name.failed"
        # shellcheck disable=SC2016 # cargo quotes them so
        mapfile -t failed_targets < <(sed -n 's/^ *`-p [^ ]* \(--.*\)`$/\1/p' "target/test/$name.log")
        if again "$@" </dev/null 2>&1 | tee -a "target/test/$name.log"; then
            flaky+=("$name")
            return
        fi
        words "$name" >"target/test/$name.failed"
    fi
    failed+=("$name")
}

# again COMMAND...: once more, of cargo's tests those programs that failed.
again() {
    if ((!${#failed_targets[@]})); then
        "$@"
        return
    fi
    local target status=0
    for target in "${failed_targets[@]}"; do
        # shellcheck disable=SC2086 # an option and its name
        "$@" $target || status=1
    done
    return "$status"
}

# What a stage that failed says about it.
words() {
    awk '/^failures:$/ { shown = 1 } /^error/ || shown; /^test result: / { shown = 0 }' "target/test/$1.log"
    tail -n 100 "target/test/$1.log"
}

rust_tests() {
    local exclude=()
    # An extension module has no interpreter to link against: pytest tests it.
    if has_python_client; then
        exclude=(--exclude "$(sed -n 's/^name *= *"\(.*\)"/\1/p' clients/python/Cargo.toml | head -n 1)")
    fi
    # Passing tests show their output too: their seeds, and what they skipped.
    cargo test --workspace --features undercroft/full --locked --no-fail-fast "${exclude[@]}" "$@" -- --show-output
}

python_tests() {
    .venv/bin/python -m pytest clients/python/tests
}

# The stubs say what the compiled module really has.
stub_tests() {
    (cd target/test && MYPYPATH='' ../../.venv/bin/stubtest --allowlist ../../scripts/stubs.allow undercroft)
}

forum_tests() {
    .venv/bin/python -m pytest examples/forum
}

readme_test() {
    .venv/bin/python scripts/readme.py
}

scripts/setup.sh scripts/requirements-dev.txt scripts/requirements-frameworks.txt
scripts/packages.sh test
scripts/build.sh

stage rust rust_tests
stage reruns scripts/reruns.sh
stage loom scripts/loom.sh
stage sanitize scripts/sanitize.sh
stage c scripts/c.sh
stage php scripts/php.sh
if has_python_client && [[ -d clients/python/tests ]]; then
    stage python python_tests
    stage oldest scripts/oldest.sh
    stage races scripts/races.sh
else
    skip "python: clients/python/tests is not written yet"
fi
if imports_undercroft; then
    stage stubs stub_tests
    stage readme readme_test
    stage forum forum_tests
    stage wheel scripts/wheel.sh
    stage programs scripts/programs.sh
else
    skip "stubs, readme, forum, wheel, programs: undercroft cannot be imported yet"
fi

# Tests skip by printing a line of this form; it is repeated here.
grep -h '^skipped: ' target/test/rust.log >>target/test/skipped.log || true

echo
say "summary, after $((SECONDS - started)) s"
joined=$(printf ', %s' "${took[@]}")
echo "stages: ${joined#, }"
grep -hE '^(tidy|fuzz|crash|storm|damage|differential|cancellation): ' target/test/rust.log || true
grep -h '^loom: ' target/test/loom.log || true
grep -hE '^(storm|second tries|C): ' target/test/c.log || true
awk '/^test result: / { passed += $4; failed += $6; ignored += $8 }
    END { printf "rust: %d passed, %d failed, %d ignored\n", passed, failed, ignored }' target/test/{rust,loom}.log
if [[ -f target/test/python.log ]] && has_python_client; then
    printf 'python: %s\n' "$(tail -n 1 target/test/python.log | tr -d '=' | xargs)"
fi
if [[ -f target/test/oldest.log ]]; then
    printf 'python with the oldest redis-py: %s\n' "$(tail -n 1 target/test/oldest.log | xargs)"
fi
grep -h '^programs: ' target/test/programs.log || true
sort -u target/test/skipped.log

# The stages go on behind a failure, so its words stand far above: they are repeated here.
for name in "${flaky[@]}"; do
    say "$name passed only the second time; the first time"
    cat "target/test/$name.failed"
done
for name in "${failed[@]}"; do
    say "$name failed"
    cat "target/test/$name.failed"
done
if ((${#failed[@]})); then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
echo "all tests passed"
