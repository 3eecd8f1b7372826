//! What fuzzing runs (`fuzz/`): each function takes any bytes, and panics when something does not hold.

#![allow(clippy::expect_used, reason = "what does not hold is told by a panic")]

use std::sync::LazyLock;

use agentanycast_identity::{
    Document, Keypair, PeerId, Use,
    credential::{Credential, Grant, issuer_keys},
    did_key_of, peer_id,
    rotation::Rotation,
};
use agentanycast_program::settings::{self, Loaded};
use agentanycast_proto::v1::A2aEnvelope;
use bytes::Bytes;
use prost::Message as _;

use crate::{
    config,
    delivery::inbox::{Inbound, Malformed},
    net,
    task::MAX_ID,
};

/// When it is: in milliseconds since 1970.
const NOW: u64 = 1_800_000_000_000;

/// More keys than a document may have.
const MAX_KEYS: usize = 1_000;

/// A stream of frames, in pieces of a size that the first byte says: each frame is what its header says, and
/// comes whole, however the stream is cut.
pub fn frame(data: &[u8]) {
    net::fuzz_frame(data);
}

/// An envelope of a peer: what is taken has its ids, and is taken the same when it is encoded anew.
pub fn envelope(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    let read = Inbound::decode(&frame);
    if let Err(Malformed::Unfolds(unfolded)) = &read {
        assert!(
            unfolded.id.len() <= MAX_ID,
            "the id of what is refused is bounded"
        );
    }
    let Ok(read) = read else { return };
    assert!(
        !read.id.is_empty() && read.id.len() <= MAX_ID,
        "an id of {} bytes",
        read.id.len()
    );
    assert!(
        read.place
            .is_none_or(|(epoch, sequence)| epoch != 0 && sequence != 0),
        "{:?}",
        read.place
    );
    let envelope = A2aEnvelope::decode(frame).expect("what was taken is an envelope");
    let again = Inbound::decode(&envelope.encode_to_vec().into());
    assert_eq!(again.as_ref(), Ok(&read));
}

/// A card that a peer shows: what is taken claims nobody else, and is taken the same when it is encoded anew.
pub fn card(data: &[u8]) {
    let key: Vec<u8> = [&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[7; 32]].concat();
    let peer = PeerId::from_bytes(&key).expect("a peer id");
    net::fuzz_card(peer, data);
}

/// The document of a name: a key counts for a use only if it is one that the document has, and whoever it names has one.
pub fn did_document(data: &[u8]) {
    let Ok(document) = Document::read("did:web:agents.example", data) else {
        return;
    };
    for (name, peer) in document.keys(Use::Authentication) {
        assert!(
            name.starts_with("did:web:agents.example#"),
            "the key {name} is another one's"
        );
        assert!(document.names(peer), "{peer}");
    }
    assert!(document.keys(Use::Assertion).count() <= MAX_KEYS);
}

/// A credential or a rotation. A credential counts for what was really signed only, which here is what [`signed`] has.
pub fn credential(data: &[u8]) {
    if let Ok(credential) = Credential::read(data) {
        let grant = credential.grant();
        assert!(grant.subject.starts_with("did:"), "{:?}", grant.subject);
        let counts = credential.check(&issuer_keys(&grant.issuer, None), NOW).is_ok();
        assert!(!counts || *grant == signed().grant, "nobody has signed {grant:?}");
    }
    if let Ok(rotation) = Rotation::read(data) {
        assert_eq!(rotation.to_bytes(), data);
    }
}

/// What a key that is the same each time has signed; the corpus has the documents.
struct Signed {
    #[cfg(test)]
    key: Keypair,
    grant: Grant,
}

fn signed() -> &'static Signed {
    static SIGNED: LazyLock<Signed> = LazyLock::new(|| {
        let day = 24 * 3600 * 1000;
        let mut secret = [7; 32];
        let key = Keypair::ed25519_from_bytes(&mut secret).expect("32 bytes are a secret key");
        let grant = Grant {
            id: "urn:uuid:5f0f4a6e-2d6b-4a55-9bb5-3d0cf3bfa2a1".to_owned(),
            issuer: did_key_of(peer_id(&key)).expect("an Ed25519 key has a did:key"),
            subject: "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH".to_owned(),
            capabilities: vec!["echo".to_owned()],
            from_ms: NOW - day,
            until_ms: Some(NOW + day),
            status: None,
        };
        Signed {
            #[cfg(test)]
            key,
            grant,
        }
    });
    &SIGNED
}

/// A configuration file: it is taken, or refused in one line that names the file or a value; what is taken can be shown.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let load = |args: &[&str]| {
        let args = ["agentanycastd", "--config=/c"]
            .iter()
            .chain(args)
            .map(std::ffi::OsString::from);
        let home = Some(std::path::Path::new("/home/u"));
        settings::load(&config::PROGRAM, args, |_| None, |_| Ok(text.to_owned()), home)
    };
    match load(&[]) {
        Ok(Loaded::Run { .. }) => {
            let shown = load(&["--print-config"]);
            assert!(matches!(shown, Ok(Loaded::PrintConfig(_))), "{shown:?}");
        }
        Ok(other) => panic!("nothing else was asked for: {other:?}"),
        Err(error) => {
            let line = error.to_string();
            assert!(
                !line.is_empty() && !line.contains(['\n', '\r', '\u{1b}']),
                "{line:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use agentanycast_identity::credential::Suite;
    use agentanycast_program::corpus::replay;

    /// Otherwise nothing that is tried would ever count.
    #[test]
    fn the_corpus_has_what_was_signed() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/credential");
        let signed = super::signed();
        let suites = [Suite::EddsaJcs2022, Suite::Ed25519Signature2020];
        for (place, suite) in suites.into_iter().enumerate() {
            let from_ms = signed.grant.from_ms;
            let document = signed.grant.sign(&signed.key, suite, from_ms).unwrap();
            let document = document.to_string();
            let kept = corpus.join(format!("signed-{place}"));
            if std::env::var_os("UPDATE_GENERATED").is_some() {
                std::fs::write(&kept, &document).unwrap();
            }
            let found = std::fs::read_to_string(kept).unwrap_or_default();
            assert_eq!(found, document, "UPDATE_GENERATED=1 writes it");
            let read = super::Credential::read(document.as_bytes()).unwrap();
            let keys = super::issuer_keys(&signed.grant.issuer, None);
            assert_eq!(read.check(&keys, super::NOW), Ok(()));
            assert_eq!(read.grant(), &signed.grant);
        }
    }

    #[test]
    fn the_corpus_passes() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        replay(&top, "frame", super::frame);
        replay(&top, "envelope", super::envelope);
        replay(&top, "card", super::card);
        replay(&top, "config", super::config);
        replay(&top, "did_document", super::did_document);
        replay(&top, "credential", super::credential);
    }
}
