//! Sends a snapshot of the store to a replica.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};

use undercroft_commands::session::ReplicaOptions;
use undercroft_engine::keyspace::Snapshot;
use undercroft_engine::rdb::RdbVersion;
use undercroft_engine::{REPLICATION_ID, Store};
use undercroft_links::save::{Own, SaveError, SaveOptions, save};

use super::publisher::new_id;
use super::socket::Socket;
use crate::shared::state::Shared;

/// Sends a data set in the form that the replica understands.
pub(super) fn send(
    store: &Store,
    snapshot: &Snapshot<'_>,
    socket: &mut Socket<'_>,
    options: &ReplicaOptions,
) -> Result<(), SaveError> {
    let server = socket.server;
    let version = server.replica_version();
    let mut save_options = SaveOptions::new(version);
    save_options.skip_own = true;
    save_options.keys = !options.no_keys;
    // Redis has function libraries since 7.0.
    save_options.libraries = !options.no_libraries && version != RdbVersion::V9;
    if options.takes_unknown_length {
        // The replica recognizes the end of the data by these bytes.
        let mark: [u8; REPLICATION_ID] = new_id();
        socket.write_all(&[b"$EOF:", &mark[..], b"\r\n"].concat())?;
        let out = BufWriter::with_capacity(64 << 10, socket);
        let (mut out, saved) = save(store, snapshot, out, &save_options, &mut |_| true)?;
        out.write_all(&mark)?;
        out.flush()?;
        tell_about(server, &saved.left_out);
        return Ok(());
    }
    // The length comes first, so the data set is written to a file that has no name.
    let file = BufWriter::with_capacity(64 << 10, tempfile::tempfile()?);
    let (file, saved) = save(store, snapshot, file, &save_options, &mut |_| true)?;
    tell_about(server, &saved.left_out);
    let mut file: File = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    write!(socket, "${}\r\n", saved.length)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => socket.write_all(&buffer[..count])?,
        }
    }
}

fn tell_about(server: &Shared, left_out: &Own) {
    if !left_out.is_empty() {
        server.replicas.tell_left_out(format_args!("{left_out}"));
    }
}
