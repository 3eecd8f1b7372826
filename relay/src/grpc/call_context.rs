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
    clock_skew::WrongClock,
    registry::{RegistryCaller, RegistryError, Source},
    registry_handle::{Handle, HandleError},
    request_proofs::{BadProof, RequestSignature},
};

/// Where a call came from.
pub(super) fn source(extensions: &Extensions) -> Option<Source> {
    let address = extensions.get::<TcpConnectInfo>()?.remote_addr()?;
    Some(address.ip().into())
}

/// Whether the source of a call may make it, one that costs as much as `cost` ordinary ones.
pub(super) fn check_rate(handle: &Handle, source: Option<Source>, cost: u64) -> Result<(), Status> {
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
) -> Result<RegistryCaller, Status> {
    let Some(signature) = metadata.get_bin(SIGNATURE_KEY) else {
        return Ok(RegistryCaller { source, proof: None });
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
    let signature = RequestSignature {
        peer,
        statement,
        bytes: &signature,
    };
    let proof = handle.prove(source, signature).map_err(|error| match error {
        BadProof::Busy { .. } => Status::resource_exhausted(error.to_string()),
        // The start itself is not too early.
        BadProof::BeforeStart { started_ms, .. } => {
            sign_after(started_ms.saturating_sub(1), error.to_string())
        }
        BadProof::ClockSkew { now_ms, suspect, .. } => clock_skew_status(now_ms, suspect, error.to_string()),
        error => Status::unauthenticated(error.to_string()),
    })?;
    Ok(RegistryCaller {
        source,
        proof: Some(proof),
    })
}

/// A refusal as gRPC says it.
pub(super) fn status(error: &HandleError) -> Status {
    match error {
        HandleError::Refused(refused) => refusal_status(refused),
        // It took effect, so no code that makes a client try again and hide it: what is lost is what a restart keeps.
        // Where its store is, and what is wrong with it, is for the operator, who has it in the log.
        HandleError::Store(_) => Status::data_loss(
            "the change counts, but will be lost when this relay is restarted: its store has failed; tell whoever runs it",
        ),
    }
}

/// A refusal because two clocks are too far apart, with the time of this relay's.
fn clock_skew_status(now_ms: u64, suspect: WrongClock, text: String) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(CLOCK_KEY, MetadataValue::from(now_ms));
    let whose = match suspect {
        WrongClock::Unknown => None,
        WrongClock::Signer { .. } => Some(SUSPECT_SIGNER),
        WrongClock::Relay { .. } => Some(SUSPECT_RELAY),
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

pub(super) fn refusal_status(refused: &RegistryError) -> Status {
    let text = refused.to_string();
    match refused {
        RegistryError::Invalid(_) => Status::invalid_argument(text),
        RegistryError::Limit { .. } => Status::resource_exhausted(text),
        RegistryError::NotFound(_) => Status::not_found(text),
        RegistryError::Denied(_) | RegistryError::UntrustedRelay(_) => Status::permission_denied(text),
        RegistryError::Unsigned => Status::unauthenticated(text),
        RegistryError::Outdated { stood_ms, .. } => sign_after(*stood_ms, text),
    }
}
