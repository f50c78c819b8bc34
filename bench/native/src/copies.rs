//! Measures a writer's longest write in three cases: while another process copies the store, while
//! no other process runs, and while another process only uses CPU time. The last case shows how
//! much delay the machine's scheduler adds.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use undercroft_engine::{Error, Store};

use crate::fresh_store;
use crate::lists::Chance;

#[derive(Args)]
pub(crate) struct Work {
    /// The amount of data in the store, in MiB of used blocks.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// The largest size of a value in bytes; the smallest is half of it.
    #[arg(long, default_value_t = 1000)]
    value: usize,
    /// The number of rounds with a copy, and the number of rounds without a copy.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// The number of writes per second, or 0 to write without pauses.
    #[arg(long, default_value_t = 0)]
    writes: u64,
    /// Internal: the store of the child process.
    #[arg(long, hide = true)]
    store: Option<PathBuf>,
    /// Internal: the number of keys of the child process.
    #[arg(long, hide = true)]
    keys: Option<usize>,
}

/// The process that runs concurrently with the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbor {
    Nothing,
    Computing,
    Copying,
}

fn key(index: usize) -> Vec<u8> {
    format!("key:{index:012}").into_bytes()
}

fn microseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |elapsed| elapsed.as_micros() as u64)
}

impl Work {
    pub(crate) fn run(&self) {
        match (&self.store, self.keys) {
            (Some(path), Some(keys)) => self.write(path, keys),
            _ => self.compare(),
        }
    }

    fn compare(&self) {
        let (_directory, store) = fresh_store(16 << 30);
        let mut keys = 0;
        while store.used_memory() < self.mib << 20 {
            let value = vec![b'v'; self.value];
            store.set(0, &key(keys), &value).expect("room");
            keys += 1;
        }
        let mut longest = [const { Vec::new() }; 3];
        let mut running = [const { Vec::new() }; 3];
        let mut writes = [const { Vec::new() }; 3];
        let (mut seconds, mut until_first) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            for beside in [Neighbor::Nothing, Neighbor::Computing, Neighbor::Copying] {
                let writer = self.start(store.path(), keys);
                let (start, long) = (microseconds(), Instant::now());
                match beside {
                    Neighbor::Nothing => std::thread::sleep(Duration::from_secs(1)),
                    Neighbor::Computing => while long.elapsed() < Duration::from_secs(1) {},
                    Neighbor::Copying => {
                        let (mut shown, mut first) = (0, None);
                        let copied = store.snapshot(|item| {
                            first.get_or_insert_with(|| long.elapsed().as_secs_f64());
                            shown += item.items.get(0).len();
                            Ok::<_, Error>(())
                        });
                        copied.expect("a copy");
                        assert!(shown >= keys * self.value / 2);
                        until_first.extend(first);
                        seconds.push(long.elapsed().as_secs_f64());
                    }
                }
                let (most, kept, count) = figures(writer, start, microseconds());
                longest[beside as usize].push(most);
                running[beside as usize].push(kept);
                writes[beside as usize].push(count as f64 / long.elapsed().as_secs_f64());
            }
        }
        let [nothing, computing, copying] = longest;
        println!(
            "{{\"mib\":{},\"keys\":{keys},\"seconds\":{seconds:?},\"until_first\":{until_first:?},\"longest_ms\":{nothing:?},\
             \"longest_computing_ms\":{computing:?},\"longest_copying_ms\":{copying:?},\
             \"running_ms\":{:?},\"running_computing_ms\":{:?},\"running_copying_ms\":{:?},\
             \"writes\":{:?},\"writes_computing\":{:?},\"writes_copying\":{:?}}}",
            self.mib, running[0], running[1], running[2], writes[0], writes[1], writes[2]
        );
    }

    /// Starts the writer and waits for its first write.
    fn start(&self, path: &Path, keys: usize) -> Child {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["copies", "--store"])
            .arg(path)
            .args(["--keys", &keys.to_string()])
            .args(["--value", &self.value.to_string()])
            .args(["--writes", &self.writes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::with_capacity(1, out)
            .read_line(&mut line)
            .expect("a line");
        child
    }

    /// Writes until standard input ends, then prints each long write and the total number of
    /// writes.
    fn write(&self, path: &Path, keys: usize) {
        let store = Store::open(path, true).expect("the store");
        let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = done.clone();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_line(&mut String::new());
            seen.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let mut chance = Chance(7);
        let value = vec![b'w'; self.value];
        let pause = (self.writes > 0).then(|| Duration::from_secs_f64(1.0 / self.writes as f64));
        // Each entry contains the start, the duration, and whether the system preempted the thread.
        let mut long: Vec<(u64, u64, u64)> = Vec::new();
        let mut preempted = preemptions();
        let mut count = 0_u64;
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let key = key((chance.next() % keys as u64) as usize);
            // The lengths vary, so that each write allocates and frees blocks.
            let length = self.value - (chance.next() % (self.value as u64 / 2)) as usize;
            let start = Instant::now();
            store.set(0, &key, &value[..length]).expect("room");
            let took = start.elapsed().as_nanos() as u64;
            count += 1;
            if took > 20_000 || count == 2000 {
                let now = preemptions();
                long.push((microseconds(), took, now - preempted));
                preempted = now;
            }
            if count == 2000 {
                println!("writing");
            }
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
        }
        println!("{count}");
        for (at, took, preempted) in long {
            println!("{at} {took} {preempted}");
        }
    }
}

/// Returns how many times the system has preempted this thread.
fn preemptions() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("a thread's status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .expect("a count")
}

/// Returns the longest write between two moments in milliseconds, the longest write without a
/// preemption of the thread, and the total number of writes.
fn figures(mut writer: Child, start: u64, end: u64) -> (f64, f64, u64) {
    drop(writer.stdin.take());
    let out = BufReader::new(writer.stdout.take().expect("a pipe"));
    let mut lines = out.lines().map(|line| line.expect("a line"));
    let count = lines
        .next()
        .and_then(|line| line.parse().ok())
        .expect("a count");
    let (mut longest, mut running) = (0, 0);
    for line in lines {
        let numbers: Vec<u64> = line.split(' ').flat_map(str::parse).collect();
        let [at, took, preempted] = numbers[..] else {
            panic!("expected three numbers, got {line:?}");
        };
        if (start..=end + took / 1000).contains(&at) {
            longest = longest.max(took);
            if preempted == 0 {
                running = running.max(took);
            }
        }
    }
    writer.wait().expect("the writer ends");
    (longest as f64 / 1e6, running as f64 / 1e6, count)
}
