//! The side of the protocol that execution agents have: they register at a hub, listen for proposals, and
//! carry sessions out.
//!
//! [`HubConnection`] is the connection to one hub, without a say in what a session is: a [`SessionRunner`]
//! decides on proposals and carries sessions out. The gateway joins foreign hubs by it. [`ExecutionAgent`]
//! stands above it, with a handler for each type of test or translation: the library for programs that are
//! execution agents.
//!
//! Two things hold for all sessions: a session that fails ends no other, and a connection that is lost is
//! made again, after 1 s, 2 s, 4 s and so on up to 60 s.

mod connection;
mod endpoint;
mod error;
mod execution_agent;
mod messages;
mod outgoing;
mod proposal;
mod session;
mod session_end;

pub use connection::{HubConnection, SessionRunner};
pub use endpoint::{HubEndpoint, MAX_MESSAGE};
pub use error::HubError;
pub use execution_agent::{BoxError, ExecutionAgent, SessionHandler};
pub use proposal::{Domain, Proposal};
pub use session::{AgentSession, SessionOver, SessionProgress};
pub use session_end::{EndState, SessionEnd};
