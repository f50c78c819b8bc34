//! Redis data structures on shared memory: keys, values, time.
