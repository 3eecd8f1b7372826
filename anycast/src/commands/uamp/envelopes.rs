//! `anycast uamp sign` and `anycast uamp verify`: envelopes without a daemon, unless a receiver is named by what only a
//! daemon knows.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use agentanycast::Content;
use agentanycast_identity::{PeerId, did_key_of};
use agentanycast_uamp::{
    body::EnvelopeBody,
    did_key::key_of_did,
    envelope::{Envelope, EnvelopeDraft, EnvelopeId, Intent, check_stream_id},
    jws::{SignatureForm, SigningIdentity},
};
use serde_json::{Map, Value, json};

use super::{UampCommand, UampSignArgs};
use agentanycast_cli::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    message_content::{self, PartSource},
    output,
    peer_target::PeerTarget,
};

/// Largest envelope that is checked, in bytes: the largest body that a front of a gateway takes is 64 MiB, its default
/// 24 MiB; tasks have 16 MiB.
const MAX_ENVELOPE: usize = 16 << 20;

/// Largest key in PEM, in bytes.
const MAX_PEM: u64 = 16 << 10;

pub(super) async fn run(context: &Context, command: UampCommand) -> Result<(), CommandFailure> {
    match command {
        UampCommand::Sign(args) => sign(context, *args).await,
        UampCommand::Verify { file } => verify(context, &file),
    }
}

async fn sign(context: &Context, args: UampSignArgs) -> Result<(), CommandFailure> {
    let intent = Intent::parse(&args.intent).ok_or_else(|| {
        CommandFailure::usage(format!(
            "{:?} is not an intent; it is one of ask, inform, propose, confirm, deny, progress, cancel, subscribe, notify, error",
            args.intent
        ))
    })?;
    let mut to = Vec::with_capacity(args.to.len());
    for receiver in &args.to {
        to.push(receiver_uri(context, receiver).await?);
    }
    let body = body(&args.content, args.media_type.as_deref())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut draft = EnvelopeDraft::new(intent, to, body, now.as_millis() as i64);
    if let Some(text) = &args.reply_to {
        let id = EnvelopeId::parse(text);
        draft.reply_to = Some(id.ok_or_else(|| {
            CommandFailure::usage(format!(
                "--reply-to {text:?} is not urn:uuid: and a UUID of version 4"
            ))
        })?);
    }
    if let Some(stream_id) = args.stream_id {
        check_stream_id(&stream_id)
            .map_err(|error| CommandFailure::usage(format!("--stream-id: {error}")))?;
        draft.stream_id = Some(stream_id);
    }
    if args.window == Some(0) {
        return Err(CommandFailure::usage("--window 0: a window has 1 frame or more"));
    }
    draft.delta_window = args.window;
    if args
        .cap_token
        .as_deref()
        .is_some_and(|token| token.trim().is_empty())
    {
        return Err(CommandFailure::usage(
            "--cap-token \"\": the token is empty; give a JWT, or leave the option out",
        ));
    }
    draft.cap_token = args.cap_token;
    draft.ext = extensions(&args.ext)?;
    let form = if args.attached {
        SignatureForm::Attached
    } else {
        SignatureForm::Detached
    };
    let identity = identity(context, args.key.as_deref())?;
    let mut signed = draft
        .sign_to_bytes(&identity, form)
        .map_err(|error| failed(&error))?;
    signed.push(b'\n');
    // As it is, without the version that other JSON of this command has: the signature covers the whole.
    Ok(output::bytes(&signed)?)
}

/// The extensions of these pairs. A name has one value: an envelope cannot say two.
fn extensions(pairs: &[String]) -> Result<Map<String, Value>, CommandFailure> {
    let mut extensions = Map::new();
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(CommandFailure::usage(format!("--ext {pair:?} is not NAME=VALUE")));
        };
        if extensions.insert(name.to_owned(), value.into()).is_some() {
            return Err(CommandFailure::usage(format!(
                "--ext {pair:?}: {name:?} is given twice; give each name once"
            )));
        }
    }
    Ok(extensions)
}

/// A receiver as an URI: what has a scheme is one already, all else names a peer.
async fn receiver_uri(context: &Context, text: &str) -> Result<String, CommandFailure> {
    if text.contains(':') {
        let did = text.split_once('#').map_or(text, |(did, _)| did);
        if did.starts_with("did:key:") && key_of_did(did).is_none() {
            return Err(CommandFailure::usage(format!(
                "--to {text:?} is not a did:key of an Ed25519 or P-256 key; give the DID that `anycast id` prints \
                 at the receiver"
            )));
        }
        return Ok(text.to_owned());
    }
    let target = PeerTarget::from_option(context, "--to", text).await?;
    let peer: Result<PeerId, _> = target.peer.as_str().parse();
    let did = peer.ok().and_then(did_key_of);
    did.ok_or_else(|| {
        CommandFailure::usage(format!(
            "--to {text:?}: this peer's key is not Ed25519, so it has no did:key"
        ))
    })
}

fn body(content: &str, media_type: Option<&str>) -> Result<EnvelopeBody, CommandFailure> {
    let message = message_content::message_from(&[PartSource::parse(content)])?;
    let content = message.parts.into_iter().next().map(|part| part.content);
    match content {
        Some(Content::Text(text)) => match media_type {
            Some(kind)
                if kind
                    .split(';')
                    .next()
                    .is_some_and(|kind| kind.trim() == "application/json") =>
            {
                let value: Value = serde_json::from_str(&text)
                    .map_err(|error| CommandFailure::usage(format!("the content is not JSON: {error}")))?;
                Ok(EnvelopeBody::json(&value))
            }
            kind => Ok(EnvelopeBody::text(kind.unwrap_or("text/plain"), text)),
        },
        Some(Content::Raw { data, .. }) => Ok(EnvelopeBody::bytes(
            media_type.unwrap_or("application/octet-stream"),
            &data,
        )),
        _ => Err(CommandFailure::usage(
            "an envelope has a content: a text, @FILE, or - for standard input",
        )),
    }
}

/// The key in a file, or the home's.
fn identity(context: &Context, given: Option<&Path>) -> Result<SigningIdentity, CommandFailure> {
    let failed = |text: String| CommandFailure::new(FailureCode::General, "Key", text);
    if let Some(path) = given {
        let read = message_content::read_limited(path, MAX_PEM)?;
        if read.starts_with(b"-----BEGIN") {
            let read = SigningIdentity::from_pem(&String::from_utf8_lossy(&read));
            return read.map_err(|error| failed(format!("{}: {error}", path.display())));
        }
    }
    let key = context.key(given)?;
    SigningIdentity::from_node_key(&key).ok_or_else(|| failed("the key is not an Ed25519 key".to_owned()))
}

fn verify(context: &Context, file: &Path) -> Result<(), CommandFailure> {
    let bytes = message_content::read_limited(file, MAX_ENVELOPE as u64)?;
    let envelope = Envelope::read(&bytes, MAX_ENVELOPE).map_err(|error| failed(&error))?;
    let sender = envelope.from();
    let key = key_of_did(sender).ok_or_else(|| {
        failed(&format!(
            "its sender {sender} is not a did:key of an Ed25519 or P-256 key, so its key is not known here"
        ))
    })?;
    envelope.verify(&key).map_err(|error| failed(&error))?;
    let id = envelope.id().to_string();
    if context.json {
        return Ok(output::json(&json!({
            "id": id, "from": sender, "to": envelope.to(), "intent": envelope.intent().as_str(), "valid": true,
        }))?);
    }
    Ok(output::fields(&[
        ("signature", "valid".to_owned()),
        ("id", id),
        ("from", sender.to_owned()),
        ("to", envelope.to().join(", ")),
        ("intent", envelope.intent().as_str().to_owned()),
    ])?)
}

fn failed(error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::new(FailureCode::General, "Envelope", error.to_string())
}
