//! Encodes positions on the earth as 52-bit integers. The bits of latitude and longitude are
//! interleaved, so nearby positions usually have nearby numbers.
//!
//! The coordinate ranges, earth radius and formulas match those of Redis, so every digit of a reply
//! matches too.

/// A longitude and a latitude in degrees.
pub(crate) type Position = (f64, f64);

/// The range of longitudes that can be indexed, in degrees. Like the range of latitudes, it follows
/// the Web Mercator projection (EPSG:3857).
const LONGITUDE: (f64, f64) = (-180.0, 180.0);
const LATITUDE: (f64, f64) = (-85.05112878, 85.05112878);
/// The number of bits per coordinate at full precision.
const STEPS_MAX: u32 = 26;
const EARTH_RADIUS: f64 = 6_372_797.560856;
/// Half the length of the projected equator, in meters.
const MERCATOR_MAX: f64 = 20_037_726.37;
const RADIAN: f64 = std::f64::consts::PI / 180.0;

/// A cell of the grid in which each coordinate has `steps` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    longitude: u32,
    latitude: u32,
    steps: u32,
}

/// The bounds of a grid cell or of a search area, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    longitude: (f64, f64),
    latitude: (f64, f64),
}

/// The shape of a search area, in meters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// All positions within `radius` of the center.
    Circle { radius: f64 },
    /// All positions within half the `width` and half the `height` of the center.
    Box { width: f64, height: f64 },
}

/// Returns whether a position is within the coordinate ranges that can be indexed.
pub(crate) fn is_valid((longitude, latitude): Position) -> bool {
    (LONGITUDE.0..=LONGITUDE.1).contains(&longitude)
        && (LATITUDE.0..=LATITUDE.1).contains(&latitude)
}

/// Spreads the bits of `value` across every other bit of the result, starting with the lowest.
fn spread(value: u32) -> u64 {
    let mut bits = u64::from(value);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Collects every other bit, starting with the lowest. The inverse of [`spread`].
fn gather(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

impl Cell {
    fn of(position: Position, latitudes: (f64, f64), steps: u32) -> Cell {
        let place = |value: f64, (low, high): (f64, f64)| {
            ((value - low) / (high - low) * (1_u64 << steps) as f64) as u32
        };
        Cell {
            longitude: place(position.0, LONGITUDE),
            latitude: place(position.1, latitudes),
            steps,
        }
    }

    fn bits(self) -> u64 {
        spread(self.latitude) | spread(self.longitude) << 1
    }

    fn area(self) -> Area {
        let ends = |place: u32, (low, high): (f64, f64)| {
            let end =
                |place: u32| low + f64::from(place) / (1_u64 << self.steps) as f64 * (high - low);
            (end(place), end(place.wrapping_add(1)))
        };
        Area {
            longitude: ends(self.longitude, LONGITUDE),
            latitude: ends(self.latitude, LATITUDE),
        }
    }

    /// Returns the cell that lies `east` cells to the east and `north` cells to the north, wrapping
    /// around the world.
    fn moved(self, east: i32, north: i32) -> Cell {
        let mask = ((1_u64 << self.steps) - 1) as u32;
        let along = |place: u32, by: i32| match by {
            0 => place,
            by => place.wrapping_add_signed(by) & mask,
        };
        Cell {
            longitude: along(self.longitude, east),
            latitude: along(self.latitude, north),
            steps: self.steps,
        }
    }

    /// Returns the range of scores of all positions in the cell: the lowest score, and the highest
    /// score plus one.
    pub(crate) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps);
        let bits = self.bits();
        (
            (bits << shift) as f64,
            (bits.wrapping_add(1) << shift) as f64,
        )
    }
}

/// Returns the score that encodes a valid position.
pub(crate) fn encode(position: Position) -> f64 {
    Cell::of(position, LATITUDE, STEPS_MAX).bits() as f64
}

/// Returns the position that a score encodes. Accepts any score, including arbitrary scores set by
/// ZADD.
pub(crate) fn decode(score: f64) -> Position {
    let bits = to_bits(score);
    let cell = Cell {
        longitude: gather(bits >> 1),
        latitude: gather(bits),
        steps: STEPS_MAX,
    };
    let area = cell.area();
    let middle =
        |ends: (f64, f64), limits: (f64, f64)| ((ends.0 + ends.1) / 2.0).clamp(limits.0, limits.1);
    (
        middle(area.longitude, LONGITUDE),
        middle(area.latitude, LATITUDE),
    )
}

/// Converts a double to an unsigned integer as C does on x86-64.
fn to_bits(score: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if score < -HALF {
        1 << 63
    } else if score < HALF {
        score as i64 as u64
    } else if score < 2.0 * HALF {
        (score - HALF) as u64 | 1 << 63
    } else {
        0
    }
}

/// Returns the standard 11-character geohash. The last character is always `0`, because it would
/// require more bits than a score has.
pub(crate) fn letters(score: f64) -> [u8; 11] {
    const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    // In standard geohashes, the latitude ranges from pole to pole.
    let bits = Cell::of(decode(score), (-90.0, 90.0), STEPS_MAX).bits();
    std::array::from_fn(|index| {
        let digit = match index {
            10 => 0,
            _ => bits >> (52 - (index + 1) * 5) & 31,
        };
        ALPHABET[digit as usize]
    })
}

fn distance_of_latitudes(one: f64, other: f64) -> f64 {
    EARTH_RADIUS * (other * RADIAN - one * RADIAN).abs()
}

/// Returns the great-circle distance between two positions in meters, by the haversine formula.
pub(crate) fn distance(one: Position, other: Position) -> f64 {
    let (longitude, latitude) = (one.0 * RADIAN, one.1 * RADIAN);
    let (other_longitude, other_latitude) = (other.0 * RADIAN, other.1 * RADIAN);
    let v = ((other_longitude - longitude) / 2.0).sin();
    if v == 0.0 {
        return distance_of_latitudes(one.1, other.1);
    }
    let u = ((other_latitude - latitude) / 2.0).sin();
    let square = u * u + latitude.cos() * other_latitude.cos() * v * v;
    2.0 * EARTH_RADIUS * square.sqrt().asin()
}

/// Returns whether a distance is within a limit. For antipodes, rounding can yield NaN, which Redis
/// treats as within the limit.
fn is_within(distance: f64, limit: f64) -> bool {
    distance.is_nan() || distance <= limit
}

impl Shape {
    /// Returns the distance of a position from the center in meters, or `None` if the position is
    /// outside the shape.
    pub(crate) fn distance(&self, center: Position, position: Position) -> Option<f64> {
        let meters = distance(center, position);
        match *self {
            Shape::Circle { radius } => is_within(meters, radius).then_some(meters),
            Shape::Box { width, height } => {
                let north = distance_of_latitudes(position.1, center.1);
                let east = distance(position, (center.0, position.1));
                let inside = is_within(north, height / 2.0) && is_within(east, width / 2.0);
                inside.then_some(meters)
            }
        }
    }

    /// Returns the distances in meters from the center to the eastern and northern edges of the
    /// shape.
    fn reach(&self) -> (f64, f64) {
        match *self {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        }
    }

    /// Returns the bounding box of the shape in degrees.
    fn bounds(&self, center: Position) -> Area {
        let (east, north) = self.reach();
        let north = north / EARTH_RADIUS / RADIAN;
        // Use the edge nearer to the pole, where a degree of longitude is shortest.
        let side = if center.1 < 0.0 { -north } else { north };
        let east = east / EARTH_RADIUS / ((center.1 + side) * RADIAN).cos() / RADIAN;
        Area {
            longitude: (center.0 - east, center.0 + east),
            latitude: (center.1 - north, center.1 + north),
        }
    }

    /// Returns the number of bits per coordinate at which a block of nine cells covers the shape.
    fn steps(&self, latitude: f64) -> u32 {
        let (east, north) = self.reach();
        let mut meters = match *self {
            Shape::Circle { radius } => radius,
            Shape::Box { .. } => (east * east + north * north).sqrt(),
        };
        if meters == 0.0 {
            return STEPS_MAX;
        }
        let mut steps = 1_i32;
        while meters < MERCATOR_MAX {
            meters *= 2.0;
            steps += 1;
        }
        steps -= 2;
        // Use larger cells near the poles, where cells are narrower.
        steps -= i32::from(latitude.abs() > 66.0) + i32::from(latitude.abs() > 80.0);
        steps.clamp(1, STEPS_MAX as i32).unsigned_abs()
    }

    /// Returns the cells that cover the shape, in search order. Consecutive cells always differ,
    /// but a cell can occur again later if the cells wrap around the world.
    pub(crate) fn cells(&self, center: Position) -> Vec<Cell> {
        let bounds = self.bounds(center);
        let mut steps = self.steps(center.1);
        let mut cell = Cell::of(center, LATITUDE, steps);
        let is_near = cell.moved(0, 1).area().latitude.1 < bounds.latitude.1
            || cell.moved(0, -1).area().latitude.0 > bounds.latitude.0
            || cell.moved(1, 0).area().longitude.1 < bounds.longitude.1
            || cell.moved(-1, 0).area().longitude.0 > bounds.longitude.0;
        if steps > 1 && is_near {
            steps -= 1;
            cell = Cell::of(center, LATITUDE, steps);
        }
        let area = cell.area();
        let useless = |east: i32, north: i32| {
            steps >= 2
                && (north < 0 && area.latitude.0 < bounds.latitude.0
                    || north > 0 && area.latitude.1 > bounds.latitude.1
                    || east < 0 && area.longitude.0 < bounds.longitude.0
                    || east > 0 && area.longitude.1 > bounds.longitude.1)
        };
        let mut cells: Vec<Cell> = Vec::with_capacity(9);
        for (east, north) in [
            (0, 0),
            (0, 1),
            (0, -1),
            (1, 0),
            (-1, 0),
            (1, 1),
            (-1, 1),
            (1, -1),
            (-1, -1),
        ] {
            let next = cell.moved(east, north);
            let again = cells.len() > 1 && cells.last() == Some(&next);
            if !useless(east, north) && !again {
                cells.push(next);
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gather_is_the_inverse_of_spread() {
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..1000 {
            let value = random.u32(..);
            assert_eq!(gather(spread(value)), value);
            assert_eq!(spread(value) & 0xaaaa_aaaa_aaaa_aaaa, 0);
        }
    }

    #[test]
    fn decoded_position_is_in_the_cell_of_the_original() {
        let mut random = fastrand::Rng::with_seed(10);
        for _ in 0..10_000 {
            let position = (random.f64() * 360.0 - 180.0, random.f64() * 170.0 - 85.0);
            let back = decode(encode(position));
            assert!(distance(position, back) < 0.6, "{position:?} {back:?}");
        }
        // The expected values come from a real Redis server.
        assert_eq!(encode((13.361389, 38.115556)), 3_479_099_956_230_698.0);
        assert_eq!(&letters(3_479_099_956_230_698.0), b"sqc8b49rny0");
    }

    #[test]
    fn cells_cover_all_positions_inside_the_shape() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..20_000 {
            let center = (random.f64() * 360.0 - 180.0, random.f64() * 150.0 - 75.0);
            let radius = 10_f64.powf(random.f64() * 5.0);
            let shape = Shape::Circle { radius };
            let near = (
                center.0 + (random.f64() - 0.5) * radius / 60_000.0,
                center.1 + (random.f64() - 0.5) * radius / 60_000.0,
            );
            if !is_valid(near) || shape.distance(center, decode(encode(near))).is_none() {
                continue;
            }
            let score = encode(near);
            let covered = shape.cells(center).into_iter().any(|cell| {
                let (low, high) = cell.scores();
                (low..high).contains(&score)
            });
            assert!(covered, "{center:?} {radius} {near:?}");
        }
    }
}
