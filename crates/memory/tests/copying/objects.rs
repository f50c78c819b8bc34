//! Blocks of all sizes in a store, and operations on them. Each root of a shard refers either to a
//! block, whose first word is its length in bytes, or to an arena that contains one block.

use std::path::Path;

use undercroft_memory::{Error, Offset, Options, Pool, Segment, ShardSet, Transaction, View};

pub(crate) const SHARDS: usize = 4;
/// The number of roots that refer to a block. An even root refers to a block of the shard, and an
/// odd root to a block in an arena.
pub(crate) const ROOTS: usize = 48;

pub(crate) fn create(path: &Path, capacity: u64) -> Segment {
    let options = Options {
        capacity: Some(capacity),
        shards: Some(SHARDS),
        ring: None,
    };
    Segment::create(path, &options).expect("a new store")
}

/// Returns the block to which a root refers.
fn block(view: &View<'_>, shard: usize, root: usize) -> Result<Option<(Pool, Offset)>, Error> {
    let at = view.root(shard, root);
    if at == 0 {
        return Ok(None);
    }
    if root.is_multiple_of(2) {
        return Ok(Some((shard.into(), at)));
    }
    Ok(Some((Pool::new(shard, at), view.arena_note(at)?)))
}

/// Everything to which the roots refer, as shard, root and bytes.
pub(crate) type Content = Vec<(usize, usize, Vec<u8>)>;

pub(crate) fn content_of(view: &View<'_>) -> Result<Content, Error> {
    let mut content = Content::new();
    for (shard, root) in places() {
        if let Some((_, at)) = block(view, shard, root)? {
            let mut bytes = Vec::new();
            view.append_to(at, view.word(at)?, &mut bytes)?;
            content.push((shard, root, bytes));
        }
    }
    Ok(content)
}

pub(crate) fn content(segment: &Segment) -> Content {
    segment
        .read(segment.all_shards(), content_of)
        .expect("a sound store")
}

fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..SHARDS).flat_map(|shard| (0..ROOTS).map(move |root| (shard, root)))
}

/// Checks that the store is consistent and that every block is reachable.
pub(crate) fn check(segment: &Segment) {
    let report = segment
        .check(|shard, view, reach, _| {
            for root in 0..ROOTS {
                if let Some((pool, at)) = block(view, shard, root).expect("a block") {
                    reach(at);
                    if pool.arena() != 0 {
                        reach(pool.arena());
                    }
                }
            }
        })
        .expect("a check");
    assert_eq!(report.problems, Vec::<String>::new());
}

fn text(random: &mut fastrand::Rng, length: u64) -> Vec<u8> {
    let mut bytes = vec![random.u8(..); length as usize];
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    let last = length as usize - 1;
    bytes[last] = random.u8(..);
    bytes
}

fn free(transaction: &mut Transaction<'_>, shard: usize, root: usize) -> Result<(), Error> {
    if let Some((pool, at)) = block(transaction.view(), shard, root)? {
        match pool.arena() {
            0 => transaction.free(pool, at),
            _ => transaction.bury_arena(pool),
        }
        transaction.set_root(shard, root, 0)?;
    }
    Ok(())
}

fn put(
    transaction: &mut Transaction<'_>,
    (shard, root): (usize, usize),
    bytes: &[u8],
) -> Result<(), Error> {
    free(transaction, shard, root)?;
    if root.is_multiple_of(2) {
        let at = transaction.allocate(shard, bytes.len() as u64)?;
        transaction.fill(at, bytes)?;
        return transaction.set_root(shard, root, at);
    }
    let pool = transaction.create_arena(shard)?;
    let at = transaction.allocate(pool, bytes.len() as u64)?;
    // Fill the block in pieces: a word, zeros, a copied range and the rest.
    let first = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    transaction.fill_word(at, first)?;
    transaction.fill_zero(at + 8, 8)?;
    transaction.fill_slack(shard, at + 16, &bytes[16..])?;
    transaction.fill_from(at + 8, at + 16, 8)?;
    transaction.set_arena_note(pool, at)?;
    transaction.set_root(shard, root, pool.arena())
}

/// Makes a random change, either in a transaction or outside one.
pub(crate) fn change(segment: &Segment, random: &mut fastrand::Rng) {
    let place = (random.usize(..SHARDS), random.usize(..ROOTS));
    let (shard, root) = place;
    let length = match random.u32(..10) {
        0..6 => random.u64(3..60) * 8,
        6..8 => random.u64(60..500) * 8,
        8 => random.u64(500..4000) * 8,
        _ => random.u64(4000..20_000) * 8,
    };
    let bytes = text(random, length);
    let kind = random.u32(..100);
    let one = ShardSet::one(shard);
    let changed = match kind {
        0..40 => segment.write(one, |transaction| put(transaction, place, &bytes)),
        40..60 => segment.write(one, |transaction| free(transaction, shard, root)),
        // Change a block in place: first a word in the middle, then a longer range.
        60..75 => segment.write(one, |transaction| {
            let Some((_, at)) = block(transaction.view(), shard, root)? else {
                return Ok(());
            };
            let length = transaction.view().word(at)?;
            transaction.store(shard, at + length / 16 * 8, 0x5555)?;
            let end = &bytes[8..bytes.len().min(length as usize) / 8 * 8];
            transaction.write(shard, at + 8, end)
        }),
        // Roll a change back, completely or in part.
        75..80 => {
            let undone = segment.write(one, |transaction| {
                put(transaction, place, &bytes)?;
                Err::<(), _>(Error::Interrupted)
            });
            assert!(matches!(undone, Err(Error::Interrupted)), "{undone:?}");
            Ok(())
        }
        80..85 => segment.write(one, |transaction| {
            let savepoint = transaction.savepoint();
            put(transaction, place, &bytes)?;
            transaction.roll_back_to(&savepoint)?;
            put(transaction, (shard, (root + 2) % ROOTS), &bytes)
        }),
        85..90 => stage(segment, (shard, root / 2 * 2), &bytes),
        // Move a block to another shard, if possible without copying it.
        90..95 => {
            let to = (shard + 1) % SHARDS;
            let both = [shard, to].into_iter().collect();
            segment.write(both, |transaction| {
                let Some((pool, at)) = block(transaction.view(), shard, root)? else {
                    return Ok(());
                };
                free(transaction, to, root)?;
                if pool.arena() != 0 {
                    let moved = transaction.transfer_arena(pool, to)?;
                    transaction.store(to, at, transaction.view().word(at)?)?;
                    transaction.set_root(to, root, moved.arena())?;
                } else if transaction.transfer(at, shard, to)? {
                    transaction.set_root(to, root, at)?;
                } else {
                    return Ok(());
                }
                transaction.set_root(shard, root, 0)
            })
        }
        // Empty a shard in one step.
        95 => segment.write(one, |transaction| {
            if transaction.leave_behind(shard, 1)? {
                for root in 0..ROOTS {
                    transaction.set_root(shard, root, 0)?;
                }
            }
            Ok(())
        }),
        96..98 => {
            while segment
                .free_remains(shard, std::time::Duration::from_secs(1))
                .expect("room")
            {}
            segment.give_back(shard).map(drop)
        }
        // Return as much free memory as possible to the system.
        _ => {
            while segment.trim_now(0).expect("a hole").more {}
            Ok(())
        }
    };
    match changed {
        Ok(()) | Err(Error::OutOfMemory) => {}
        Err(error) => panic!("a change of kind {kind}: {error}"),
    }
}

/// Fills a block without the lock and then publishes it.
fn stage(segment: &Segment, (shard, root): (usize, usize), bytes: &[u8]) -> Result<(), Error> {
    let mut staged = segment.stage(shard, bytes.len() as u64)?;
    staged.fill(0, bytes);
    segment.write(ShardSet::one(shard), |transaction| {
        free(transaction, shard, root)?;
        let at = transaction.adopt(&staged)?;
        transaction.set_root(shard, root, at)
    })?;
    staged.adopted();
    Ok(())
}

/// Creates a store in which most roots refer to a block or an arena.
pub(crate) fn filled(path: &Path, capacity: u64, random: &mut fastrand::Rng) -> Segment {
    let segment = create(path, capacity);
    for _ in 0..600 {
        change(&segment, random);
    }
    segment
}

pub(crate) fn seed() -> u64 {
    let given = std::env::var("UNDERCROFT_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("seed: UNDERCROFT_SEED={seed}");
    seed
}
