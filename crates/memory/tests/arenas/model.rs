//! Compares random transactions over several arenas in two shards with a naive twin, which models
//! the expected content.

use proptest::prelude::*;
use undercroft_memory::{Error, Segment, Transaction};

use crate::object::{Content, Object, SLOTS, both, content, create, empty};

#[derive(Clone, Debug)]
enum Step {
    Create,
    Push { length: u64 },
    Pop { count: usize },
    Overwrite,
    Transfer { slot: usize },
    Bury,
}

/// A step, with the shard and slot to which it applies.
type Move = ((usize, usize), Step);

fn step() -> impl Strategy<Value = Move> {
    let length = prop_oneof![
        6 => 3_u64..40,
        3 => 40_u64..1000,
        2 => 1000_u64..4000,
        1 => 4000_u64..20_000,
    ]
    .prop_map(|words| words * 8);
    let step = prop_oneof![
        3 => Just(Step::Create),
        12 => length.prop_map(|length| Step::Push { length }),
        5 => (1_usize..4).prop_map(|count| Step::Pop { count }),
        3 => Just(Step::Overwrite),
        3 => (0..SLOTS).prop_map(|slot| Step::Transfer { slot }),
        1 => Just(Step::Bury),
    ];
    ((0..2_usize, 0..2_usize), step)
}

/// Applies a step to a transaction and to the twin, which models the expected content.
fn apply(
    transaction: &mut Transaction<'_>,
    twin: &mut Content,
    &(place, ref step): &Move,
    mark: u64,
) -> Result<(), Error> {
    let (shard, slot) = place;
    let object = Object::at(transaction, shard, slot);
    assert_eq!(object.is_some(), twin.contains_key(&place));
    let Some(object) = object else {
        // All steps require an object, so create it first.
        Object::new(transaction, shard, slot)?;
        twin.insert(place, Vec::new());
        return Ok(());
    };
    let blocks = twin.get_mut(&place).expect("in both");
    match *step {
        Step::Create => {}
        Step::Push { length } => {
            object.push(transaction, length, mark)?;
            blocks.insert(0, (length, mark));
        }
        Step::Pop { count } => {
            for _ in 0..count {
                let popped = object.pop(transaction)?;
                assert_eq!(popped, !blocks.is_empty());
                blocks.drain(..blocks.len().min(1));
            }
        }
        Step::Overwrite => {
            object.overwrite(transaction, mark)?;
            if let Some(first) = blocks.first_mut() {
                first.1 = mark;
            }
        }
        Step::Transfer { slot: to } => {
            if Object::at(transaction, 1 - shard, to).is_none() {
                object.transfer(transaction, 1 - shard, to)?;
                let blocks = twin.remove(&place).expect("in both");
                twin.insert((1 - shard, to), blocks);
            }
        }
        Step::Bury => {
            object.bury(transaction)?;
            twin.remove(&place);
        }
    }
    Ok(())
}

/// Applies steps as one transaction and undoes some of them with a savepoint. Returns the resulting
/// twin if the transaction commits.
fn write(
    segment: &Segment,
    twin: &Content,
    steps: &[Move],
    seed: u64,
    fail: bool,
) -> Option<Content> {
    let mut after = Content::new();
    // The range of steps that are undone.
    let undone = seed as usize % 20..(seed >> 8) as usize % 20;
    let result = segment.write(both(), |transaction| {
        after = twin.clone();
        let mut kept = None;
        for (number, step) in steps.iter().enumerate() {
            if number == undone.start && number < undone.end {
                kept = Some((transaction.savepoint(), after.clone()));
            }
            let mark = seed.wrapping_add(number as u64);
            apply(transaction, &mut after, step, mark)?;
            if number == undone.end
                && let Some((savepoint, then)) = kept.take()
            {
                transaction.roll_back_to(&savepoint)?;
                after = then;
            }
        }
        if fail {
            return Err(Error::Interrupted);
        }
        Ok(())
    });
    match result {
        Ok(()) => Some(after),
        Err(Error::Interrupted) if fail => None,
        Err(Error::OutOfMemory) => None,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn arenas_agree_with_the_twin(
        transactions in prop::collection::vec(
            (prop::collection::vec(step(), 1..25), any::<u64>(), prop::bool::weighted(0.3)),
            1..40,
        ),
    ) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let path = directory.path().join("store");
        let segment = create(&path);
        let mut twin = Content::new();
        for (steps, seed, fail) in &transactions {
            if let Some(after) = write(&segment, &twin, steps, *seed, *fail) {
                twin = after;
            }
            prop_assert_eq!(&content(&segment), &twin);
        }
        drop(segment);
        let again = Segment::open(&path, true).expect("the same store");
        prop_assert_eq!(&content(&again), &twin);
        empty(&again);
    }
}
