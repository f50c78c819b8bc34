#!/usr/bin/env bash
# Runs the Rust tests with the first run of every write rolled back, so that whatever a run
# leaves to the next one is in some test's way. Those that count runs or steps are left out, and those of what a
# library's local variables keep: a run that is started again finds there what the first one has left. What is given as arguments
# chooses among cargo's targets.

# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

counting=(the_work_of_ death_at_every_undo_log_step a_whole_list_goes_and_moves_in_as_many_steps
    a_sorted_set_moves_to_an_arena kept_locals::)
export UNDERCROFT_RERUN=1
exec cargo test --workspace --features undercroft/full --locked --no-fail-fast --exclude undercroft-python \
    --exclude undercroft-memory --exclude undercroft-testkit "${@:---tests}" -- "${counting[@]/#/--skip=}"
