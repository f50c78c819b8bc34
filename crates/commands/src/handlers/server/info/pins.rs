//! Writes the INFO section about long values that are being read in place (R7): which process reads
//! each value, for how long, and how much memory the value pins.

use super::fields::{line, title};
use crate::context::Context;

pub(super) fn section(context: &Context<'_>, out: &mut String) {
    let pins = context.store.pins();
    let now = context.store.now();
    title("Pins", out);
    line("pinned_values", pins.len(), out);
    let bytes: u64 = pins.iter().map(|pin| pin.bytes).sum();
    line("pinned_bytes", bytes, out);
    for (number, pin) in pins.iter().enumerate() {
        let state = match (pin.lives, pin.parked) {
            (false, _) => "dead",
            (true, true) => "deleted",
            (true, false) => "read",
        };
        let figures = format_args!(
            "slot={},pid={},bytes={},age_ms={},state={state}",
            pin.slot,
            pin.pid,
            pin.bytes,
            now.saturating_sub(pin.since)
        );
        line(&format!("pin{number}"), figures, out);
    }
}
