//! Who may come in, and how often: what one address or caller may have of everything that is shared. And how
//! often this side tries again what failed.
//!
//! `backoff`, `rate`, `concurrency`, `byte_quota`, `ip_scope`, `conn_slots`, `network`, `log_throttle` and
//! `turn_queue` are PURE: no I/O, and the time is an argument. `swarm_limits` is the behaviour that applies them to
//! the connections of libp2p, `http` how long a connection of HTTP is waited for.
//! `interfaces` watches the addresses of this host.

mod backoff;
mod byte_quota;
mod concurrency;
mod conn_slots;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "swarm")]
mod interfaces;
pub mod ip_scope;
#[cfg(feature = "http")]
mod log_throttle;
mod network;
pub mod rate;
#[cfg(feature = "swarm")]
mod swarm_limits;
mod turn_queue;

pub use backoff::{Backoff, jittered};
pub use byte_quota::ByteQuota;
pub use concurrency::Concurrency;
pub use conn_slots::{ConnSlots, NoSlot, Slot, SlotHolder};
#[cfg(feature = "swarm")]
pub use interfaces::{AddressChange, Interfaces, ip_of, local_ip};
#[cfg(feature = "http")]
pub use log_throttle::LogThrottle;
pub use network::Network;
#[cfg(feature = "swarm")]
pub use swarm_limits::{Behaviour, SwarmLimits, address};
pub use turn_queue::TurnQueue;
