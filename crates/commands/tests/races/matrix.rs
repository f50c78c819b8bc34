//! Tests every command for every pair of states.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use undercroft_commands::table::{Command, Flag, Group, with_subcommands};
use undercroft_testkit::fresh;
use undercroft_testkit::race::{
    Answers, CASES, Case, Family, Interruption, OTHERS, Stage, World, words,
};

use crate::is_full;
use crate::runner::{Outcome, Runner, stage};

/// The number of attempts after which a read acquires the lock.
const TRIES: usize = 64;

pub(crate) fn command(case: &Case) -> &'static Command {
    with_subcommands()
        .find(|command| command.name == case.command)
        .unwrap_or_else(|| panic!("expected a command, got {}", case.command))
}

#[test]
fn every_key_reading_command_has_a_case() {
    let has_case = |name: &str| CASES.iter().any(|case| case.command == name);
    for command in with_subcommands() {
        let reads = command.flags.has(Flag::ReadOnly) || !command.keys.is_empty();
        // Channels count as keys only in cluster mode.
        let is_key = command.group != Group::Pubsub;
        if reads && is_key && command.subcommands.is_empty() {
            let (case, other) = (has_case(command.name), OTHERS.contains(&command.name));
            assert!(case || other, "{} has no case", command.name);
            assert!(!(case && other), "{} has a case", command.name);
        }
    }
    for case in CASES {
        let name = command(case).name;
        let first = name.replace('|', " ");
        for line in case.lines {
            assert!(line.to_lowercase().starts_with(&first), "{line} of {name}");
        }
    }
}

/// Returns the family of states that matter to a command, or `None` if states of all families do.
pub(crate) fn family(command: &Command) -> Option<Family> {
    match command.group {
        Group::String | Group::Bitmap | Group::Hyperloglog => Some(Family::String),
        Group::List => Some(Family::List),
        Group::Hash => Some(Family::Hash),
        Group::Set => Some(Family::Set),
        Group::SortedSet | Group::Geo => Some(Family::Sorted),
        Group::Feed => Some(Family::Feed),
        Group::Stream => Some(Family::Stream),
        _ => None,
    }
}

/// Returns the states in which a command is tested.
fn relevant(stage: &Stage, family: Option<Family>) -> Vec<usize> {
    let states = stage.states.iter().enumerate();
    let relevant = states.filter(|(_, state)| {
        state.is_usual
            || state.family == Family::Absent
            || family.is_none_or(|family| state.family == family)
    });
    relevant.map(|(index, _)| index).collect()
}

/// Returns the pairs of worlds (the states of the keys) between which the store switches during a
/// call.
pub(crate) fn pairs(stage: &Stage, line: &str, family: Option<Family>) -> Vec<(World, World)> {
    let states = relevant(stage, family);
    let usual = stage.states.iter().rposition(|state| {
        state.is_usual && state.expires.is_none() && family.is_none_or(|f| state.family == f)
    });
    let usual = usual.expect("a usual state of each family");
    let mut pairs = Vec::new();
    for &from in &states {
        for &to in &states {
            if !line.contains(" j") {
                pairs.push(([from, 0], [to, 0]));
            } else if family.is_some() {
                pairs.push(([from, from], [to, to]));
                pairs.push(([from, usual], [to, usual]));
                pairs.push(([usual, from], [usual, to]));
            } else {
                pairs.push(([from, usual], [to, usual]));
            }
        }
    }
    pairs
}

/// Compares replies with those to undisturbed calls, and collects the differences.
struct Judge<'s> {
    stage: &'s Stage,
    runner: Runner,
    fresh: HashMap<(World, &'static str), Rc<Outcome>>,
    /// The number of wrong replies to each command, and the first wrong reply.
    wrong: BTreeMap<&'static str, (u64, String)>,
    calls: u64,
}

impl<'s> Judge<'s> {
    fn new(stage: &'s Stage, write: bool) -> Judge<'s> {
        Judge {
            stage,
            runner: Runner::new(stage, write),
            fresh: HashMap::new(),
            wrong: BTreeMap::new(),
            calls: 0,
        }
    }

    fn fresh(&mut self, world: World, line: &'static str, writes: bool) -> Rc<Outcome> {
        if let Some(outcome) = self.fresh.get(&(world, line)) {
            return outcome.clone();
        }
        self.stage.enter(world);
        self.stage.calm();
        let (outcome, _) = self.runner.call(&words(line), self.stage, writes);
        let outcome = Rc::new(outcome);
        self.fresh.insert((world, line), outcome.clone());
        outcome
    }

    /// Runs a call while the store switches from one world (the states of the keys) to the next.
    /// Returns how often the store changed. The reply must equal the reply to an undisturbed call
    /// on the last world, or on one of `others`.
    fn judge(
        &mut self,
        case: &Case,
        line: &'static str,
        from: World,
        interruption: Interruption,
        others: &[World],
    ) -> u64 {
        let writes = !command(case).flags.has(Flag::ReadOnly);
        let to = match &interruption {
            Interruption::Tries(_, worlds) => *worlds.last().unwrap_or(&from),
            Interruption::Look(_, world) => *world,
        };
        self.stage.enter(from);
        self.stage.interrupt(interruption.clone());
        let (outcome, changes) = self.runner.call(&words(line), self.stage, writes);
        self.calls += 1;
        if changes == 0 {
            return 0;
        }
        let mut is_right = false;
        let mut expected = None;
        for &world in std::iter::once(&to).chain(others) {
            let fresh = self.fresh(world, line, writes);
            let all = match case.answers {
                Answers::Random(all) => Some(self.fresh(world, all, false)),
                Answers::Exact | Answers::Unordered | Answers::Size => None,
            };
            is_right |= outcome.is_as(&fresh, case.answers, all.as_deref());
            expected.get_or_insert(fresh);
        }
        if let Some(expected) = expected.filter(|_| !is_right) {
            let names = (self.stage.name(from), self.stage.name(to));
            let wrong = self.wrong.entry(case.command).or_default();
            wrong.0 += 1;
            if wrong.1.is_empty() {
                let how = format!("{interruption:?}");
                let how: String = how.chars().take(40).collect();
                wrong.1 = format!(
                    "{line}, {} to {}, {how}: expected {}, got {}",
                    names.0,
                    names.1,
                    expected.unlike(&outcome),
                    outcome.unlike(&expected)
                );
            }
        }
        changes
    }

    fn verdict(&self, what: &str, seed: u64) {
        println!("races: {} calls, {what}; seed {seed}", self.calls);
        let wrong: Vec<String> = self
            .wrong
            .iter()
            .map(|(command, (count, first))| format!("\n{command}: {count} answers, first {first}"))
            .collect();
        assert!(
            wrong.is_empty(),
            "wrong answers (seed {seed}):{}",
            wrong.concat()
        );
    }
}

/// Calls `run` for each case and line, with random pairs of worlds (the states of the keys). A full
/// run uses more pairs. If `UNDERCROFT_SCENARIO` is set, only commands whose names contain its
/// value are tested.
fn each(
    stage: &Stage,
    random: &mut fastrand::Rng,
    [some, most]: [usize; 2],
    mut run: impl FnMut(&'static Case, &'static str, &[(World, World)]),
) {
    let picked = std::env::var("UNDERCROFT_SCENARIO").unwrap_or_default();
    for case in CASES.iter().filter(|case| case.command.contains(&picked)) {
        for line in case.lines {
            let mut pairs = pairs(stage, line, family(command(case)));
            random.shuffle(&mut pairs);
            pairs.truncate(if is_full() { most } else { some });
            run(case, line, &pairs);
        }
    }
}

/// Discards each read of a call once.
#[test]
fn discarded_read_leaves_no_trace_in_the_reply() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = stage(4);
    let mut judge = Judge::new(&stage, true);
    let mut interrupted = HashSet::new();
    each(
        &stage,
        &mut random,
        [24, usize::MAX],
        |case, line, pairs| {
            judge.fresh.clear();
            for &(from, to) in pairs {
                for first in 0.. {
                    let others: &[World] = if first == 0 { &[] } else { &[from] };
                    let tries = Interruption::Tries(first, vec![to]);
                    if judge.judge(case, line, from, tries, others) == 0 {
                        break;
                    }
                    interrupted.insert(case.command);
                }
            }
        },
    );
    for case in CASES {
        let reads = command(case).flags.has(Flag::ReadOnly);
        let reads = reads && std::env::var_os("UNDERCROFT_SCENARIO").is_none();
        let was = interrupted.contains(case.command);
        assert!(was || !reads, "{} read nothing", case.command);
    }
    judge.verdict("each read thrown away once", seed);
}

/// Discards several attempts of a read, or enough of them that the read acquires the lock.
#[test]
fn many_discarded_tries_leave_no_trace_in_the_reply() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = stage(4);
    let mut judge = Judge::new(&stage, true);
    let mut reader = Judge::new(&stage, false);
    each(&stage, &mut random.fork(), [8, 100], |case, line, pairs| {
        judge.fresh.clear();
        reader.fresh.clear();
        for (index, &(from, to)) in pairs.iter().enumerate() {
            let (others, _): (Vec<World>, Vec<World>) = pairs.iter().copied().unzip();
            let mut several: Vec<World> = (0..3)
                .map(|_| others[random.usize(..others.len())])
                .collect();
            several.push(to);
            judge.judge(case, line, from, Interruption::Tries(0, several), &[]);
            let in_turns = |count: usize| (0..count).map(|at| [from, to][at % 2]).collect();
            if index % 4 == 0 {
                // The shards are locked after the last of these attempts, or earlier if much data
                // has been read without success (R10).
                judge.judge(
                    case,
                    line,
                    from,
                    Interruption::Tries(0, in_turns(TRIES)),
                    &[from],
                );
            }
            if index % 4 == 1 && command(case).flags.has(Flag::ReadOnly) {
                // A read-only handle cannot acquire the lock, so it retries until it succeeds.
                let tries = Interruption::Tries(0, in_turns(TRIES + 6));
                reader.judge(case, line, from, tries, &[]);
            }
        }
    });
    judge.verdict("several tries thrown away, or all of them", seed);
    reader.verdict("the same by handles that only read", seed);
}

/// Changes the store before a heap access of a read, so that the read is torn. Repeats this for up
/// to 12 of the read's heap accesses.
#[test]
fn torn_read_leaves_no_trace_in_the_reply() {
    const LOOKS: u64 = 12;
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = stage(4);
    let mut judge = Judge::new(&stage, true);
    each(&stage, &mut random.fork(), [5, 100], |case, line, pairs| {
        judge.fresh.clear();
        if !command(case).flags.has(Flag::ReadOnly) {
            return;
        }
        for &(from, to) in pairs {
            stage.enter(from);
            stage.interrupt(Interruption::Look(u64::MAX, to));
            let (_, looks) = judge.runner.count(&words(line), &stage);
            // Change the store before every heap access, or before a sample spread over all heap
            // accesses.
            let step = looks.div_ceil(LOOKS).max(1);
            for part in 0..looks.div_ceil(step) {
                let look = part * step + random.u64(0..step);
                judge.judge(case, line, from, Interruption::Look(look, to), &[from]);
            }
        }
    });
    judge.verdict("each torn in the middle", seed);
}
