//! Crash-safe shared memory: the mapped store file, its process table, locks, undo logs and heap.
