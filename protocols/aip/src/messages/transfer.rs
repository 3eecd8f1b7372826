//! Text frames that announce binary frames: single payloads, and files in chunks.

use serde::{Deserialize, Serialize};

/// The type of a frame that announces one binary frame.
pub const BINARY_DATA: &str = "binary_data";
/// The type of a frame that begins a file.
pub const FILE_TRANSFER_START: &str = "file_transfer_start";
/// The type of a frame that ends a file.
pub const FILE_TRANSFER_COMPLETE: &str = "file_transfer_complete";

/// One of the frames around binary frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum TransferFrame {
    /// The next frame is binary.
    #[serde(rename = "binary_data")]
    Binary(BinaryHeader),
    /// A file begins.
    #[serde(rename = "file_transfer_start")]
    Start(FileStart),
    /// A file is complete.
    #[serde(rename = "file_transfer_complete")]
    Complete(FileComplete),
}

/// Announces a binary frame: a payload of its own (`size`), or a chunk of a file (`chunk_num`, `chunk_size`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BinaryHeader {
    /// The payload's bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its MD5, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// When it was sent, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Which chunk of a file it is, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_num: Option<u64>,
    /// The chunk's bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_size: Option<u64>,
}

/// Begins a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileStart {
    /// Its name.
    pub filename: String,
    /// Its bytes.
    pub size: u64,
    /// The bytes of each chunk but the last.
    pub chunk_size: u64,
    /// How many chunks follow.
    pub total_chunks: u64,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// Ends a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileComplete {
    /// Its name.
    pub filename: String,
    /// How many chunks it had.
    pub total_chunks: u64,
    /// Its MD5, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}
