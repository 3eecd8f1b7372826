//! `anycast seal` and `anycast unseal`: content for one peer's eyes alone, for ways on which others can read it. Without a
//! daemon, unless the peer is named by what only a daemon knows.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use agentanycast_identity::{
    Keypair, PeerId,
    sealed_box::{self, NONCE, OVERHEAD, SealError},
};
use clap::Args;

use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    message_content, output,
    peer_target::PeerTarget,
};

#[derive(Debug, Args)]
pub(crate) struct SealArgs {
    /// Who can open it: an alias, peer id or did:key, or what else names a peer to the daemon
    #[arg(long = "for", value_name = "PEER")]
    pub(crate) reader: String,
    /// Whose box it is: a key file [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// What goes into it, at most 64 MiB; - reads standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct UnsealArgs {
    /// The other end of the box: an alias, peer id or did:key, or what else names a peer to the daemon
    #[arg(long = "from", value_name = "PEER")]
    pub(crate) writer: String,
    /// Who opens it: a key file, such as the one from before a change of keys [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The box; - reads standard input
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
}

/// Largest content of a box, in bytes: it is opened whole or not at all, so it is in memory whole.
const MAX_CONTENT: u64 = 64 << 20;

/// Writes the box to standard output.
pub(crate) async fn seal(context: &Context, args: &SealArgs) -> Result<(), CommandFailure> {
    let key = context.key(args.key.as_deref())?;
    let reader = peer(context, "--for", &args.reader).await?;
    if io::stdout().is_terminal() {
        let text = "a box is bytes, which a terminal cannot show; write it to a file, as with > FILE";
        return Err(CommandFailure::usage(text));
    }
    let content = message_content::read_limited(&args.file, MAX_CONTENT)?;
    let sealed = with_new_nonce(&key, reader, &content)?;
    Ok(output::bytes(&sealed)?)
}

/// Writes what is in a box to standard output, or nothing.
pub(crate) async fn unseal(context: &Context, args: &UnsealArgs) -> Result<(), CommandFailure> {
    let key = context.key(args.key.as_deref())?;
    let writer = peer(context, "--from", &args.writer).await?;
    let sealed = message_content::read_limited(&args.file, MAX_CONTENT + OVERHEAD as u64)?;
    let content = sealed_box::open(&key, writer, &sealed).map_err(failed)?;
    Ok(output::bytes(&content)?)
}

fn with_new_nonce(key: &Keypair, reader: PeerId, content: &[u8]) -> Result<Vec<u8>, CommandFailure> {
    // 24 random bytes do not come twice.
    let nonce: [u8; NONCE] = rand::random();
    sealed_box::seal(key, reader, nonce, content).map_err(failed)
}

fn failed(error: SealError) -> CommandFailure {
    CommandFailure::new(FailureCode::General, "Sealed", error.to_string())
}

async fn peer(context: &Context, option: &str, text: &str) -> Result<PeerId, CommandFailure> {
    let target = PeerTarget::from_option(context, option, text).await?;
    let peer = target.peer.as_str().parse();
    peer.map_err(|error| CommandFailure::usage(format!("{text:?} is no peer: {error}")))
}
