//! Defines the table rows for bitmap commands.

use crate::table::command::Command;
use crate::table::flags::{Category, Flag, Group, KeyFlag};
use crate::table::key_spec::KeySpec;
use crate::table::keys::{self, READ, REPLACE};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("setbit", 4, Group::Bitmap, "2.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Bitmap])
        .keys(keys::READ_AND_CHANGE_KEY)
        .doc(
            "key offset value",
            "O(1)",
            "Sets or clears a bit of a string, extending the string if necessary.",
        )
        .reply("integer: the previous bit"),
    Command::new("getbit", 3, Group::Bitmap, "2.2.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Bitmap])
        .keys(keys::READ_KEY)
        .doc(
            "key offset",
            "O(1)",
            "Returns the bit at an offset of a string.",
        )
        .reply("integer"),
    Command::new("bitcount", -2, Group::Bitmap, "2.6.0")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Bitmap])
        .keys(keys::READ_KEY)
        .doc(
            "key [start end [BYTE | BIT]]",
            "O(N) for a range of N bytes",
            "Counts the set bits in a string or in a range of it.",
        )
        .reply("integer"),
    Command::new("bitpos", -3, Group::Bitmap, "2.8.7")
        .flags(&[Flag::ReadOnly])
        .categories(&[Category::Bitmap])
        .keys(keys::READ_KEY)
        .doc(
            "key bit [start [end [BYTE | BIT]]]",
            "O(N) for a range of N bytes",
            "Finds the first set or clear bit in a string or in a range of it.",
        )
        .reply("integer: the position of the bit, or -1"),
    Command::new("bitop", -4, Group::Bitmap, "2.6.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Bitmap])
        .keys(const { &[KeySpec::second(REPLACE), KeySpec::all_from(3, READ)] })
        .doc(
            "AND | OR | XOR | NOT destkey key [key ...]",
            "O(N) where N is the total length of the strings",
            "Performs a bitwise operation on strings and stores the result.",
        )
        .reply("integer: the length of the result"),
    Command::new("bitfield", -2, Group::Bitmap, "3.2.0")
        .flags(&[Flag::Write, Flag::DenyOom])
        .categories(&[Category::Bitmap])
        .keys(
            const {
                &[KeySpec::first(&[
                    KeyFlag::ReadWrite,
                    KeyFlag::Access,
                    KeyFlag::Update,
                    KeyFlag::VariableFlags,
                ])
                .notes("This command allows both access and modification of the key")]
            },
        )
        .doc(
            "key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] <SET encoding offset value | \
             INCRBY encoding offset increment> ...]",
            "O(1) for each subcommand",
            "Reads and changes integers of arbitrary width at bit offsets of a string.",
        )
        .reply("array of integer or null; null if OVERFLOW FAIL rejected the change"),
    Command::new("bitfield_ro", -2, Group::Bitmap, "6.0.0")
        .flags(&[Flag::ReadOnly, Flag::Fast])
        .categories(&[Category::Bitmap])
        .keys(keys::READ_KEY)
        .doc(
            "key [GET encoding offset [GET encoding offset ...]]",
            "O(1) for each subcommand",
            "The read-only variant of BITFIELD.",
        )
        .reply("array of integer"),
];
