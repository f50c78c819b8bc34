//! Defines the table rows for geospatial commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group};
use crate::table::key_spec::KeySpec;
use crate::table::keys::{self, READ, REPLACE};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("geoadd", -5, Group::Geo, "3.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Geo])
        .keys(keys::CHANGE_KEY)
        .doc(
            "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
            "O(log(N)) for each member",
            "Adds members to a geospatial index or changes their positions.",
        )
        .reply("integer: number of added members; with CH number of added and changed members"),
    Command::new("geopos", -2, Group::Geo, "3.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Geo])
        .keys(keys::READ_KEY)
        .doc(
            "key [member [member ...]]",
            "O(N) for N members",
            "Returns the longitude and latitude of members.",
        )
        .reply("array of pairs of double, or null"),
    Command::new("geodist", -4, Group::Geo, "3.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Geo])
        .keys(keys::READ_KEY)
        .doc(
            "key member1 member2 [M | KM | FT | MI]",
            "O(1)",
            "Returns the distance between two members of a geospatial index.",
        )
        .reply("bulk or null"),
    Command::new("geohash", -2, Group::Geo, "3.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Geo])
        .keys(keys::READ_KEY)
        .doc(
            "key [member [member ...]]",
            "O(N) for N members",
            "Returns the geohash strings of members.",
        )
        .reply("array of bulk or null"),
    Command::new("geosearch", -7, Group::Geo, "6.2.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Geo])
        .keys(keys::READ_KEY)
        .doc(
            "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT \
             | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] \
             [WITHCOORD] [WITHDIST] [WITHHASH]",
            "O(N+log(M)) for N of M members in the searched cells",
            "Returns the members within a circle or a box.",
        )
        .reply("array of bulk; with WITH options array of arrays"),
    Command::new("geosearchstore", -8, Group::Geo, "6.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Geo])
        .keys(keys::STORE_ONE)
        .doc(
            "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS \
             radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] \
             [COUNT count [ANY]] [STOREDIST]",
            "O(N+log(M)) for N of M members in the searched cells",
            "Stores the members within a circle or a box in a sorted set.",
        )
        .reply("integer: number of members in the result"),
    Command::new("georadius", -6, Group::Geo, "3.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[Category::Geo])
        .keys(
            const {
                &[
                    KeySpec::first(READ),
                    KeySpec::keyword("STORE", 6, 0, REPLACE),
                    KeySpec::keyword("STOREDIST", 6, 0, REPLACE),
                ]
            },
        )
        .doc(
            "key longitude latitude radius M | KM | FT | MI [WITHCOORD] [WITHDIST] \
             [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]",
            "O(N+log(M)) for N of M members in the searched cells",
            "Returns or stores the members within a radius of a position.",
        )
        .reply("array of bulk; with WITH options array of arrays; with STORE or STOREDIST integer")
        .deprecated(
            "6.2.0",
            "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
        ),
    Command::new("georadius_ro", -6, Group::Geo, "3.2.10")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Geo])
        .keys(keys::READ_KEY)
        .doc(
            "key longitude latitude radius M | KM | FT | MI [WITHCOORD] [WITHDIST] \
             [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
            "O(N+log(M)) for N of M members in the searched cells",
            "The read-only variant of GEORADIUS.",
        )
        .reply("array of bulk; with WITH options array of arrays")
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument"),
    Command::new("georadiusbymember", -5, Group::Geo, "3.2.0")
        .flags(&[Flag::Write, Flag::DenyOom, Flag::MovableKeys])
        .categories(&[Category::Geo])
        .keys(
            const {
                &[
                    KeySpec::first(READ),
                    KeySpec::keyword("STORE", 5, 0, REPLACE),
                    KeySpec::keyword("STOREDIST", 5, 0, REPLACE),
                ]
            },
        )
        .doc(
            "key member radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
             count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]",
            "O(N+log(M)) for N of M members in the searched cells",
            "Returns or stores the members within a radius of a member.",
        )
        .reply("array of bulk; with WITH options array of arrays; with STORE or STOREDIST integer")
        .deprecated(
            "6.2.0",
            "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
        ),
    Command::new("georadiusbymember_ro", -5, Group::Geo, "3.2.10")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Geo])
        .keys(keys::READ_KEY)
        .doc(
            "key member radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT \
             count [ANY]] [ASC | DESC]",
            "O(N+log(M)) for N of M members in the searched cells",
            "The read-only variant of GEORADIUSBYMEMBER.",
        )
        .reply("array of bulk; with WITH options array of arrays")
        .deprecated(
            "6.2.0",
            "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
        ),
];
