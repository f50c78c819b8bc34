//! Writes the memory section of INFO.

use undercroft_engine::scripts::{SharedMemory, SharedTexts};
use undercroft_engine::{DATABASES, Statistics};

use super::fields::{line, title, zeros};
use crate::context::Context;
use crate::failure::Failure;
use crate::handlers::scripting;
use crate::session::ClientInfo;

/// Formats a size in bytes in human-readable form, such as `1.46M`.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let power = (bytes.ilog2() / 10).min(UNITS.len() as u32);
    let value = bytes as f64 / (1u64 << (10 * power)) as f64;
    format!("{value:.2}{}", UNITS[power as usize - 1])
}

/// Writes a size as two fields: in bytes, and in human-readable form.
fn size(name: &str, bytes: u64, out: &mut String) {
    line(name, bytes, out);
    line(&format!("{name}_human"), human(bytes), out);
}

/// Returns `part` as a percentage of `whole`, formatted as text.
fn percentage(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

fn ratio(more: u64, less: u64, out: &mut String, names: [&str; 2]) {
    let value = more as f64 / less.max(1) as f64;
    line(names[0], format_args!("{value:.2}"), out);
    line(names[1], more.saturating_sub(less), out);
}

/// Returns the machine's memory size in bytes, or 0 if it is unknown.
fn system_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The memory usage of a store, in bytes.
pub(crate) struct Figures {
    /// The memory used by keys, values and tables, which `maxmemory` limits.
    pub(crate) used: u64,
    /// The peak value of `used` that this process has observed.
    pub(crate) peak: u64,
    /// The memory for undo logs and the message ring (the buffer of published messages), which an
    /// empty store also requires.
    pub(crate) fixed: u64,
    /// The system memory that backs the store.
    pub(crate) backed: u64,
    /// The part of the backed memory that is allocated to shards.
    pub(crate) granted: u64,
    /// The memory used by blocked clients and by subscribers.
    pub(crate) waiting: u64,
    /// The number of each nonempty database, and the size of its tables.
    pub(crate) tables: Vec<(usize, u64)>,
    /// The memory statistics of the store, broken down by component.
    pub(crate) statistics: Statistics,
}

impl Figures {
    /// Collects the current memory statistics. A statistic that requires a locked shard is omitted
    /// until it can be measured in a later call.
    pub(crate) fn of(context: &Context<'_>) -> Figures {
        let store = &context.store;
        let statistics = store.statistics();
        let used = store.used_memory();
        let fixed = statistics.logs + statistics.ring;
        let backed = statistics.reserved + fixed;
        let tables = (0..DATABASES).map(|database| (database, store.table_bytes(database)));
        Figures {
            used,
            peak: context.host.statistics().see_memory(used),
            fixed,
            backed,
            granted: backed.saturating_sub(statistics.free).max(used + fixed),
            waiting: store.used_by_waiting().unwrap_or(0),
            tables: tables
                .filter_map(|(database, bytes)| {
                    Some((database, bytes.ok().filter(|bytes| *bytes > 0)?))
                })
                .collect(),
            statistics,
        }
    }

    /// Returns the amount of used memory that does not store keys or values.
    pub(crate) fn overhead(&self) -> u64 {
        let tables: u64 = self.tables.iter().map(|(_, bytes)| bytes).sum();
        self.waiting + tables
    }

    /// Returns the amount of memory that stores keys and values.
    pub(crate) fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.overhead())
    }
}

/// Returns the total memory that connections use, in bytes.
pub(crate) fn client_memory(clients: &[ClientInfo]) -> u64 {
    clients.iter().map(|client| client.memory() as u64).sum()
}

/// The memory that script and library texts use in the store.
pub(crate) struct Texts {
    pub(crate) scripts: SharedMemory,
    pub(crate) libraries: SharedMemory,
}

impl Texts {
    pub(crate) fn of(context: &Context<'_>) -> Result<Texts, Failure> {
        Ok(Texts {
            scripts: context.store.shared_memory(SharedTexts::Scripts)?,
            libraries: context.store.shared_memory(SharedTexts::Libraries)?,
        })
    }
}

/// Writes the fields about scripts and functions. Functions and scripts run in the same
/// interpreters, one per thread, so `used_memory_vm_eval` includes the memory of functions.
fn scripts(context: &Context<'_>, out: &mut String) -> Result<(), Failure> {
    let Texts { scripts, libraries } = Texts::of(context)?;
    let interpreter = context.host.process.interpreter;
    let interpreters = interpreter.map_or(0, |interpreter| interpreter.memory());
    size("used_memory_lua", interpreters, out);
    line("used_memory_vm_eval", interpreters, out);
    line("used_memory_scripts_eval", scripts.bytes, out);
    line("number_of_cached_scripts", scripts.texts, out);
    line(
        "number_of_functions",
        scripting::function_count(context)?,
        out,
    );
    line("number_of_libraries", libraries.texts, out);
    line("used_memory_vm_functions", 0, out);
    size("used_memory_vm_total", interpreters, out);
    line("used_memory_functions", libraries.bytes, out);
    size("used_memory_scripts", scripts.bytes + libraries.bytes, out);
    Ok(())
}

/// Writes the memory section of INFO.
pub(super) fn section(
    context: &Context<'_>,
    clients: &[ClientInfo],
    out: &mut String,
) -> Result<(), Failure> {
    let figures = Figures::of(context);
    let (overhead, dataset) = (figures.overhead(), figures.dataset());
    let Figures {
        used,
        peak,
        fixed,
        backed,
        granted,
        waiting,
        statistics,
        ..
    } = figures;
    title("Memory", out);
    size("used_memory", used, out);
    size("used_memory_rss", backed, out);
    size("used_memory_peak", peak, out);
    line("used_memory_peak_perc", percentage(used, peak), out);
    line("used_memory_overhead", overhead, out);
    // The amount of memory that an empty store uses.
    line("used_memory_startup", fixed, out);
    line("used_memory_dataset", dataset, out);
    line("used_memory_dataset_perc", percentage(dataset, used), out);
    line("used_memory_waiting", waiting, out);
    line("used_memory_undo_logs", statistics.logs, out);
    line("allocator_allocated", used + fixed, out);
    line("allocator_active", granted, out);
    line("allocator_resident", backed, out);
    size("total_system_memory", system_memory(), out);
    scripts(context, out)?;
    size("maxmemory", context.store.max_memory(), out);
    let policy = context.store.eviction().policy;
    line("maxmemory_policy", policy.name(), out);
    ratio(
        granted,
        used + fixed,
        out,
        ["allocator_frag_ratio", "allocator_frag_bytes"],
    );
    // Memory that is backed but not allocated to a shard is free, and is retained for reuse.
    ratio(
        backed,
        granted,
        out,
        ["allocator_rss_ratio", "allocator_rss_bytes"],
    );
    line("rss_overhead_ratio", "1.00", out);
    line("rss_overhead_bytes", 0, out);
    ratio(
        granted,
        used + fixed,
        out,
        ["mem_fragmentation_ratio", "mem_fragmentation_bytes"],
    );
    zeros(
        &[
            "mem_not_counted_for_evict",
            "mem_replication_backlog",
            "mem_total_replication_buffers",
            "mem_clients_slaves",
        ],
        out,
    );
    line("mem_clients_normal", client_memory(clients), out);
    zeros(&["mem_cluster_links", "mem_aof_buffer"], out);
    line("mem_allocator", "undercroft", out);
    line("store_capacity", statistics.capacity, out);
    line("store_free", statistics.free, out);
    zeros(&["active_defrag_running"], out);
    line("lazyfree_pending_objects", statistics.left_objects, out);
    line("mem_lazyfree_pending", statistics.left, out);
    zeros(&["lazyfreed_objects"], out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn sizes_are_formatted_for_people() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (1_535_968, "1.46M"),
            (1 << 30, "1.00G"),
            (u64::MAX, "16384.00P"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
