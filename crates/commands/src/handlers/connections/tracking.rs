//! Implements CLIENT TRACKING and the commands that belong to it, for clients that cache values.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::arguments::{CommandError, integer, is_keyword};
use crate::context::{Context, HandlerEntry};
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::session::{Caching, Tracking};

/// Maps each command in this file to its handler.
pub(crate) const HANDLERS: &[HandlerEntry] = &[
    ("client|tracking", tracking),
    ("client|caching", caching),
    ("client|trackinginfo", trackinginfo),
    ("client|getredir", getredir),
];

/// The options of CLIENT TRACKING.
#[derive(Default)]
struct Options<'a> {
    redirect: i64,
    prefixes: Vec<&'a [u8]>,
    broadcasts: bool,
    opts_in: bool,
    opts_out: bool,
    no_loop: bool,
}

fn parse<'a>(context: &Context<'_>, mut rest: &[&'a [u8]]) -> Result<Options<'a>, CommandError> {
    let mut options = Options::default();
    while let [option, behind @ ..] = rest {
        rest = behind;
        match (option.to_ascii_uppercase().as_slice(), behind) {
            (b"REDIRECT", [id, behind @ ..]) => {
                rest = behind;
                if options.redirect != 0 {
                    return Err(CommandError::fixed(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                options.redirect = integer(id)?;
                let own = context.session.id as i64;
                let id = u64::try_from(options.redirect).unwrap_or(0);
                if options.redirect != own && !context.host.connections.is_connected(id) {
                    return Err(CommandError::fixed(
                        "ERR The client ID you want redirect to does not exist",
                    ));
                }
            }
            (b"PREFIX", [prefix, behind @ ..]) => {
                rest = behind;
                options.prefixes.push(prefix);
            }
            (b"BCAST", _) => options.broadcasts = true,
            (b"OPTIN", _) => options.opts_in = true,
            (b"OPTOUT", _) => options.opts_out = true,
            (b"NOLOOP", _) => options.no_loop = true,
            _ => return Err(CommandError::SYNTAX),
        }
    }
    Ok(options)
}

/// Handles CLIENT TRACKING.
fn tracking(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let options = parse(context, &arguments[3..])?;
    if is_keyword(arguments[2], "OFF") {
        context.end_tracking();
    } else if is_keyword(arguments[2], "ON") {
        begin(context, &options)?;
    } else {
        return Err(CommandError::SYNTAX.into());
    }
    reply.ok();
    Ok(())
}

fn begin(context: &mut Context<'_>, options: &Options<'_>) -> Outcome {
    let before = context.session.tracking.as_deref();
    check(before, options)?;
    let mut now = Tracking {
        redirect: options.redirect.max(0) as u64,
        broadcasts: options.broadcasts,
        caching: match (options.opts_in, options.opts_out) {
            (true, _) => Caching::OptIn,
            (_, true) => Caching::OptOut,
            _ => Caching::Always,
        },
        no_loop: options.no_loop,
        ..Tracking::default()
    };
    if let Some(before) = before {
        now.is_broken = Arc::clone(&before.is_broken);
        now.caching_given = before.caching_given;
        now.prefixes.clone_from(&before.prefixes);
    }
    if options.broadcasts && options.prefixes.is_empty() {
        now.prefixes.push(Vec::new());
    }
    let prefixes = options.prefixes.iter().map(|prefix| prefix.to_vec());
    now.prefixes.extend(prefixes);
    now.prefixes.sort();
    now.prefixes.dedup();
    let origin = context
        .host
        .connections
        .begin_tracking(context.session, &now)?;
    now.is_broken.store(false, Ordering::Relaxed);
    now.origin = if now.no_loop { origin } else { 0 };
    context.session.tracking = Some(Box::new(now));
    context.choose_way();
    Ok(())
}

/// Checks that the options are compatible with each other and with the earlier tracking.
fn check(before: Option<&Tracking>, options: &Options<'_>) -> Result<(), CommandError> {
    if !options.broadcasts && !options.prefixes.is_empty() {
        return Err(CommandError::fixed(
            "ERR PREFIX option requires BCAST mode to be enabled",
        ));
    }
    if before.is_some_and(|before| before.broadcasts != options.broadcasts) {
        return Err(CommandError::fixed(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        ));
    }
    if options.broadcasts && (options.opts_in || options.opts_out) {
        return Err(CommandError::fixed(
            "ERR OPTIN and OPTOUT are not compatible with BCAST",
        ));
    }
    if options.opts_in && options.opts_out {
        return Err(CommandError::fixed(
            "ERR You can't specify both OPTIN mode and OPTOUT mode",
        ));
    }
    let caching = before.map_or(Caching::Always, |before| before.caching);
    if options.opts_in && caching == Caching::OptOut
        || options.opts_out && caching == Caching::OptIn
    {
        return Err(CommandError::fixed(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and \
             then re-enabling it with a different mode.",
        ));
    }
    let known = before.map_or(&[][..], |before| &before.prefixes);
    for (index, prefix) in options.prefixes.iter().enumerate() {
        let overlaps = |other: &[u8]| prefix.starts_with(other) || other.starts_with(prefix);
        let mut known = known.iter().map(Vec::as_slice);
        if let Some(other) = known.find(|other| overlaps(other)) {
            return Err(overlap(prefix, "an existing", other));
        }
        let mut later = options.prefixes[index + 1..].iter();
        if let Some(other) = later.find(|other| overlaps(other)) {
            return Err(overlap(prefix, "another provided", other));
        }
    }
    Ok(())
}

fn overlap(prefix: &[u8], which: &str, other: &[u8]) -> CommandError {
    CommandError::new(format!(
        "ERR Prefix '{}' overlaps with {which} prefix '{}'. Prefixes for a single client must not \
         overlap.",
        String::from_utf8_lossy(prefix),
        String::from_utf8_lossy(other)
    ))
}

/// Handles CLIENT CACHING.
fn caching(context: &mut Context<'_>, arguments: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let Some(tracking) = context.session.tracking.as_deref_mut() else {
        return Err(CommandError::fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
             OPTOUT mode enabled",
        )
        .into());
    };
    if is_keyword(arguments[2], "YES") {
        if tracking.caching != Caching::OptIn {
            return Err(CommandError::fixed(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            )
            .into());
        }
    } else if is_keyword(arguments[2], "NO") {
        if tracking.caching != Caching::OptOut {
            return Err(CommandError::fixed(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            )
            .into());
        }
    } else {
        return Err(CommandError::SYNTAX.into());
    }
    tracking.caching_given = true;
    reply.ok();
    Ok(())
}

/// Handles CLIENT TRACKINGINFO.
fn trackinginfo(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    let tracking = context.session.tracking.as_deref();
    let flags = match tracking {
        None => vec!["off"],
        Some(tracking) => [vec!["on"], tracking.flags()].concat(),
    };
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    for flag in flags {
        reply.bulk(flag.as_bytes());
    }
    reply.bulk(b"redirect");
    reply.integer(context.session.redirection());
    reply.bulk(b"prefixes");
    let prefixes = tracking.map_or(&[][..], |tracking| &tracking.prefixes);
    reply.array(prefixes.len());
    for prefix in prefixes {
        reply.bulk(prefix);
    }
    Ok(())
}

/// Handles CLIENT GETREDIR.
fn getredir(context: &mut Context<'_>, _: &[&[u8]], reply: &mut dyn Reply) -> Outcome {
    reply.integer(context.session.redirection());
    Ok(())
}
