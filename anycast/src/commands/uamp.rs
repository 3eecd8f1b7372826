//! `anycast uamp`: envelopes of the Universal Agent Messaging Protocol.

mod envelopes;

use std::path::PathBuf;

use agentanycast_cli::{failure::CommandFailure, parts::PartAction};
use clap::{Args, FromArgMatches as _, Subcommand};
use futures::FutureExt as _;

/// The command.
pub(super) const ACTION: PartAction = PartAction {
    options: |command| {
        UampCommand::augment_subcommands(command)
            .subcommand_required(true)
            .arg_required_else_help(true)
    },
    examples: &[
        (
            "uamp sign",
            [
                (
                    "anycast uamp sign --to urn:agentanycast:skill:translate \"Good morning\" > ask.json",
                    "an ask for any agent with the skill, with the home's key",
                ),
                (
                    "anycast uamp sign --key client.pem --to did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK @report.pdf",
                    "a file, with a P-256 key",
                ),
            ],
        ),
        (
            "uamp verify",
            [
                (
                    "anycast uamp verify ask.json",
                    "whether nothing in it was changed",
                ),
                ("anycast --json uamp verify ask.json", "the same as JSON"),
            ],
        ),
    ],
    starts_daemon: false,
    run: |context, given| {
        let command = UampCommand::from_arg_matches(given);
        async move {
            let command = command.map_err(|error| CommandFailure::usage(error.to_string()))?;
            envelopes::run(context, command).await
        }
        .boxed()
    },
};

#[derive(Debug, Subcommand)]
enum UampCommand {
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
struct UampSignArgs {
    /// Who it is for: a DID, an URI such as urn:agentanycast:skill:translate, or what names a peer; can be repeated
    #[arg(long, value_name = "RECEIVER", required = true)]
    to: Vec<String>,
    /// What it is for: ask, inform, propose, confirm, deny, progress, cancel, subscribe, notify or error
    #[arg(long, value_name = "INTENT", default_value = "ask")]
    intent: String,
    /// The envelope that it answers or cancels: its id, urn:uuid:…
    #[arg(long, value_name = "ID")]
    reply_to: Option<String>,
    /// Its stream
    #[arg(long, value_name = "ID")]
    stream_id: Option<String>,
    /// How many frames of the answer may be sent without an acknowledgement, 1 or more; with 1, also
    /// the last one waits for it [default: the receiver's, 64]
    #[arg(long, value_name = "N")]
    window: Option<u64>,
    /// The media type of the content [default: text/plain for text, application/octet-stream for bytes]
    #[arg(long = "type", value_name = "MEDIA_TYPE")]
    media_type: Option<String>,
    /// An extension of the envelope, such as x-aa-skill=translate; can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    ext: Vec<String>,
    /// A capability token (JWT)
    #[arg(long, value_name = "TOKEN")]
    cap_token: Option<String>,
    /// Write the signature with its payload in it, which some clients need
    #[arg(long)]
    attached: bool,
    /// The sender's key: a node's key, or an Ed25519 or P-256 key in PEM [default: the home's]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The content: a text, @FILE for a file, or - for standard input
    #[arg(default_value = "-")]
    content: String,
}
