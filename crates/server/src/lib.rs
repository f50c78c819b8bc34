//! Serves a store over the Redis protocol.
