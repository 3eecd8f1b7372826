//! Layer 1: the messages of AIP as types. PURE. All other layers use them.
//!
//! Invariant: a text is checked against [`Limits`] before it becomes a message. Unknown fields are ignored,
//! `null` and an absent field are the same, and an unknown value of an enumeration is an error.

mod client;
mod command;
mod decode;
mod decode_error;
mod limits;
mod server;
mod system_info;
mod task_name;
mod timestamp;
mod tool;
mod transfer;
mod unreadable;
mod wire_enum;

pub use client::{ClientMessage, ClientMessageType, ClientRole};
pub use command::{CommandResult, CommandStatus, ToolCommand, ToolCommandType};
pub(crate) use decode::decode_checked;
pub use decode::{Decodable, decode, encode, type_of};
pub(crate) use decode_error::cut_error;
pub use decode_error::{DecodeError, LONGEST_ERROR};
pub use limits::{Limits, MAX_MESSAGE};
pub use server::{ServerMessage, ServerMessageType};
pub use system_info::{RegistrationMetadata, SystemInfo};
pub use task_name::sanitize_task_name;
pub use timestamp::{timestamp, timestamp_now};
pub use tool::McpToolInfo;
pub use transfer::{
    BINARY_DATA, BinaryHeader, FILE_TRANSFER_COMPLETE, FILE_TRANSFER_START, FileComplete, FileStart,
    TransferFrame,
};
pub(crate) use unreadable::{unreadable_order, unreadable_results};
pub use wire_enum::MessageStatus;
pub(crate) use wire_enum::{unknown_value, wire_enum};

/// A JSON object.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
