//! Implements `undercroft follow`.

use std::thread;
use std::time::{Duration, Instant};

use undercroft_embedded::OpenStore;
use undercroft_engine::LinkStatus;
use undercroft_links::follow::{
    FollowError, FollowOptions, FollowState, Follower, KeyFilter, Progress,
};
use undercroft_links::load::LoadOptions;

use crate::arguments::follow::Follow;
use crate::failure::{Failure, Outcome, SUCCESS};
use crate::interrupt::Interrupt;
use crate::out::{say, tell};
use crate::replica::end_role;
use crate::size::{counted, grouped, human};
use crate::store::{self, Access};
use crate::subcommands::promote;

/// The interval at which changes of the state are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// The interval between two lines about a data set that is being loaded.
const BETWEEN: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &Follow) -> Outcome {
    if arguments.end {
        return end(arguments);
    }
    let url = arguments.source().map_err(Failure::usage)?;
    if arguments.promote {
        return promote::run(arguments, url);
    }
    let interrupt = Interrupt::catch()?;
    let mut store = store::open_or_create(arguments.store.name(), None)?;
    store.set_wait_hook(Box::new(interrupt.clone()));
    store.apply_source();
    let open = OpenStore::passing(store);
    let mut load = LoadOptions::new();
    load.drop_field_expiry = arguments.drop_field_expiry;
    say!("{} follows {url}", open.store.path().display());
    let options = FollowOptions {
        url,
        load,
        filter: KeyFilter {
            database: arguments.db.map(usize::from),
            prefix: arguments.prefix.clone().unwrap_or_default().into_bytes(),
        },
        is_elected: arguments.elect,
        listening_port: 0,
        is_server: false,
    };
    let state = FollowState::default();
    let ended = thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let stops = || interrupt.is_caught();
            Follower::new(&open.store, open.host(), options, &state, &stops).run()
        });
        let mut shown = Shown::default();
        while !follower.is_finished() {
            shown.show(&state.progress());
            thread::sleep(LOOK);
        }
        shown.show(&state.progress());
        follower.join()
    });
    match ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        Ok(()) | Err(FollowError::Stopped) if interrupt.is_caught() => {
            let kept = "the store stays a replica; continue with the same command, or end this with \
                        undercroft follow --end";
            Err(Failure::interrupted(kept.to_owned()))
        }
        Ok(()) => {
            say!("the store is no replica any more");
            Ok(SUCCESS)
        }
        Err(error) => Err(Failure::new(error)),
    }
}

/// Makes a replica an ordinary store.
fn end(arguments: &Follow) -> Outcome {
    let store = store::open(arguments.store.name(), Access::Write)?;
    if !store.is_replica() {
        return Err(Failure::new(format_args!(
            "{} is no replica",
            store.path().display()
        )));
    }
    store.set_replica(false)?;
    end_role(&store)?;
    say!(
        "{} is no replica any more; it has {}",
        store.path().display(),
        counted(
            (0..undercroft_engine::DATABASES)
                .map(|n| store.keys(n))
                .sum(),
            "key"
        )
    );
    Ok(SUCCESS)
}

/// The state that was last printed.
#[derive(Default)]
struct Shown {
    status: Option<LinkStatus>,
    error: Option<String>,
    loading: Option<Instant>,
}

impl Shown {
    /// Prints what has changed.
    fn show(&mut self, progress: &Progress) {
        if progress.error != self.error {
            self.error.clone_from(&progress.error);
            if let Some(error) = &progress.error {
                tell(format_args!("undercroft: {error}\n"));
            }
        }
        let is_new = self.status.replace(progress.status) != Some(progress.status);
        match progress.status {
            LinkStatus::Up if is_new => say!(
                "up to date at position {}: {}",
                grouped(progress.offset),
                match progress.full_resyncs {
                    0 => "continued without loading the data set".to_owned(),
                    _ => format!("loaded {}", counted(progress.loaded_keys, "key")),
                }
            ),
            LinkStatus::Loading
                if is_new || self.loading.is_none_or(|at| at.elapsed() >= BETWEEN) =>
            {
                self.loading = Some(Instant::now());
                say!("loading the data set: {}", human(progress.loaded_bytes));
            }
            _ => {}
        }
    }
}
