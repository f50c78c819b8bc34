//! Measures readers concurrent with a writer, and how much a second reader slows down the first.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use undercroft_engine::{Ranges, Store};

use crate::fresh_store;
use crate::lists::{self, Chance};

#[derive(Args)]
pub(crate) struct Work {
    /// The number of keys.
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// The number of interleaved rounds with one reader and with two.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// The length of a round in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// The number of writes per second; the writer sleeps between writes.
    #[arg(long, default_value_t = 10_000)]
    writes: u64,
    /// The length of a list: the writer pushes at its tail while the readers read ranges of it.
    /// With 0, the writer and the readers use keys instead.
    #[arg(long, default_value_t = 0)]
    list: u64,
    /// Internal: the role of the child process.
    #[arg(long, hide = true)]
    part: Option<String>,
    /// Internal: the store of the child process.
    #[arg(long, hide = true)]
    store: Option<PathBuf>,
}

fn key(index: usize) -> [u8; 16] {
    format!("key:{index:012}")
        .into_bytes()
        .try_into()
        .expect("16 bytes")
}

impl Work {
    pub(crate) fn run(&self) {
        match (self.part.as_deref(), &self.store) {
            (Some("read"), Some(path)) => self.read(path),
            (Some("write"), Some(path)) => self.write(path),
            _ => self.compare(),
        }
    }

    fn compare(&self) {
        let (_directory, store) = fresh_store(4 << 30);
        if self.list > 0 {
            lists::fill(&store, lists::Items::Texts, self.list);
        } else {
            for index in 0..self.keys {
                store.set(0, &key(index), &[b'v'; 64]).expect("room");
            }
        }
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let mut writes = Vec::new();
        for _ in 0..self.rounds {
            for (count, rates) in [(1, &mut one), (2, &mut two)] {
                let writer = self.start("write", store.path());
                let readers: Vec<Child> = (0..count)
                    .map(|_| self.start("read", store.path()))
                    .collect();
                let each: Vec<f64> = readers.into_iter().map(figure).collect();
                rates.push(each.iter().sum::<f64>() / each.len() as f64);
                writes.push(figure(writer));
            }
        }
        println!(
            "{{\"one_reads_per_cpu_second\": {one:?}, \"two_reads_per_cpu_second\": {two:?}, \
             \"writes_per_second\": {writes:?}}}"
        );
    }

    fn start(&self, part: &str, store: &Path) -> Child {
        Command::new(std::env::current_exe().expect("this program's path"))
            .args(["readers", "--part", part, "--store"])
            .arg(store)
            .args(["--keys", &self.keys.to_string()])
            .args(["--list", &self.list.to_string()])
            .args(["--seconds", &self.seconds.to_string()])
            .args(["--writes", &self.writes.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child process")
    }

    fn read(&self, path: &Path) {
        let store = Store::open(path, true).expect("a store");
        let mut out = Vec::with_capacity(64);
        let mut ranges = Ranges::new();
        let mut chance = Chance(u64::from(std::process::id()) | 1);
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let mut reads = 0_u64;
        while start.elapsed() < Duration::from_secs_f64(self.seconds) {
            for _ in 0..1000 {
                let number = chance.next();
                if self.list > 0 {
                    let position = number % (self.list / 2);
                    lists::range(&store, position as i64, &mut ranges);
                    continue;
                }
                out.clear();
                let found = store.get(0, &key_of(number, self.keys), &mut out);
                assert!(found.expect("readable") && out[0] == out[63]);
            }
            reads += 1000;
        }
        println!("{}", reads as f64 / (cpu_seconds() - cpu));
    }

    fn write(&self, path: &Path) {
        let store = Store::open(path, true).expect("a store");
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        let pause = Duration::from_secs_f64(1.0 / self.writes as f64);
        let start = Instant::now();
        let mut writes = 0_u64;
        while start.elapsed() < Duration::from_secs_f64(self.seconds) {
            // A sleep takes longer than requested, so the writer catches up in small bursts.
            let due = (start.elapsed().as_secs_f64() * self.writes as f64) as u64;
            while writes < due {
                let number = chance.next();
                if self.list > 0 {
                    lists::push(&store, number);
                } else {
                    let value = [b'a' + (number % 26) as u8; 64];
                    store
                        .set(0, &key_of(number, self.keys), &value)
                        .expect("room");
                }
                writes += 1;
            }
            std::thread::sleep(pause);
        }
        println!("{}", writes as f64 / start.elapsed().as_secs_f64());
    }
}

/// Returns a random key without the cost of formatting it.
fn key_of(random: u64, keys: usize) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut left = random % keys as u64;
    for place in key[4..].iter_mut().rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
    }
    key
}

fn figure(mut child: Child) -> f64 {
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    assert!(child.wait().expect("the child").success());
    line.trim().parse().expect("a number")
}

/// Returns the CPU seconds that this process has used, user and system.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("the scheduler's figures");
    let nanoseconds: f64 = text
        .split(' ')
        .next()
        .expect("a field")
        .parse()
        .expect("a number");
    nanoseconds / 1e9
}
