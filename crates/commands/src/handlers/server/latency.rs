//! Implements LATENCY, which reports slow events and the latency distributions of commands.

use std::fmt::Write as _;

use crate::arguments::CommandError;
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::statistics::Distribution;
use crate::statistics::latency::{Event, Samples};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("latency|doctor", doctor),
    ("latency|graph", graph),
    ("latency|histogram", histogram),
    ("latency|history", history),
    ("latency|latest", latest),
    ("latency|reset", reset),
];

/// The maximum height of a latency graph in lines. `WIDTH` is the maximum width in columns.
const HEIGHT: i64 = 4;
const WIDTH: usize = 80;

/// Handles LATENCY LATEST.
fn latest(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let events = context.host.latency().all();
    reply.array(events.len());
    for (event, samples) in events {
        let last = samples.kept.back();
        reply.array(4);
        reply.bulk(event.name().as_bytes());
        reply.integer(last.map_or(0, |sample| sample.time));
        reply.integer(last.map_or(0, |sample| sample.milliseconds));
        reply.integer(samples.longest);
    }
    Ok(())
}

/// Handles LATENCY HISTORY.
fn history(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let samples = samples_of(context, arguments[2]).unwrap_or_default();
    reply.array(samples.kept.len());
    for sample in samples.kept {
        reply.array(2);
        reply.integer(sample.time);
        reply.integer(sample.milliseconds);
    }
    Ok(())
}

/// Handles LATENCY RESET.
fn reset(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let latency = context.host.latency();
    let named = arguments.get(2..).unwrap_or_default();
    let forgotten = if named.is_empty() {
        latency.forget_all()
    } else {
        let events = named.iter().filter_map(|name| Event::from_name(name));
        events.filter(|event| latency.forget(*event)).count()
    };
    reply.integer(forgotten as i64);
    Ok(())
}

/// Handles LATENCY GRAPH.
fn graph(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let name = arguments[2];
    let Some(samples) = samples_of(context, name) else {
        return Err(CommandError::quoting("ERR No samples available for event ", name, "").into());
    };
    let now = context.host.now_microseconds() / 1_000_000;
    let text = drawing(&String::from_utf8_lossy(name), &samples, now);
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Handles LATENCY DOCTOR.
fn doctor(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let latency = context.host.latency();
    let events = latency.all();
    let text = if events.is_empty() && !latency.watches() {
        "Latency monitoring is off: latency-monitor-threshold is 0. CONFIG SET \
         latency-monitor-threshold <milliseconds> records every event that takes at least this \
         long.\n"
            .to_owned()
    } else if events.is_empty() {
        "No event reached latency-monitor-threshold since it was set or since LATENCY RESET.\n"
            .to_owned()
    } else {
        report(&events)
    };
    reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Handles LATENCY HISTOGRAM.
fn histogram(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let all = context.host.statistics().distributions();
    let named = arguments.get(2..).unwrap_or_default();
    let of = |name: &'static str| all.iter().filter(move |(other, _)| *other == name);
    let shown: Vec<&(&str, Distribution)> = if named.is_empty() {
        all.iter().collect()
    } else {
        // The name of a container command also selects all its subcommands.
        let commands = named.iter().filter_map(|name| context.find_full(name));
        let names = commands.flat_map(|command| {
            let below = command.subcommands.iter().map(|below| below.name);
            std::iter::once(command.name).chain(below)
        });
        names.flat_map(of).collect()
    };
    reply.map(shown.len());
    for (name, distribution) in shown {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(distribution.calls as i64);
        reply.bulk(b"histogram_usec");
        reply.map(distribution.steps.len());
        for (microseconds, calls) in &distribution.steps {
            reply.integer(*microseconds as i64);
            reply.integer(*calls as i64);
        }
    }
    Ok(())
}

fn samples_of(context: &Context<'_>, name: &[u8]) -> Option<Samples> {
    context.host.latency().samples(Event::from_name(name)?)
}

/// Draws a graph of an event's latency with one column per sample. The age of each sample is
/// printed below its column.
fn drawing(name: &str, samples: &Samples, now: i64) -> String {
    let first = samples.kept.len().saturating_sub(WIDTH);
    let shown: Vec<_> = samples.kept.iter().skip(first).collect();
    let times = || shown.iter().map(|sample| sample.milliseconds);
    let (low, high) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        samples.longest,
        "-".repeat(WIDTH)
    );
    // The column of the lowest sample is one line high, and the column of the highest sample has
    // the full height of the graph.
    let height = |time: i64| {
        let part = i128::from(time - low) * i128::from(HEIGHT - 1);
        1 + (part / i128::from((high - low).max(1))) as i64
    };
    for line in (1..=HEIGHT).rev() {
        let columns = times().map(|time| match height(time) {
            top if top == line => '#',
            top if top > line => '|',
            _ => ' ',
        });
        let columns: String = columns.collect();
        let _ = writeln!(text, "{}", columns.trim_end());
    }
    let ages: Vec<String> = shown.iter().map(|sample| age(now - sample.time)).collect();
    let longest = ages.iter().map(String::len).max().unwrap_or(0);
    text.push('\n');
    for place in 0..longest {
        let letters = ages.iter().map(|age| {
            age.as_bytes()
                .get(place)
                .map_or(' ', |byte| char::from(*byte))
        });
        let letters: String = letters.collect();
        let _ = writeln!(text, "{}", letters.trim_end());
    }
    text
}

/// Formats a duration as an integer in the largest unit that is not longer than the duration.
fn age(seconds: i64) -> String {
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
    let unit = units.into_iter().find(|(length, _)| seconds >= *length);
    let (length, letter) = unit.unwrap_or((1, 's'));
    format!("{}{letter}", seconds.max(0) / length)
}

/// Describes the slow events, and suggests how to avoid them.
fn report(events: &[(Event, Samples)]) -> String {
    let mut text = "Latency events of this process:\n\n".to_owned();
    for (event, samples) in events {
        let count = samples.kept.len() as f64;
        let times = || samples.kept.iter().map(|sample| sample.milliseconds as f64);
        let mean = times().sum::<f64>() / count;
        let deviation = times().map(|time| (time - mean).abs()).sum::<f64>() / count;
        let _ = writeln!(
            text,
            "* {}: recorded in {count} seconds, {mean:.0} ms on average (mean deviation \
             {deviation:.0} ms), {} ms at most.",
            event.name(),
            samples.longest
        );
    }
    text.push_str("\nWhat to do:\n\n");
    for (event, _) in events {
        let advice = match event {
            Event::Command | Event::FastCommand => {
                "SLOWLOG GET shows the slow commands and their keys; SCAN and similar commands \
                 visit many keys in small steps."
            }
            Event::EvictionCycle => {
                "The store is at its maxmemory: a higher limit or shorter times to live reduce \
                 evictions."
            }
            Event::ExpireCycle => {
                "Many keys expire at the same moment: add random jitter to times to live."
            }
            Event::Upkeep => {
                "Large values or whole databases were deleted and are being freed in small steps."
            }
            Event::LockWait => {
                "Another process held a lock for a long time: it ran a long command, was stopped \
                 or got no CPU time. 'undercroft stat' shows which process holds each lock."
            }
            Event::FsyncAlways => {
                "The disk of the journal is slow: put the journal on a faster disk, or choose \
                 'appendfsync everysec', with which no command waits for it."
            }
        };
        let line = format!("* {advice}\n");
        if !text.contains(&line) {
            text.push_str(&line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::latency::Sample;

    #[test]
    fn latency_graph_has_one_column_per_sample() {
        let sample = |time, milliseconds| Sample { time, milliseconds };
        let samples = Samples {
            kept: [sample(40, 10), sample(100, 100), sample(159, 40)].into(),
            longest: 500,
        };
        let text = drawing("command", &samples, 160);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "command - high 100 ms, low 10 ms (all time high 500 ms)"
        );
        assert_eq!(lines[2..6], [" #", " |", " |#", "#||"]);
        assert_eq!(lines[7..], ["211", "mms"]);
    }
}
