//! Adds members to sorted sets.

use smallvec::SmallVec;
use undercroft_memory::Transaction;

use super::leaf::Ranked;
use super::object::copy;
use super::order::{order_of, score_of, value_of};
use super::ranks::Ranks;
use super::scored::Scored;
use super::{Large, SORTED_SET, SortedSet, pack};
use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::bulk::{self, Draft, Part};
use crate::structures::dictionary;
use crate::structures::dictionary_change;
use crate::structures::element::{Element, Value};
use crate::structures::elements::Elements;
use crate::structures::key::Key;
use crate::structures::packed;
use crate::structures::prefetch::TOGETHER;
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::writer::{Found, Writer};
use crate::types::hash::{FEW, PACKED_MAX};
use crate::types::limits::PackedLimits;
use crate::types::string::write::STRING_MAX;
use crate::types::value_type::ValueType;

/// The options of ZADD, which determine which members are added or changed, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddRule {
    /// Whether existing members are left unchanged (NX).
    pub only_new: bool,
    /// Whether new members are ignored (XX).
    pub only_existing: bool,
    /// Whether a score changes only if the new score is higher (GT).
    pub greater: bool,
    /// Whether a score changes only if the new score is lower (LT).
    pub less: bool,
    /// Whether the given score is added to the current score (INCR).
    pub increment: bool,
}

impl AddRule {
    /// Returns the new score of a member, or `None` if the options rule out the change.
    fn score(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, Error> {
        let Some(old) = old else {
            return Ok((!self.only_existing).then_some(given));
        };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.increment { old + given } else { given };
        if new.is_nan() {
            return Err(Error::NotANumber);
        }
        let refused = self.less && new >= old || self.greater && new <= old;
        Ok((!refused).then_some(new))
    }
}

/// The result of ZADD.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Added {
    /// The number of members that were added.
    pub added: u64,
    /// The number of existing members whose score changed.
    pub updated: u64,
    /// The resulting score of the last member, or `None` if the options ruled out its change.
    pub score: Option<f64>,
}

impl Added {
    /// Counts the outcome for one member, given its new and old scores. Returns the score to store,
    /// or `None` if nothing changes.
    fn take(&mut self, new: Option<f64>, old: Option<f64>) -> Option<f64> {
        self.score = new;
        match old {
            None => self.added += u64::from(new.is_some()),
            Some(old) if new.is_none_or(|new| new == old) => return None,
            Some(_) => self.updated += 1,
        }
        new
    }
}

impl PackedLimits {
    /// Returns whether adding `member` to a sorted set with `members` members exceeds a limit of
    /// the packed form.
    fn exceeded_by(&self, member: &[u8], members: usize) -> bool {
        member.len() as u64 > self.value || members as u64 >= self.entries
    }
}

impl Writer<'_, '_> {
    /// Looks up the sorted set at a key. Fails if the value has another type.
    pub fn sorted_set(
        &mut self,
        database: usize,
        key: &Key<'_>,
    ) -> Result<Option<SortedSet>, Error> {
        match self.find_type(database, key, ValueType::SortedSet)? {
            Some(found) => Ok(Some(SortedSet::of(self.view(), &found.entry)?)),
            None => Ok(None),
        }
    }

    /// Adds members to a sorted set or changes their scores. Creates the sorted set if it does not
    /// exist. O(log n) for each member of a large sorted set, O(n) for each member of a packed one.
    ///
    /// # Errors
    /// [`Error::NotANumber`] if an increment results in NaN.
    pub fn sorted_add(
        &mut self,
        database: usize,
        key: &Key<'_>,
        members: &[(&[u8], f64)],
        rule: AddRule,
        limits: &PackedLimits,
    ) -> Result<Added, Error> {
        if members
            .iter()
            .any(|(text, _)| text.len() as u64 > STRING_MAX)
        {
            return Err(Error::TooLong);
        }
        let found = self.find_type(database, key, ValueType::SortedSet)?;
        let mut bytes = Vec::new();
        let added = match &found {
            None if rule.only_existing => return Ok(Added::default()),
            Some(found) if !found.entry.append_packed(self.view(), &mut bytes)? => {
                let large = Large::to_change(self.view(), key.shard, &found.entry)?;
                self.add_to_large(large, members, rule)?
            }
            _ => self.add_to_packed(database, key, found, &bytes, members, rule, limits)?,
        };
        if added.added + added.updated > 0 {
            self.free_along(key.shard, members.len())?;
            let parts = members
                .iter()
                .map(|(member, _)| ChangedPart::Member(member));
            self.changed_parts(database, key, parts);
            let event = if rule.increment {
                KeyEvent::ZIncr
            } else {
                KeyEvent::ZAdd
            };
            self.tell(event, database, key);
        }
        Ok(added)
    }

    fn add_to_large(
        &mut self,
        mut large: Large,
        members: &[(&[u8], f64)],
        rule: AddRule,
    ) -> Result<Added, Error> {
        let mut added = Added::default();
        let transaction = &mut *self.transaction;
        for group in members.chunks(TOGETHER) {
            let texts: SmallVec<[&[u8]; TOGETHER]> = group.iter().map(|(text, _)| *text).collect();
            let keys = large.elements.group(transaction, &texts);
            for (key, &(_, given)) in keys.iter().zip(group) {
                large = add_one(transaction, large, key, given, rule, &mut added)?;
            }
        }
        Ok(added)
    }

    /// Adds members to a packed sorted set, and converts it to a large one if it exceeds the
    /// limits.
    #[expect(
        clippy::too_many_arguments,
        reason = "the request and the found member are passed together"
    )]
    fn add_to_packed(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        bytes: &[u8],
        members: &[(&[u8], f64)],
        rule: AddRule,
        limits: &PackedLimits,
    ) -> Result<Added, Error> {
        let mut added = Added::default();
        let sizes = members
            .iter()
            .map(|(member, _)| packed::size_at_most(&[member, &[0; size_of::<f64>()]]));
        let mut changed = Vec::with_capacity(bytes.len() + sizes.sum::<usize>());
        changed.extend_from_slice(bytes);
        let mut rest = if members.len() > FEW { &[] } else { members };
        let mut fits = members.len() <= FEW;
        while let [(member, given), behind @ ..] = rest {
            let form = packed::form(member);
            let seen = pack::look(&changed, &form)?;
            let old = seen.there.as_ref().map(|(_, score)| *score);
            if old.is_none() && !rule.only_existing && limits.exceeded_by(member, seen.count) {
                fits = false;
                break;
            }
            rest = behind;
            if let Some(new) = added.take(rule.score(old, *given)?, old) {
                // Adding 0.0 turns a negative zero into 0, because a packed sorted set has no
                // negative zero, as in Redis.
                pack::put(&mut changed, &seen, (member, &form), new + 0.0)?;
            }
        }
        if !fits {
            let old = pack::members(bytes)?;
            return self.add_many(database, key, found, &old, members, rule, limits);
        }
        if added.added + added.updated == 0 {
            return Ok(added);
        }
        if changed.len() <= PACKED_MAX {
            self.put_packed(database, key, found, SORTED_SET, &changed)?;
            return Ok(added);
        }
        let (secret, sorted) = (self.transaction.hash_key(), pack::members(&changed)?);
        self.make_large(database, key, found, &parts(secret, sorted.iter()))?;
        Ok(added)
    }

    /// Adds many members to a packed sorted set by rebuilding it in one pass.
    #[expect(
        clippy::too_many_arguments,
        reason = "the request and the found member are passed together"
    )]
    fn add_many(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        old: &Scored,
        members: &[(&[u8], f64)],
        rule: AddRule,
        limits: &PackedLimits,
    ) -> Result<Added, Error> {
        let secret = self.transaction.hash_key();
        let mut draft = Draft::new(secret, old.len() + members.len());
        draft.set_all(old.iter().map(|(member, score)| (member, value_of(score))));
        let mut added = Added::default();
        // The first member that exceeds a limit of the packed form turns the sorted set into a
        // large one.
        let mut large = false;
        draft.merge(members.iter().copied(), |parts, member, old, given| {
            let old = old.map(score_of);
            large |= old.is_none() && !rule.only_existing && limits.exceeded_by(member, parts);
            let new = added.take(rule.score(old, given)?, old);
            // Adding 0.0 turns a negative zero into 0, because a packed sorted set has no negative
            // zero, as in Redis.
            Ok::<_, Error>(new.map(|new| value_of(if large { new } else { new + 0.0 })))
        })?;
        if added.added + added.updated == 0 {
            return Ok(added);
        }
        let sorted = in_order(draft.parts());
        if !large {
            let members = sorted.iter().map(|part| (part.key, score_of(part.value)));
            let bytes = pack::pack(members);
            if bytes.len() <= PACKED_MAX {
                self.put_packed(database, key, found, SORTED_SET, &bytes)?;
                return Ok(added);
            }
        }
        self.make_large(database, key, found, &sorted)?;
        Ok(added)
    }

    /// Stores a large sorted set with the given members, which must be in order, at a key.
    pub(super) fn make_large(
        &mut self,
        database: usize,
        key: &Key<'_>,
        found: Option<Found>,
        members: &[Part<'_>],
    ) -> Result<(), Error> {
        let pool = bulk::pool_for(self.transaction, key.shard, members)?;
        let (words, placed) = bulk::make(self.transaction, pool, members)?;
        let ranked: Vec<Ranked> = placed
            .iter()
            .zip(members)
            .map(|(&(_, at), member)| Ranked {
                order: order_of(score_of(member.value)),
                at,
            })
            .collect();
        let tree = Ranks::build(self.transaction, pool, &ranked)?;
        let words = [&words[..], &tree].concat();
        self.put_object(database, key, found, SORTED_SET, &words)
    }

    /// Replaces the value of a key with a sorted set that contains `members` and has no expiry. If
    /// `members` is empty, removes the key. The members can be in any order but must be distinct.
    /// O(n log n).
    pub fn sorted_store(
        &mut self,
        database: usize,
        key: &Key<'_>,
        members: &Scored,
        limits: &PackedLimits,
    ) -> Result<(), Error> {
        self.remove(database, key)?;
        if members.is_empty() {
            return Ok(());
        }
        let secret = self.transaction.hash_key();
        let sorted = in_order(&parts(secret, members.iter()));
        let small = sorted.len() as u64 <= limits.entries
            && sorted
                .iter()
                .all(|part| part.key.len() as u64 <= limits.value);
        let packed = if small {
            pack::pack(sorted.iter().map(|part| (part.key, score_of(part.value))))
        } else {
            Vec::new()
        };
        if small && packed.len() <= PACKED_MAX {
            self.put_packed(database, key, None, SORTED_SET, &packed)?;
        } else {
            self.make_large(database, key, None, &sorted)?;
        }
        self.changed(database, key, Effect::Changed);
        Ok(())
    }
}

impl Large {
    /// Moves the sorted set to an arena, a separate set of pages, if it has outgrown its shard's
    /// slabs (H4), like [`Elements::settle`]. The caller passes the length in bytes of the member
    /// that was just added.
    fn settle(self, transaction: &mut Transaction<'_>, length: usize) -> Result<Large, Error> {
        if !self
            .elements
            .has_outgrown(transaction.view(), true, length)?
        {
            return Ok(self);
        }
        let pool = transaction.create_arena(self.pool.shard())?;
        let words = copy(transaction, &self, pool)?;
        self.discard(transaction)?;
        for (word, value) in (0..).zip(words) {
            let at = self.elements.at + word * 8;
            transaction.store(pool.shard(), at, value)?;
        }
        let elements = Elements {
            pool,
            ..self.elements
        };
        Ok(Large {
            elements,
            pool,
            ..self
        })
    }
}

/// Adds a member to a large sorted set or changes its score. Returns the sorted set, which may have
/// been moved to an arena.
fn add_one(
    transaction: &mut Transaction<'_>,
    large: Large,
    key: &Key<'_>,
    given: f64,
    rule: AddRule,
    added: &mut Added,
) -> Result<Large, Error> {
    let (pool, member) = (large.pool, key.bytes);
    let there = dictionary::find_slot(transaction.view(), large.elements, key)?;
    let old = match &there {
        Some((_, element)) => Some(f64::from_bits(element.word(transaction.view())?)),
        None => None,
    };
    let Some(new) = added.take(rule.score(old, given)?, old) else {
        return Ok(large);
    };
    let mut ranks = large.ranks(transaction.view())?;
    let value = Value::Integer(new.to_bits() as i64);
    let is_new = there.is_none();
    let at = match there {
        None => {
            let at = Element::create(transaction, &mut { pool }, member, value)?;
            dictionary_change::insert(transaction, large.elements, key.hash, at)?;
            at
        }
        Some((slot, element)) => {
            let ranked = Ranked::load(transaction.view(), element.at)?;
            // Remove the member from the tree before changing its element, because the search in
            // the tree reads the score from the element.
            ranks.remove(transaction, pool, member, ranked)?;
            let moved = element.change(transaction, pool, member, value)?;
            if let Some(at) = moved {
                dictionary::replace(transaction, pool.shard(), slot, at)?;
            }
            moved.unwrap_or(element.at)
        }
    };
    let order = order_of(new);
    ranks.insert(transaction, pool, member, Ranked { order, at })?;
    if is_new {
        return large.settle(transaction, member.len());
    }
    Ok(large)
}

/// Converts members with scores to the parts from which a dictionary is built in bulk.
pub(super) fn parts<'m>(
    secret: [u64; 2],
    members: impl Iterator<Item = (&'m [u8], f64)>,
) -> Vec<Part<'m>> {
    members
        .map(|(member, score)| Part::new(secret, member, value_of(score)))
        .collect()
}

/// Returns the members sorted by score, and then by their bytes. O(n log n).
fn in_order<'m>(members: &[Part<'m>]) -> Vec<Part<'m>> {
    let mut sorted: Vec<(u64, &Part<'m>)> = members
        .iter()
        .map(|member| (order_of(score_of(member.value)), member))
        .collect();
    sorted.sort_unstable_by(|one, other| (one.0, one.1.key).cmp(&(other.0, other.1.key)));
    sorted.into_iter().map(|(_, member)| *member).collect()
}
