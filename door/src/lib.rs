//! Who may come in, and how often: what one address or caller may have of everything that is shared.
//!
//! `rate`, `counts`, `bulk`, `kind`, `seats` and `network` are PURE: no I/O, and the time is an argument. `swarm` is the
//! behaviour that applies them to the connections of libp2p, `http` how long a connection of HTTP is waited for.
//! `interfaces` watches the addresses of this host.

mod bulk;
mod counts;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "swarm")]
mod interfaces;
pub mod kind;
mod network;
pub mod rate;
mod seats;
#[cfg(feature = "swarm")]
mod swarm;

pub use bulk::Bulk;
pub use counts::Counts;
#[cfg(feature = "swarm")]
pub use interfaces::{AddressChange, Interfaces, ip_of, local_ip};
pub use network::Network;
pub use seats::{Full, Seat, Seats, Sitter};
#[cfg(feature = "swarm")]
pub use swarm::{Behaviour, Limits, address};
