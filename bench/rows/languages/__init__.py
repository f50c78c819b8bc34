"""Rows of Rust, of the C library and of PHP.

- `caches`: rows of the Rust crate's caches, compared with other clients of Redis.
- `interface`: rows of the C interface, compared with the engine's calls from Rust.
- `native`: rows that native code measures: Rust, readers, memory, opening, instructions.
- `php`: rows of the PHP client, pure and with the extension, compared with Predis, phpredis and
  APCu.
"""
