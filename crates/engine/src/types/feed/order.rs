//! Defines the orders of a feed: by position, or by values of a given type.

use std::cmp::Ordering;

/// The lowest number of a sorted order. The number of the value type is added to it, and also
/// `UNIQUE` if values are unique.
const SORTED: u8 = 16;
/// The number that is added to the number of a sorted order if values are unique.
const UNIQUE: u8 = 8;

/// The order of a feed's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By position. Items can be inserted and removed at any position.
    List,
    /// By position. Items can be inserted only at the ends, and moved only to the ends.
    Queue,
    /// By value. Items with equal values are in insertion order.
    Sorted {
        /// The type of the values, which determines how values are compared.
        of: FeedType,
        /// Whether values are unique.
        unique: bool,
    },
}

impl Order {
    /// Returns the name of the order as used in commands.
    pub fn name(self) -> &'static str {
        match self {
            Order::List => "list",
            Order::Queue => "queue",
            Order::Sorted { .. } => "sorted",
        }
    }

    /// Returns the value type of a sorted order, or `None` if the order is by position.
    pub fn sorted_by(self) -> Option<FeedType> {
        match self {
            Order::Sorted { of, .. } => Some(of),
            Order::List | Order::Queue => None,
        }
    }

    /// Returns the byte that encodes the order in the store.
    pub(super) fn number(self) -> u8 {
        match self {
            Order::List => 0,
            Order::Queue => 1,
            Order::Sorted { of, unique } => SORTED + u8::from(unique) * UNIQUE + of as u8,
        }
    }

    /// Decodes the order from its byte, or returns `None` if the byte is invalid.
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

/// The type of the values in a sorted feed. Numbers are stored in little-endian byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedType {
    /// Signed 4-byte integers.
    Int32 = 0,
    /// Unsigned 4-byte integers.
    Uint32 = 1,
    /// Signed 8-byte integers.
    Int64 = 2,
    /// Unsigned 8-byte integers.
    Uint64 = 3,
    /// 4-byte floating-point numbers, except NaN and -0.
    Float32 = 4,
    /// 8-byte floating-point numbers, except NaN and -0.
    Float64 = 5,
    /// Bytes, compared lexicographically.
    Bytes = 6,
    /// Texts without zero bytes, at most as long as the value size. A shorter text is padded with
    /// zero bytes.
    Text = 7,
}

impl FeedType {
    /// All value types of sorted feeds, ordered by number.
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

    /// Returns the name of the type as used in commands.
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

    /// Returns the size in bytes of a number of this type, or `None` if values of this type can
    /// have any size.
    pub fn size(self) -> Option<u8> {
        match self {
            FeedType::Int32 | FeedType::Uint32 | FeedType::Float32 => Some(4),
            FeedType::Int64 | FeedType::Uint64 | FeedType::Float64 => Some(8),
            FeedType::Bytes | FeedType::Text => None,
        }
    }

    /// Returns whether bytes of the correct length are a valid value. If two valid values compare
    /// equal, their bytes are identical.
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

    /// Compares two values. For [`FeedType::Bytes`] and [`FeedType::Text`], `one` or `other` can be
    /// a range limit whose length differs from the value size.
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

/// Returns a text value without the zero bytes that pad it.
pub(super) fn text(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|&byte| byte != 0);
    &value[..end.map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_encoding_as_a_number() {
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
    fn values_compare_by_their_type() {
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
    fn equal_values_have_only_one_encoding() {
        assert!(!FeedType::Float64.holds(&(-0.0_f64).to_le_bytes()));
        assert!(!FeedType::Float32.holds(&f32::NAN.to_le_bytes()));
        assert!(FeedType::Float32.holds(&f32::NEG_INFINITY.to_le_bytes()));
        assert!(FeedType::Text.holds(b"ab\0\0") && FeedType::Text.holds(b"\0\0"));
        assert!(!FeedType::Text.holds(b"a\0b\0"));
        assert!(FeedType::Bytes.holds(b"a\0b\0"));
    }
}
