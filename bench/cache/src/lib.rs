//! Measures the caches of the `undercroft` crate and other Redis clients under the same loads.
//!
//! - `clients`: the measured clients, from the undercroft crate and from its competitors, each used
//!   as its documentation recommends.
//! - `load`: callers that send the next request as soon as the previous reply arrives.
//! - `main`: the command line.
//! - `messages`: subscribers, and the publisher that sends to them.

pub mod clients;
pub mod load;
pub mod messages;

/// Any error. An error ends the measurement.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The address of the server.
#[derive(Clone, clap::Args)]
pub struct Server {
    /// The server's unix socket.
    #[arg(long)]
    pub unix: String,
    /// The server's port on the loopback interface. If given, clients connect over TCP.
    #[arg(long)]
    pub port: Option<u16>,
}

impl Server {
    /// Returns the server's URL for Undercroft's caches, redis-rs and the pools of redis-rs
    /// connections.
    pub fn url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("unix://{}", self.unix),
        }
    }

    /// Returns the server's URL for fred.
    pub fn fred_url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("redis+unix://{}", self.unix),
        }
    }
}
