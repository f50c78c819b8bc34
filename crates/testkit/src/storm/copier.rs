//! Runs a process that repeatedly copies the store, and checks that each copy is a consistent
//! snapshot.

use std::collections::BTreeMap;
use std::path::Path;

use undercroft_engine::{Error, Store};
use undercroft_memory as memory;

use super::accounts::check_balances;
use super::{
    APPENDED, COUNTERS, GROUPS, NAMES, Progress, RENAMED, SEALED, appended_key, counter_key, group,
    group_name, renamed_key, sealed_key, values,
};

/// The keys and values of database 0 in one copy.
type Shown = BTreeMap<Vec<u8>, Vec<u8>>;

/// Copies the store until the process is killed. Returns only if a check fails.
pub fn run(path: &Path, progress: &Path) -> Result<(), String> {
    let say = |error: Error| error.to_string();
    let store = Store::open(path, true).map_err(say)?;
    let progress = Progress::open(progress).map_err(|error| error.to_string())?;
    let mut counters = [0; COUNTERS as usize];
    loop {
        let mut shown = Shown::new();
        let mut strange = None;
        let copied = store.snapshot(|item| {
            let value = item.items.iter().next().unwrap_or_default();
            if item.database == 0 {
                if shown.insert(item.key.to_vec(), value.to_vec()).is_some() {
                    strange = Some(format!("{:?} is shown twice", item.key));
                }
            } else if !item.key.starts_with(b"many:") || value != b"one of many" {
                strange = Some(format!("a strange key: {:?}", item.key));
            }
            Ok::<_, Error>(())
        });
        match copied {
            // On each of several attempts, another copier started its copy first.
            Err(Error::Memory(error)) if matches!(*error, memory::Error::Copying { .. }) => {
                continue;
            }
            copied => copied.map_err(say)?,
        };
        if let Some(strange) = strange {
            return Err(strange);
        }
        check(&shown, &mut counters)?;
        progress.operation(0);
    }
}

fn check(shown: &Shown, counters: &mut [u64]) -> Result<(), String> {
    let sealed = (0..SEALED).map(sealed_key);
    for (key, value) in sealed.filter_map(|key| shown.get_key_value(&key)) {
        values::check_sealed(key, value)?;
    }
    let appended = (0..APPENDED).map(appended_key);
    for (key, value) in appended.filter_map(|key| shown.get_key_value(&key)) {
        values::check_records(key, value)?;
    }
    for value in (0..NAMES).filter_map(|name| shown.get(&renamed_key(name))) {
        values::check_sealed(RENAMED, value)?;
    }
    for index in 0..GROUPS {
        let members: Vec<_> = group(index).iter().map(|key| shown.get(key)).collect();
        if members.iter().any(|value| *value != members[0]) {
            return Err(format!("group {index} is torn apart"));
        }
        if let Some(value) = members[0] {
            values::check_sealed(&group_name(index), value)?;
        }
    }
    check_balances(|account| shown.get(account).cloned())?;
    for (index, last) in (0..).zip(counters) {
        let text = shown
            .get(&counter_key(index))
            .map_or(&b"0"[..], Vec::as_slice);
        let text = String::from_utf8_lossy(text);
        let now = text.parse().map_err(|_| format!("a counter of {text:?}"))?;
        if now < *last {
            return Err(format!("counter {index} went from {last} back to {now}"));
        }
        *last = now;
    }
    Ok(())
}
