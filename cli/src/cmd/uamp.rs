//! `anycast uamp`: envelopes of the Universal Agent Messaging Protocol. Without the feature `uamp` it refuses.

#[cfg(not(feature = "uamp"))]
mod disabled;
#[cfg(feature = "uamp")]
mod enabled;

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[cfg(not(feature = "uamp"))]
pub(crate) use self::disabled::run;
#[cfg(feature = "uamp")]
pub(crate) use self::enabled::run;

#[derive(Debug, Subcommand)]
pub(crate) enum UampCommand {
    /// Write a signed envelope to standard output, as JSON
    Sign(Box<UampSignArgs>),
    /// Check the signature of an envelope whose sender is a did:key; exit code 1 if it is wrong
    Verify {
        /// The envelope, at most 16 MiB; - reads standard input
        #[arg(default_value = "-")]
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct UampSignArgs {
    /// Who it is for: a DID, an URI such as urn:agentanycast:skill:translate, or what names a peer; can be repeated
    #[arg(long, value_name = "RECEIVER", required = true)]
    pub(crate) to: Vec<String>,
    /// What it is for: ask, inform, propose, confirm, deny, progress, cancel, subscribe, notify or error
    #[arg(long, value_name = "INTENT", default_value = "ask")]
    pub(crate) intent: String,
    /// The envelope that it answers or cancels: its id, urn:uuid:…
    #[arg(long, value_name = "ID")]
    pub(crate) reply_to: Option<String>,
    /// Its stream
    #[arg(long, value_name = "ID")]
    pub(crate) stream_id: Option<String>,
    /// How many frames of the answer may be sent without an acknowledgement, 1 or more; with 1, also
    /// the last one waits for it [default: the receiver's, 64]
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<u64>,
    /// The media type of the content [default: text/plain for text, application/octet-stream for bytes]
    #[arg(long = "type", value_name = "MEDIA_TYPE")]
    pub(crate) media_type: Option<String>,
    /// An extension of the envelope, such as x-aa-skill=translate; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) ext: Vec<String>,
    /// A capability token (JWT)
    #[arg(long, value_name = "TOKEN")]
    pub(crate) cap_token: Option<String>,
    /// Write the signature with its payload in it, which some clients need
    #[arg(long)]
    pub(crate) attached: bool,
    /// The sender's key: a node's key, or an Ed25519 or P-256 key in PEM [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The content: a text, @FILE for a file, or - for standard input
    #[arg(default_value = "-")]
    pub(crate) content: String,
}
