//! How a feed is ordered: by position, or by its values, which then are of a type.

use std::cmp::Ordering;

/// The order's number where values decide: this one, and those of the type and of uniqueness.
const SORTED: u8 = 16;
/// Values are there once.
const UNIQUE: u8 = 8;

/// How a feed is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By position: items come and go anywhere.
    List,
    /// By position: items come and move to the ends only.
    Queue,
    /// By value. Of items with the same value the ones that came first are first.
    Sorted {
        /// What the values are.
        of: FeedType,
        /// Whether each value is there once.
        unique: bool,
    },
}

impl Order {
    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Order::List => "list",
            Order::Queue => "queue",
            Order::Sorted { .. } => "sorted",
        }
    }

    /// What the values are, where they say where items are.
    pub fn sorted_by(self) -> Option<FeedType> {
        match self {
            Order::Sorted { of, .. } => Some(of),
            Order::List | Order::Queue => None,
        }
    }

    /// The byte that stands for it in the store.
    pub(super) fn number(self) -> u8 {
        match self {
            Order::List => 0,
            Order::Queue => 1,
            Order::Sorted { of, unique } => SORTED + u8::from(unique) * UNIQUE + of as u8,
        }
    }

    /// The order that a byte stands for, if it does.
    pub(super) fn of_number(number: u8) -> Option<Order> {
        match number {
            0 => Some(Order::List),
            1 => Some(Order::Queue),
            number => {
                let number = number.checked_sub(SORTED)?;
                let (of, unique) = (number % UNIQUE, number / UNIQUE);
                (unique <= 1).then_some(Order::Sorted {
                    of: FeedType::ALL[usize::from(of)],
                    unique: unique == 1,
                })
            }
        }
    }
}

/// What the values of a sorted feed are. Numbers lie in the store in little-endian bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedType {
    /// Integers of 4 bytes.
    Int32 = 0,
    /// Integers of 4 bytes, from 0 on.
    Uint32 = 1,
    /// Integers of 8 bytes.
    Int64 = 2,
    /// Integers of 8 bytes, from 0 on.
    Uint64 = 3,
    /// Floating point numbers of 4 bytes; neither NaN nor -0.
    Float32 = 4,
    /// Floating point numbers of 8 bytes; neither NaN nor -0.
    Float64 = 5,
    /// Bytes, compared from the first one on.
    Bytes = 6,
    /// Texts of any length up to that of values, without zero bytes; zero bytes fill the rest.
    Text = 7,
}

impl FeedType {
    /// All of them, by their numbers.
    pub const ALL: [FeedType; UNIQUE as usize] = [
        FeedType::Int32,
        FeedType::Uint32,
        FeedType::Int64,
        FeedType::Uint64,
        FeedType::Float32,
        FeedType::Float64,
        FeedType::Bytes,
        FeedType::Text,
    ];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            FeedType::Int32 => "int32",
            FeedType::Uint32 => "uint32",
            FeedType::Int64 => "int64",
            FeedType::Uint64 => "uint64",
            FeedType::Float32 => "float32",
            FeedType::Float64 => "float64",
            FeedType::Bytes => "bytes",
            FeedType::Text => "text",
        }
    }

    /// Bytes of a number; none where values may have any size.
    pub fn size(self) -> Option<u8> {
        match self {
            FeedType::Int32 | FeedType::Uint32 | FeedType::Float32 => Some(4),
            FeedType::Int64 | FeedType::Uint64 | FeedType::Float64 => Some(8),
            FeedType::Bytes | FeedType::Text => None,
        }
    }

    /// Whether some bytes of the right number are a value: what compares as equal is the same bytes.
    pub fn holds(self, value: &[u8]) -> bool {
        let is_sound =
            |number: f64| !number.is_nan() && (number != 0.0 || number.is_sign_positive());
        match self {
            FeedType::Float32 => {
                array(value).is_some_and(|it| is_sound(f32::from_le_bytes(it).into()))
            }
            FeedType::Float64 => array(value).is_some_and(|it| is_sound(f64::from_le_bytes(it))),
            FeedType::Text => !text(value).contains(&0),
            _ => true,
        }
    }

    /// Compares two values. Limits of [`FeedType::Bytes`] and [`FeedType::Text`] may have other lengths.
    #[inline]
    pub fn compare(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            FeedType::Int32 => by(one, other, i32::from_le_bytes),
            FeedType::Uint32 => by(one, other, u32::from_le_bytes),
            FeedType::Int64 => by(one, other, i64::from_le_bytes),
            FeedType::Uint64 => by(one, other, u64::from_le_bytes),
            FeedType::Float32 => match (array(one), array(other)) {
                (Some(one), Some(other)) => {
                    f32::from_le_bytes(one).total_cmp(&f32::from_le_bytes(other))
                }
                (one, other) => one.cmp(&other),
            },
            FeedType::Float64 => match (array(one), array(other)) {
                (Some(one), Some(other)) => {
                    f64::from_le_bytes(one).total_cmp(&f64::from_le_bytes(other))
                }
                (one, other) => one.cmp(&other),
            },
            FeedType::Bytes => one.cmp(other),
            FeedType::Text => text(one).cmp(text(other)),
        }
    }
}

fn array<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    value.try_into().ok()
}

fn by<const N: usize, T: Ord>(one: &[u8], other: &[u8], number: fn([u8; N]) -> T) -> Ordering {
    array(one).map(number).cmp(&array(other).map(number))
}

/// A text without the zero bytes that fill the rest of its value.
pub(super) fn text(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|&byte| byte != 0);
    &value[..end.map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_back_from_its_number() {
        let mut known = 0;
        for number in 0..=255 {
            if let Some(order) = Order::of_number(number) {
                assert_eq!(order.number(), number);
                known += 1;
            }
        }
        assert_eq!(known, 2 + 8 * 2);
    }

    #[test]
    fn values_compare_as_what_they_are() {
        let mut random = fastrand::Rng::with_seed(29);
        for _ in 0..3000 {
            let mut word = || match random.u32(..3) {
                0 => random.u64(..),
                1 => random.i64(-3..3) as u64,
                _ => random.f64().to_bits(),
            };
            let (one, other) = (word(), word());
            let compare = |of: FeedType, size: usize| {
                let (one, other) = (one.to_le_bytes(), other.to_le_bytes());
                of.compare(&one[8 - size..], &other[8 - size..])
            };
            let (high, high_other) = ((one >> 32) as u32, (other >> 32) as u32);
            let signed = (high as i32).cmp(&(high_other as i32));
            assert_eq!(compare(FeedType::Uint64, 8), one.cmp(&other));
            assert_eq!(
                compare(FeedType::Int64, 8),
                (one as i64).cmp(&(other as i64))
            );
            assert_eq!(compare(FeedType::Uint32, 4), high.cmp(&high_other));
            assert_eq!(compare(FeedType::Int32, 4), signed);
            let (float, float_other) = (f64::from_bits(one), f64::from_bits(other));
            let are_sound = [one, other]
                .iter()
                .all(|it| FeedType::Float64.holds(&it.to_le_bytes()));
            if are_sound {
                assert_eq!(
                    Some(compare(FeedType::Float64, 8)),
                    float.partial_cmp(&float_other)
                );
            }
        }
        let text = FeedType::Text;
        assert_eq!(text.compare(b"ab\0\0", b"ab"), Ordering::Equal);
        assert_eq!(text.compare(b"ab\0\0", b"ab\x01\0"), Ordering::Less);
        assert_eq!(FeedType::Bytes.compare(b"ab\0", b"ab"), Ordering::Greater);
    }

    #[test]
    fn what_is_equal_has_one_form() {
        assert!(!FeedType::Float64.holds(&(-0.0_f64).to_le_bytes()));
        assert!(!FeedType::Float32.holds(&f32::NAN.to_le_bytes()));
        assert!(FeedType::Float32.holds(&f32::NEG_INFINITY.to_le_bytes()));
        assert!(FeedType::Text.holds(b"ab\0\0") && FeedType::Text.holds(b"\0\0"));
        assert!(!FeedType::Text.holds(b"a\0b\0"));
        assert!(FeedType::Bytes.holds(b"a\0b\0"));
    }
}
