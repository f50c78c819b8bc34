//! The options with which a connection becomes a replica of the server.

/// The options that a replica sends with REPLCONF, PSYNC and SYNC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaOptions {
    /// The port on which the replica listens, or 0 if it has not told.
    pub port: u16,
    /// The address under which the replica can be reached, or an empty string if it is the address
    /// of the connection.
    pub address: String,
    /// Whether the replica can receive a data set whose length is not known in advance.
    pub takes_unknown_length: bool,
    /// Whether the replica wants a data set but no changes after it.
    pub only_data_set: bool,
    /// Whether the data set contains keys.
    pub no_keys: bool,
    /// Whether the data set contains function libraries.
    pub no_libraries: bool,
    /// The part of the stream that the replica wants. `None` until it sends PSYNC or SYNC; the
    /// connection is then handed to the server's [`Replicas`](crate::context::Replicas).
    pub request: Option<ReplicaRequest>,
}

/// The part of a stream that a replica wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaRequest {
    /// SYNC: a data set and all later changes, without an acknowledgement of what was received.
    Everything,
    /// PSYNC: the changes of the stream with this id, from this offset on. If they are not available,
    /// a data set and all later changes.
    From {
        /// The replication id, or `?`.
        id: Vec<u8>,
        /// The number of bytes of the stream that the replica already has.
        offset: u64,
    },
}
