//! Layer 4: when to connect again, who is still there, and which request has waited too long. The tables are PURE:
//! time and randomness are arguments. Endpoints use them with the clock.

mod deadlines;
mod heartbeat;
mod reconnect;

pub use deadlines::DeadlineTable;
pub use heartbeat::{HEARTBEAT_INTERVAL, HeartbeatTable};
pub use reconnect::{ReconnectPolicy, ReconnectSchedule, ReconnectWaits, wait_and_connect};
