//! Implements `undercroft follow --promote`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use undercroft_embedded::OpenStore;
use undercroft_engine::{LinkStatus, Store};
use undercroft_links::follow::{
    FollowError, FollowOptions, FollowState, Follower, KeyFilter, Promotion, SourceUrl, promote,
};
use undercroft_links::load::LoadOptions;

use crate::arguments::follow::Follow;
use crate::failure::{Failure, Outcome, SUCCESS};
use crate::interrupt::Interrupt;
use crate::out::say;
use crate::replica::end_role;
use crate::size::{counted, grouped};
use crate::store::{self, Access};

/// The interval at which changes of the state are looked for.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn run(arguments: &Follow, url: SourceUrl) -> Outcome {
    let interrupt = Interrupt::catch()?;
    let mut store = store::open(arguments.store.name(), Access::Write)?;
    if !store.is_replica() {
        return Err(Failure::new(format_args!(
            "{} is no replica; follow the source first",
            store.path().display()
        )));
    }
    store.set_wait_hook(Box::new(interrupt.clone()));
    let mut applier = store::open(arguments.store.name(), Access::Write)?;
    applier.set_wait_hook(Box::new(interrupt.clone()));
    applier.apply_source();
    let open = OpenStore::passing(applier);
    let mut load = LoadOptions::new();
    load.drop_field_expiry = arguments.drop_field_expiry;
    // The store keeps the part of the source that it has.
    let filter = KeyFilter::of_bytes(&store.source_filter()?);
    let options = FollowOptions {
        url: url.clone(),
        load,
        filter: filter.clone(),
        // Another process follows, unless there is none or it dies.
        is_elected: true,
        listening_port: 0,
        is_server: false,
    };
    let pause = Duration::from_secs(arguments.pause);
    let (state, ends) = (FollowState::default(), AtomicBool::new(false));
    let stops = || interrupt.is_caught();
    let promoted = thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let stops = || interrupt.is_caught() || ends.load(Ordering::Acquire);
            Follower::new(&open.store, open.host(), options, &state, &stops).run()
        });
        let goes_on = || !interrupt.is_caught() && !follower.is_finished();
        let promoted = match wait_until_up(&store, &goes_on) {
            true => promote(&store, (&url, &filter), pause, &stops),
            false => Err(FollowError::Stopped),
        };
        ends.store(true, Ordering::Release);
        let followed = follower.join();
        match followed.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            // The source cannot be followed, so the store was never up to date.
            Err(error) if matches!(promoted, Err(FollowError::Stopped)) => Err(error),
            _ => promoted,
        }
    });
    match promoted {
        Ok(promotion) => {
            end_role(&store)?;
            report(&store, &promotion, arguments.pause);
            Ok(SUCCESS)
        }
        Err(FollowError::Stopped) => Err(Failure::interrupted(
            "the store stays a replica, and the writers of the source continue",
        )),
        Err(error) => Err(Failure::new(error)),
    }
}

/// Waits until a process follows the source and the store has a complete data set. Returns false if
/// `goes_on` returns false first.
fn wait_until_up(store: &Store, goes_on: &dyn Fn() -> bool) -> bool {
    while goes_on() {
        let link = store.source_link().ok().flatten();
        if link.is_some_and(|link| link.status == LinkStatus::Up) {
            return true;
        }
        thread::sleep(LOOK);
    }
    false
}

fn report(store: &Store, promotion: &Promotion, pause: u64) {
    let path = store.path().display();
    match promotion.masters {
        1 => say!(
            "{path} is no replica any more; it has all changes of the source up to position {}",
            grouped(promotion.offset)
        ),
        masters => say!(
            "{path} is no replica any more; it has all changes of the source's {masters} masters, \
             {} in total",
            counted(promotion.offset, "byte")
        ),
    }
    if promotion.databases.is_empty() {
        say!("  no keys on both sides");
    }
    for compared in &promotion.databases {
        say!(
            "  db {}: {} on both sides, {} compared",
            compared.database,
            counted(compared.keys, "key"),
            counted(compared.values, "value")
        );
    }
    say!(
        "the writers of the source are paused for {}; change them over to the store before they \
         continue",
        counted(pause, "second")
    );
}
