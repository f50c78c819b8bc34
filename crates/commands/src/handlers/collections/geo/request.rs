//! Parses the arguments of GEOSEARCH, GEORADIUS and their variants.

use crate::algorithms::double::parse_double;
use crate::algorithms::geohash::{Position, Shape, is_valid};
use crate::arguments::{CommandError, integer, is_keyword};

/// The order of the search results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Unsorted, in the order in which the search finds members.
    None,
    /// Sorted by distance from the center, nearest first.
    Nearest,
    /// Sorted by distance from the center, farthest first.
    Farthest,
}

/// The command whose arguments are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeoCommand {
    /// GEORADIUS, which can store its results, or GEORADIUS_RO, which cannot.
    Radius { stores: bool },
    /// GEORADIUSBYMEMBER, which can store its results, or GEORADIUSBYMEMBER_RO, which cannot.
    Member { stores: bool },
    /// The GEOSEARCH command.
    Search,
    /// The GEOSEARCHSTORE command.
    SearchStore,
}

impl GeoCommand {
    fn searches(self) -> bool {
        matches!(self, GeoCommand::Search | GeoCommand::SearchStore)
    }

    fn may_store(self) -> bool {
        matches!(
            self,
            GeoCommand::Radius { stores: true } | GeoCommand::Member { stores: true }
        )
    }
}

/// The key in which the results are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    pub(super) key: &'a [u8],
    /// Whether distances are stored as scores (STOREDIST).
    pub(super) distances: bool,
}

/// The parsed arguments of a search. The center or the shape is `None` only if the key does not
/// exist.
#[derive(Clone, Debug)]
pub(super) struct Request<'a> {
    pub(super) center: Option<Position>,
    pub(super) shape: Option<Shape>,
    /// The length of the distance unit in meters.
    pub(super) meters: f64,
    pub(super) order: Order,
    /// The maximum number of results. 0 means no limit.
    pub(super) count: u64,
    /// Whether any matches are acceptable, not only the nearest ones (ANY).
    pub(super) any: bool,
    pub(super) with_distance: bool,
    pub(super) with_score: bool,
    pub(super) with_position: bool,
    pub(super) target: Option<Target<'a>>,
}

/// Parses a longitude and a latitude into a position.
pub(super) fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, CommandError> {
    let degrees = |argument| parse_double(argument).ok_or(CommandError::NOT_A_FLOAT);
    let position = (degrees(longitude)?, degrees(latitude)?);
    if is_valid(position) {
        return Ok(position);
    }
    let (longitude, latitude) = position;
    Err(CommandError::new(format!(
        "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
    )))
}

/// Returns the length of a distance unit in meters.
pub(super) fn unit(name: &[u8]) -> Result<f64, CommandError> {
    match name.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(CommandError::fixed(
            "ERR unsupported unit provided. please use M, KM, FT, MI",
        )),
    }
}

/// Parses the radius of a circle and its distance unit.
fn circle(radius: &[u8], name: &[u8]) -> Result<(Shape, f64), CommandError> {
    let radius = parse_double(radius).ok_or(CommandError::fixed("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(CommandError::fixed("ERR radius cannot be negative"));
    }
    let meters = unit(name)?;
    let radius = radius * meters;
    Ok((Shape::Circle { radius }, meters))
}

/// Parses the width and the height of a box and their distance unit.
fn rectangle(width: &[u8], height: &[u8], name: &[u8]) -> Result<(Shape, f64), CommandError> {
    let width = parse_double(width).ok_or(CommandError::fixed("ERR need numeric width"))?;
    let height = parse_double(height).ok_or(CommandError::fixed("ERR need numeric height"))?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::fixed(
            "ERR height or width cannot be negative",
        ));
    }
    let meters = unit(name)?;
    let (width, height) = (width * meters, height * meters);
    Ok((Shape::Box { width, height }, meters))
}

impl<'a> Request<'a> {
    /// Parses a command, including its name. `find` looks up the position of a member, and is
    /// called only if the key exists. If several errors apply, including errors of `find`, returns
    /// the same one as Redis.
    pub(super) fn parse<E: From<CommandError>>(
        arguments: &[&'a [u8]],
        command: GeoCommand,
        is_there: bool,
        find: impl FnMut(&[u8]) -> Result<Option<Position>, E>,
    ) -> Result<Request<'a>, E> {
        let mut parser = Parser {
            request: Request {
                center: None,
                shape: None,
                meters: 1.0,
                order: Order::None,
                count: 0,
                any: false,
                with_distance: false,
                with_score: false,
                with_position: false,
                target: None,
            },
            command,
            is_there,
            find,
            from_member: false,
            from_position: false,
            by_radius: false,
            by_box: false,
        };
        let mut rest = parser.read_fixed(arguments)?;
        while let [option, behind @ ..] = rest {
            rest = parser.read_option(option, behind)?;
        }
        parser.finish(arguments[0])
    }
}

/// A parser for the arguments of a search.
struct Parser<'a, F> {
    request: Request<'a>,
    command: GeoCommand,
    /// Whether the key exists.
    is_there: bool,
    /// The function that looks up the position of a member.
    find: F,
    from_member: bool,
    from_position: bool,
    by_radius: bool,
    by_box: bool,
}

impl<'a, F, E> Parser<'a, F>
where
    F: FnMut(&[u8]) -> Result<Option<Position>, E>,
    E: From<CommandError>,
{
    /// Parses the positional arguments. Returns the options that follow.
    fn read_fixed<'r>(&mut self, arguments: &'r [&'a [u8]]) -> Result<&'r [&'a [u8]], E> {
        Ok(match self.command {
            GeoCommand::Radius { .. } => {
                self.request.center = Some(position(arguments[2], arguments[3])?);
                self.set_shape(circle(arguments[4], arguments[5])?);
                &arguments[6..]
            }
            GeoCommand::Member { .. } => {
                if self.is_there {
                    self.set_center(arguments[2])?;
                    self.set_shape(circle(arguments[3], arguments[4])?);
                }
                &arguments[5..]
            }
            GeoCommand::Search => &arguments[2..],
            GeoCommand::SearchStore => {
                let (key, distances) = (arguments[1], false);
                self.request.target = Some(Target { key, distances });
                &arguments[3..]
            }
        })
    }

    /// Parses an option with its arguments. Returns the remaining options.
    fn read_option<'r>(
        &mut self,
        option: &[u8],
        behind: &'r [&'a [u8]],
    ) -> Result<&'r [&'a [u8]], E> {
        let searches = self.command.searches();
        let request = &mut self.request;
        match (option.to_ascii_uppercase().as_slice(), behind) {
            (b"WITHDIST", _) => request.with_distance = true,
            (b"WITHHASH", _) => request.with_score = true,
            (b"WITHCOORD", _) => request.with_position = true,
            (b"ANY", _) => request.any = true,
            (b"ASC", _) => request.order = Order::Nearest,
            (b"DESC", _) => request.order = Order::Farthest,
            (b"COUNT", [count, rest @ ..]) => {
                let count = u64::try_from(integer(count)?).unwrap_or(0);
                if count == 0 {
                    return Err(CommandError::fixed("ERR COUNT must be > 0").into());
                }
                request.count = count;
                return Ok(rest);
            }
            (b"STORE" | b"STOREDIST", [key, rest @ ..]) if self.command.may_store() => {
                let distances = is_keyword(option, "STOREDIST");
                request.target = Some(Target { key, distances });
                return Ok(rest);
            }
            (b"STOREDIST", _) if self.command == GeoCommand::SearchStore => {
                if let Some(target) = &mut request.target {
                    target.distances = true;
                }
            }
            _ if searches => return self.read_search_option(option, behind),
            _ => return Err(CommandError::SYNTAX.into()),
        }
        Ok(behind)
    }

    /// Parses an option for the center or the shape, which only GEOSEARCH and GEOSEARCHSTORE have.
    fn read_search_option<'r>(
        &mut self,
        option: &[u8],
        behind: &'r [&'a [u8]],
    ) -> Result<&'r [&'a [u8]], E> {
        match (option.to_ascii_uppercase().as_slice(), behind) {
            (b"FROMMEMBER", [member, rest @ ..]) if !self.from_position => {
                if self.is_there {
                    self.set_center(member)?;
                }
                self.from_member = true;
                Ok(rest)
            }
            (b"FROMLONLAT", [longitude, latitude, rest @ ..]) if !self.from_member => {
                self.request.center = Some(position(longitude, latitude)?);
                self.from_position = true;
                Ok(rest)
            }
            (b"BYRADIUS", [radius, name, rest @ ..]) if !self.by_box => {
                self.set_shape(circle(radius, name)?);
                self.by_radius = true;
                Ok(rest)
            }
            (b"BYBOX", [width, height, name, rest @ ..]) if !self.by_radius => {
                self.set_shape(rectangle(width, height, name)?);
                self.by_box = true;
                Ok(rest)
            }
            _ => Err(CommandError::SYNTAX.into()),
        }
    }

    /// Centers the search on the position of a member.
    fn set_center(&mut self, member: &[u8]) -> Result<(), E> {
        const NO_MEMBER: CommandError =
            CommandError::fixed("ERR could not decode requested zset member");
        self.request.center = Some((self.find)(member)?.ok_or(NO_MEMBER)?);
        Ok(())
    }

    fn set_shape(&mut self, (shape, meters): (Shape, f64)) {
        (self.request.shape, self.request.meters) = (Some(shape), meters);
    }

    /// Checks that the options are compatible. `name` is the command's name.
    fn finish(self, name: &[u8]) -> Result<Request<'a>, E> {
        let mut request = self.request;
        let shows = request.with_distance || request.with_score || request.with_position;
        if request.target.is_some() && shows {
            let what = match self.command {
                GeoCommand::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            return Err(CommandError::new(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            ))
            .into());
        }
        let missing = |what: &str| {
            let before = format!("ERR exactly one of {what} can be specified for ");
            Err(CommandError::from_parts(&[before.as_bytes(), name]).into())
        };
        let searches = self.command.searches();
        if searches && !(self.from_member || self.from_position) {
            return missing("FROMMEMBER or FROMLONLAT");
        }
        if searches && !(self.by_radius || self.by_box) {
            return missing("BYRADIUS and BYBOX");
        }
        if request.any && request.count == 0 {
            return Err(CommandError::fixed("ERR the ANY argument requires COUNT argument").into());
        }
        if request.count > 0 && request.order == Order::None && !request.any {
            request.order = Order::Nearest;
        }
        Ok(request)
    }
}
