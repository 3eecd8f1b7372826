//! What every call has in common: where it came from, what its metadata prove, and how a refusal is said.

use agentanycast_identity::proof::{
    AFTER_KEY, CLOCK_KEY, SIGNATURE_KEY, SUSPECT_KEY, SUSPECT_RELAY, SUSPECT_SIGNER, Statement, TIME_KEY,
};
use tonic::{
    Code, Extensions, Status,
    metadata::{MetadataMap, MetadataValue},
    transport::server::TcpConnectInfo,
};

use crate::{
    clock_offsets::Suspect,
    handle::{Failed, Handle},
    proofs::{BadProof, Signature},
    registry::{Caller, Refused, Source},
};

/// Where a call came from.
pub(super) fn source(extensions: &Extensions) -> Option<Source> {
    let address = extensions.get::<TcpConnectInfo>()?.remote_addr()?;
    Some(address.ip().into())
}

/// Whether the source of a call may make it, one that costs as much as `cost` ordinary ones.
pub(super) fn may_ask(handle: &Handle, source: Option<Source>, cost: u64) -> Result<(), Status> {
    match source {
        Some(source) if !handle.may_ask(source, cost) => Err(Status::resource_exhausted(format!(
            "requests from one address: {} a second at most (requests_per_ip of the relay); send fewer",
            handle.requests_per_ip()
        ))),
        _ => Ok(()),
    }
}

/// Who makes a call that changes something. `request` is its encoded message.
pub(super) fn caller(
    handle: &Handle,
    metadata: &MetadataMap,
    source: Option<Source>,
    (method, peer, request): (&str, &str, &[u8]),
) -> Result<Caller, Status> {
    let Some(signature) = metadata.get_bin(SIGNATURE_KEY) else {
        return Ok(Caller { source, proof: None });
    };
    let bad = |what: &str| {
        Status::unauthenticated(format!(
            "{what}; see the signing of registry requests in docs/protocol.md"
        ))
    };
    let signature = signature
        .to_bytes()
        .map_err(|_| bad("agentanycast-signature-bin cannot be read"))?;
    let time = metadata
        .get(TIME_KEY)
        .and_then(|time| time.to_str().ok()?.parse().ok());
    let time_ms =
        time.ok_or_else(|| bad("agentanycast-time is missing or is no number of milliseconds since 1970"))?;
    let statement = Statement {
        method,
        request,
        relay: handle.me(),
        time_ms,
    };
    let signature = Signature {
        peer,
        statement,
        bytes: &signature,
    };
    let proof = handle.prove(source, signature).map_err(|error| match error {
        BadProof::Busy { .. } => Status::resource_exhausted(error.to_string()),
        // The start itself is not too early.
        BadProof::Former { started_ms, .. } => sign_after(started_ms.saturating_sub(1), error.to_string()),
        BadProof::Late { now_ms, suspect, .. } => apart(now_ms, suspect, error.to_string()),
        error => Status::unauthenticated(error.to_string()),
    })?;
    Ok(Caller {
        source,
        proof: Some(proof),
    })
}

/// A refusal as gRPC says it.
pub(super) fn status(error: &Failed) -> Status {
    match error {
        Failed::Refused(refused) => refusal(refused),
        // It took effect, so no code that makes a client try again and hide it: what is lost is what a restart keeps.
        // Where its store is, and what is wrong with it, is for the operator, who has it in the log.
        Failed::Store(_) => Status::data_loss(
            "the change counts, but will be lost when this relay is restarted: its store has failed; tell whoever runs it",
        ),
    }
}

/// A refusal because two clocks are too far apart, with the time of this relay's.
fn apart(now_ms: u64, suspect: Suspect, text: String) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(CLOCK_KEY, MetadataValue::from(now_ms));
    let whose = match suspect {
        Suspect::Unknown => None,
        Suspect::Signer { .. } => Some(SUSPECT_SIGNER),
        Suspect::Relay { .. } => Some(SUSPECT_RELAY),
    };
    if let Some(whose) = whose {
        metadata.insert(SUSPECT_KEY, MetadataValue::from_static(whose));
    }
    Status::with_metadata(Code::Unauthenticated, text, metadata)
}

/// A refusal that says when the next request has to be signed.
fn sign_after(time_ms: u64, text: String) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(AFTER_KEY, MetadataValue::from(time_ms));
    Status::with_metadata(Code::FailedPrecondition, text, metadata)
}

pub(super) fn refusal(refused: &Refused) -> Status {
    let text = refused.to_string();
    match refused {
        Refused::Invalid(_) => Status::invalid_argument(text),
        Refused::Limit { .. } => Status::resource_exhausted(text),
        Refused::NotFound(_) => Status::not_found(text),
        Refused::Denied(_) | Refused::Stranger(_) => Status::permission_denied(text),
        Refused::Unsigned => Status::unauthenticated(text),
        Refused::Outdated { stood_ms, .. } => sign_after(*stood_ms, text),
    }
}
