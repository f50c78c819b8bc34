//! Implements the `table` library.

use std::ffi::c_int;

use super::guards::{refuse_proxy, replace_proxy};
use crate::libraries::function::{Function, Memory, asked, constant};
use crate::state::{Kind, State};
use crate::values::buffer::Buffer;

/// The functions of `table`, with the limits on each call's time and memory.
pub(crate) const FUNCTIONS: &[Function] = &[
    asked(c"concat", concat, "values and their bytes", Memory::Counted),
    asked(c"foreach", for_each, "pairs of the table", Memory::Fixed),
    asked(
        c"foreachi",
        for_each_index,
        "values of the table",
        Memory::Fixed,
    ),
    constant(c"getn", length_of),
    asked(c"insert", insert, "moved values", Memory::Counted),
    asked(c"maxn", greatest, "pairs of the table", Memory::Fixed),
    asked(c"remove", remove, "moved values", Memory::Fixed),
    constant(c"setn", set_length),
    asked(
        c"sort",
        sort,
        "values, times the logarithm of their number",
        Memory::Fixed,
    ),
];

/// The number of string bytes that a comparison examines per counted step.
const COMPARED: usize = 64;

/// Returns the length of the first argument, truncated to 32 bits. The argument must be a table.
fn length(state: &State<'_>) -> i64 {
    state.check_kind(1, Kind::TABLE);
    i64::from(state.length(1) as i32)
}

/// Pushes the item at an index of the first argument. As in Lua's own functions, the index is
/// truncated to 32 bits.
fn push_item(state: &State<'_>, index: i64) {
    state.push_item(1, index as c_int);
}

fn set_item(state: &mut State<'_>, index: i64) {
    state.set_item(1, index as c_int);
}

fn concat(state: &mut State<'_>) -> c_int {
    if !state.is_none_or_nil(2) {
        state.check_bytes(2);
    }
    state.check_kind(1, Kind::TABLE);
    let first = state.optional_int(3, 1);
    let last = match state.is_none_or_nil(4) {
        true => length(state),
        false => state.check_int(4),
    };
    // SAFETY: the arguments and the buffer's memory stay on the stack until this function returns,
    // so the bytes stay alive.
    let anchored = unsafe { state.anchored() };
    let separator = anchored.bytes(2);
    let mut text = Buffer::new(anchored);
    for index in first..=last {
        push_item(state, index);
        if !state.is_string(-1) {
            state.raise_formatted(format_args!(
                "invalid value ({}) at index {} in table for 'concat'",
                state.kind(-1).name(),
                index as c_int
            ));
        }
        state.spend(1);
        text.add(state.bytes(-1));
        state.pop(1);
        if index < last {
            text.add(separator);
        }
    }
    text.push();
    1
}

fn for_each(state: &mut State<'_>) -> c_int {
    replace_proxy(state);
    state.check_kind(1, Kind::TABLE);
    state.check_kind(2, Kind::FUNCTION);
    state.push_nil();
    while state.next(1) {
        state.spend(1);
        state.push_value(2);
        state.push_value(-3);
        state.push_value(-3);
        state.call(2, 1);
        if state.kind(-1) != Kind::NIL {
            return 1;
        }
        state.pop(2);
    }
    0
}

fn for_each_index(state: &mut State<'_>) -> c_int {
    let length = length(state);
    state.check_kind(2, Kind::FUNCTION);
    for index in 1..=length {
        state.spend(1);
        state.push_value(2);
        state.push_integer(index);
        push_item(state, index);
        state.call(2, 1);
        if state.kind(-1) != Kind::NIL {
            return 1;
        }
        state.pop(1);
    }
    0
}

fn length_of(state: &mut State<'_>) -> c_int {
    let length = length(state);
    state.push_integer(length);
    1
}

fn set_length(state: &mut State<'_>) -> c_int {
    refuse_proxy(state);
    state.check_kind(1, Kind::TABLE);
    state.raise_here(b"'setn' is obsolete")
}

fn greatest(state: &mut State<'_>) -> c_int {
    let mut greatest = 0.0;
    state.check_kind(1, Kind::TABLE);
    state.push_nil();
    while state.next(1) {
        state.spend(1);
        state.pop(1);
        if state.kind(-1) == Kind::NUMBER {
            let number = state.number(-1);
            if number > greatest {
                greatest = number;
            }
        }
    }
    state.push_number(greatest);
    1
}

fn insert(state: &mut State<'_>) -> c_int {
    refuse_proxy(state);
    let end = length(state) + 1;
    let place = match state.top() {
        2 => end,
        3 => {
            let place = state.check_int(2);
            let mut index = end.max(place);
            while index > place {
                state.spend(1);
                push_item(state, index - 1);
                set_item(state, index);
                index -= 1;
            }
            place
        }
        _ => state.raise_here(b"wrong number of arguments to 'insert'"),
    };
    set_item(state, place);
    0
}

fn remove(state: &mut State<'_>) -> c_int {
    refuse_proxy(state);
    let end = length(state);
    let place = state.optional_int(2, end);
    if !(1..=end).contains(&place) {
        return 0;
    }
    push_item(state, place);
    for index in place..end {
        state.spend(1);
        push_item(state, index + 1);
        set_item(state, index);
    }
    state.push_nil();
    set_item(state, end);
    1
}

fn sort(state: &mut State<'_>) -> c_int {
    refuse_proxy(state);
    let length = length(state);
    state.check_room_for(40, c"");
    if !state.is_none_or_nil(2) {
        state.check_kind(2, Kind::FUNCTION);
    }
    state.set_top(2);
    sort_part(state, 1, length);
    0
}

/// Returns whether the value at stack index `one` sorts before the value at `other`. Both indices
/// are relative to the top of the stack.
fn is_less(state: &mut State<'_>, one: c_int, other: c_int) -> bool {
    if state.kind(2) != Kind::NIL {
        state.spend(1);
        state.push_value(2);
        state.push_value(one - 1);
        state.push_value(other - 2);
        state.call(2, 1);
        let is_less = state.boolean(-1);
        state.pop(1);
        return is_less;
    }
    let bytes = |index| match state.kind(index) {
        Kind::STRING => state.length(index),
        _ => 0,
    };
    let compared = bytes(one).min(bytes(other));
    state.spend(1 + compared / COMPARED);
    state.is_less(one, other)
}

/// Pops two values, and stores the first popped value at index `upper` and the second at index
/// `lower`.
fn set_two(state: &mut State<'_>, upper: i64, lower: i64) {
    set_item(state, upper);
    set_item(state, lower);
}

/// Sorts a range with Lua's quicksort. The order of comparisons is the same as in Lua, so that
/// equal values end up in the same order.
fn sort_part(state: &mut State<'_>, mut low: i64, mut high: i64) {
    while low < high {
        order_ends(state, low, high);
        if high - low == 1 {
            break;
        }
        let middle = (low + high) / 2;
        order_middle(state, low, middle, high);
        if high - low == 2 {
            break;
        }
        let border = partition(state, low, middle, high);
        // Sort the smaller part recursively and the larger part in this loop, which limits the
        // recursion depth.
        if border - low < high - border {
            sort_part(state, low, border - 1);
            low = border + 1;
        } else {
            sort_part(state, border + 1, high);
            high = border - 1;
        }
    }
}

/// Swaps the first and the last value of a range if they are out of order.
fn order_ends(state: &mut State<'_>, low: i64, high: i64) {
    push_item(state, low);
    push_item(state, high);
    if is_less(state, -1, -2) {
        set_two(state, low, high);
    } else {
        state.pop(2);
    }
}

/// Swaps the middle value of a range with the first or the last value if they are out of order.
fn order_middle(state: &mut State<'_>, low: i64, middle: i64, high: i64) {
    push_item(state, middle);
    push_item(state, low);
    if is_less(state, -2, -1) {
        return set_two(state, middle, low);
    }
    state.pop(1);
    push_item(state, high);
    if is_less(state, -1, -2) {
        set_two(state, middle, high);
    } else {
        state.pop(2);
    }
}

/// Moves values that sort before the middle value in front of it, and values that sort after it to
/// the other side. Returns the new index of the middle value.
fn partition(state: &mut State<'_>, low: i64, middle: i64, high: i64) -> i64 {
    const INVALID: &[u8] = b"invalid order function for sorting";
    push_item(state, middle);
    state.push_value(-1);
    push_item(state, high - 1);
    set_two(state, middle, high - 1);
    let (mut from, mut to) = (low, high - 1);
    loop {
        from += 1;
        push_item(state, from);
        while is_less(state, -1, -2) {
            if from > high {
                state.raise_here(INVALID);
            }
            state.pop(1);
            from += 1;
            push_item(state, from);
        }
        to -= 1;
        push_item(state, to);
        while is_less(state, -3, -1) {
            if to < low {
                state.raise_here(INVALID);
            }
            state.pop(1);
            to -= 1;
            push_item(state, to);
        }
        if to < from {
            state.pop(3);
            break;
        }
        set_two(state, from, to);
    }
    push_item(state, high - 1);
    push_item(state, from);
    set_two(state, high - 1, from);
    from
}
