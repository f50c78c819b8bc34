//! Defines the options of the subcommand `tls`.

use std::path::PathBuf;

use clap::Args;

/// Make certificates for encrypted connections
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  undercroft tls init certificates
  undercroft tls init certificates --host cache.example.com --host 192.0.2.7")]
pub(crate) struct Tls {
    #[command(subcommand)]
    pub(crate) action: TlsAction,
}

/// The operation on certificates.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TlsAction {
    Init(Init),
}

/// Make a private authority, and the certificates of a server and a client, to start with
#[derive(Debug, Args)]
#[command(after_help = "\
Writes ca.pem, server.pem and client.pem, each with its private key (.key), which only you may read. Existing files are \
never replaced. With ca.key, certificates can be issued that the server and its clients accept: keep it offline, or remove it once all \
certificates are issued.

Example:
  undercroft tls init certificates --host cache.example.com
  undercroft serve --port 0 --tls-port 6380 --tls-cert-file certificates/server.pem \\
      --tls-key-file certificates/server.key --tls-ca-cert-file certificates/ca.pem
  redis-cli --tls -p 6380 --cacert certificates/ca.pem --cert certificates/client.pem --key certificates/client.key")]
pub(crate) struct Init {
    /// Folder for the files; a missing one is created
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Name or address under which clients reach the server, in addition to localhost, 127.0.0.1 and ::1; can be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Name in the client's certificate
    #[arg(long, value_name = "NAME", default_value = "client")]
    pub(crate) client: String,
    /// Days for which the certificates are valid; the authority is valid for ten times as long
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,
}
