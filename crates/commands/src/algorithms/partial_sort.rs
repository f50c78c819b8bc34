//! Sorts part of a slice, ordering equal items as Redis does.
//!
//! If only some of the results are requested, Redis sorts with Bentley and McIlroy's quicksort
//! ("Engineering a Sort Function", 1993) and skips partitions that it does not return. The order of
//! equal items depends on the choice of pivots, so this implementation chooses the same pivots.

use std::cmp::Ordering;
use std::ops::Range;

/// The maximum length of a partition that is sorted by insertion.
const INSERTION_MAX: usize = 6;
/// The minimum length of a partition whose pivot is chosen from nine items.
const NINE_MIN: usize = 41;
/// The maximum recursion depth, as a multiple of the binary logarithm of the length. Only input
/// crafted to defeat the choice of pivots reaches this depth. Without the limit, sorting it would
/// take quadratic time and overflow the stack. Deeper partitions are sorted with an algorithm that
/// has no quadratic worst case.
const LEVELS: u32 = 4;

/// Sorts the slice only as far as needed to put the first `wanted` items in order. If all items are
/// wanted, the sort is stable.
pub(crate) fn sort_start<T>(items: &mut [T], wanted: usize, compare: impl Fn(&T, &T) -> Ordering) {
    sort_part_of(items, 0..wanted, compare);
}

/// Sorts the slice only as far as needed to put the items in the `wanted` range in order. If all
/// items are wanted, the sort is stable.
pub(crate) fn sort_part_of<T>(
    items: &mut [T],
    wanted: Range<usize>,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    if wanted.start == 0 && wanted.end >= items.len() {
        items.sort_by(compare);
    } else if !wanted.is_empty() {
        let levels = LEVELS * (items.len().ilog2() + 1);
        sort_part(items, wanted, levels, &compare);
    }
}

fn sort_part<T>(
    items: &mut [T],
    wanted: Range<usize>,
    levels: u32,
    compare: &impl Fn(&T, &T) -> Ordering,
) {
    let length = items.len();
    if length <= INSERTION_MAX {
        for end in 1..length {
            let mut place = end;
            while place > 0 && compare(&items[place - 1], &items[place]).is_gt() {
                items.swap(place - 1, place);
                place -= 1;
            }
        }
        return;
    }
    let Some(levels) = levels.checked_sub(1) else {
        items.sort_unstable_by(compare);
        return;
    };
    items.swap(0, pivot(items, compare));
    // Partition the slice: collect items equal to the pivot at both ends, smaller items next to the
    // left end, and larger items next to the right end.
    let (mut left, mut low) = (1, 1);
    let (mut high, mut right) = (length, length);
    loop {
        while low < high {
            match compare(&items[low], &items[0]) {
                Ordering::Greater => break,
                Ordering::Equal => {
                    items.swap(left, low);
                    left += 1;
                }
                Ordering::Less => {}
            }
            low += 1;
        }
        while low < high {
            match compare(&items[high - 1], &items[0]) {
                Ordering::Less => break,
                Ordering::Equal => {
                    right -= 1;
                    items.swap(high - 1, right);
                }
                Ordering::Greater => {}
            }
            high -= 1;
        }
        if low >= high {
            break;
        }
        items.swap(low, high - 1);
        low += 1;
        high -= 1;
    }
    // Move the items equal to the pivot to the middle.
    let (smaller, larger) = (low - left, right - low);
    let moved = left.min(smaller);
    swap_blocks(items, 0, low - moved, moved);
    let moved = larger.min(length - right);
    swap_blocks(items, low, length - moved, moved);
    sort_part_if(&mut items[..smaller], 0, &wanted, levels, compare);
    let start = length - larger;
    sort_part_if(&mut items[start..], start, &wanted, levels, compare);
}

/// Sorts the partition that begins at `start` if it contains any wanted items.
fn sort_part_if<T>(
    items: &mut [T],
    start: usize,
    wanted: &Range<usize>,
    levels: u32,
    compare: &impl Fn(&T, &T) -> Ordering,
) {
    let end = start + items.len();
    if items.len() > 1 && start < wanted.end && end > wanted.start {
        let within = wanted.start.saturating_sub(start)..wanted.end.min(end) - start;
        sort_part(items, within, levels, compare);
    }
}

fn swap_blocks<T>(items: &mut [T], one: usize, other: usize, length: usize) {
    for index in 0..length {
        items.swap(one + index, other + index);
    }
}

/// Chooses the pivot and returns its index.
fn pivot<T>(items: &[T], compare: &impl Fn(&T, &T) -> Ordering) -> usize {
    let length = items.len();
    let median = |one: usize, two: usize, three: usize| {
        let order = |one: usize, other: usize| compare(&items[one], &items[other]);
        match (order(one, two).is_lt(), order(two, three)) {
            (true, Ordering::Less) | (false, Ordering::Greater) => two,
            (true, _) if order(one, three).is_lt() => three,
            (false, _) if !order(one, three).is_lt() => three,
            _ => one,
        }
    };
    let (first, middle, last) = (0, length / 2, length - 1);
    if length <= INSERTION_MAX + 1 {
        return middle;
    }
    if length < NINE_MIN {
        return median(first, middle, last);
    }
    let step = length / 8;
    let low = median(first, first + step, first + 2 * step);
    let middle = median(middle - step, middle, middle + step);
    let high = median(last - 2 * step, last - step, last);
    median(low, middle, high)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Runs McIlroy's adversary ("A Killer Adversary for Quicksort", 1999), which fixes the value
    /// of each item as late as possible, so that every pivot is among the lowest values.
    #[test]
    fn adversarial_order_needs_neither_quadratic_time_nor_a_deep_stack() {
        const ITEMS: usize = 20_000;
        const UNDECIDED: usize = usize::MAX;
        let values = vec![Cell::new(UNDECIDED); ITEMS];
        let (decided, pivot, comparisons) = (Cell::new(0), Cell::new(0), Cell::new(0_u64));
        let compare = |one: &usize, other: &usize| {
            comparisons.set(comparisons.get() + 1);
            let (here, there) = (&values[*one], &values[*other]);
            if here.get() == UNDECIDED && there.get() == UNDECIDED {
                let least = if *one == pivot.get() { here } else { there };
                least.set(decided.replace(decided.get() + 1));
            }
            if here.get() == UNDECIDED {
                pivot.set(*one);
            } else if there.get() == UNDECIDED {
                pivot.set(*other);
            }
            here.get().cmp(&there.get())
        };
        let mut items: Vec<usize> = (0..ITEMS).collect();
        sort_start(&mut items, ITEMS - 1, compare);
        assert!(items.is_sorted_by_key(|item| values[*item].get()));
        // If every pivot were the third-lowest item, the sort would need about 60,000,000
        // comparisons.
        assert!(comparisons.get() < 5_000_000, "{}", comparisons.get());
    }

    #[test]
    fn wanted_range_is_sorted() {
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..5_000 {
            let length = random.usize(..200);
            let most = random.u32(1..300);
            let mut items: Vec<u32> = (0..length).map(|_| random.u32(..most)).collect();
            let mut sorted = items.clone();
            sorted.sort_unstable();
            let end = random.usize(..=length);
            let wanted = random.usize(..=end)..end;
            sort_part_of(&mut items, wanted.clone(), Ord::cmp);
            assert_eq!(items[wanted.clone()], sorted[wanted]);
            items.sort_unstable();
            assert_eq!(items, sorted);
        }
    }
}
