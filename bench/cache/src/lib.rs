//! The caches of the crate `undercroft` beside other clients of Redis, under the same loads.
//!
//! - `clients`: what is measured: ours and the peers, each as its documentation uses it.
//! - `load`: callers that ask again as soon as they are answered.
//! - `main`: the command line.
//! - `messages`: subscribers, and a publisher that all of them share.

pub mod clients;
pub mod load;
pub mod messages;

/// What goes wrong while measuring ends it.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where the server listens.
#[derive(Clone, clap::Args)]
pub struct Server {
    /// The server's unix socket.
    #[arg(long)]
    pub unix: String,
    /// The server's port on the loopback; with it, connections are TCP.
    #[arg(long)]
    pub port: Option<u16>,
}

impl Server {
    /// The server as ours, redis-rs and the pools on it name it.
    pub fn url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("unix://{}", self.unix),
        }
    }

    /// The server as fred names it.
    pub fn fred_url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("redis+unix://{}", self.unix),
        }
    }
}
