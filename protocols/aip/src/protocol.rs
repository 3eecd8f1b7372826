//! Layer 3: what is done with frames: middleware, handlers, registration, correlation, batches of commands, files.
//! The endpoints use it.
//!
//! Invariant: frames of one connection are handled in the order in which they came, and leave in the order in which
//! they were sent.

mod batch;
mod connection;
mod correlation;
mod error;
mod handlers;
mod outbox;
mod pipeline;
mod registration;
mod transfer;

pub use batch::{
    BatchContext, LIST_TOOLS, SKIPPED, ToolExecutor, ToolFailure, ToolOutput, ToolScope, run_batch,
};
pub use connection::{Connection, Received};
pub use correlation::{MOST_PENDING, PendingReplies, ReplyMatch, ReplyWaiter, TooManyPending};
pub use error::ProtocolError;
pub use handlers::{AipProtocol, CustomMessage, MessageHandler, Side};
pub use outbox::{Outbox, WRITE_TIMEOUT};
pub use pipeline::{AnyMessage, Middleware};
pub use registration::{REGISTER_WITHIN, Registration, RegistrationRefusal};
pub(crate) use registration::{heartbeat_ok, is_wire_id};
pub use transfer::{CHUNK, FileProgress, FileReceiver, TransferError, file_frames, md5_hex, payload_frames};
