//! What a record counts in every share, and how large its proofs may be. PURE.

use agentanycast_proto::v1::RegistryProof;
use prost::Message as _;

use super::{HEARTBEAT, KEY_ROTATION, RegistryError, RegistryLimits, UNREGISTER};

/// Most bytes of a signed heartbeat, or of a signed request that ends a whole registration: they say an id.
const MAX_BRIEF_PROOF: usize = 512;

/// What a record counts besides what it says: itself, and its last heartbeat or its end.
const RECORD_BYTES: usize = 512;

/// What a place in the index counts: one for each skill and each tag.
const POSITION_BYTES: usize = 128;

/// What a record counts that answers so many bytes, stands in so many sets and has these proofs. A heartbeat and an end
/// are not in it, since there is room for them always.
pub(super) fn record_bytes(answer: usize, places: usize, proofs: &[RegistryProof]) -> usize {
    let lasting = proofs.iter().filter(|proof| !is_brief(proof, proofs));
    let proven: usize = lasting.map(RegistryProof::encoded_len).sum();
    RECORD_BYTES + answer + places * POSITION_BYTES + proven
}

/// Whether proofs are no larger than they may be: each is passed on as it came, with all that its signer put in.
pub(super) fn check_proofs(proofs: &[RegistryProof], limits: &RegistryLimits) -> Result<(), RegistryError> {
    const ADVICE: &str = "leave out what the registry does not know";
    let limit = |what, most| {
        Err(RegistryError::Limit {
            what,
            most,
            setting: None,
            advice: ADVICE,
        })
    };
    let (brief, lasting): (Vec<_>, Vec<_>) = proofs.iter().partition(|proof| is_brief(proof, proofs));
    if brief.iter().any(|proof| proof.encoded_len() > MAX_BRIEF_PROOF) {
        return limit(
            "bytes of a signed heartbeat or end of a registration",
            MAX_BRIEF_PROOF,
        );
    }
    if lasting.iter().map(|proof| proof.encoded_len()).sum::<usize>() > limits.agent_bytes {
        return limit("bytes of one agent's signed registration", limits.agent_bytes);
    }
    Ok(())
}

/// Whether it renews or ends everything: an unregistration that needs nothing before it does, a change of keys too.
fn is_brief(proof: &RegistryProof, all: &[RegistryProof]) -> bool {
    let ends = [UNREGISTER, KEY_ROTATION].contains(&&*proof.method);
    proof.method == HEARTBEAT || (all.len() == 1 && ends)
}
