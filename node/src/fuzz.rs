//! What fuzzing runs (`fuzz/`): each function takes any bytes, and panics when something does not hold.

#![allow(clippy::expect_used, reason = "what does not hold is told by a panic")]

use std::sync::LazyLock;

use agentanycast_core::{
    delivery::inbox::{InboundEnvelope, Malformed},
    sealed::{MEDIA_TYPE, SealedChannel, UnsealError, sealed_by, sealed_part},
    task::MAX_ID,
};
use agentanycast_daemon_kit::settings::{self, LoadOutcome};
use agentanycast_identity::{
    Document, Keypair, PeerId, Use,
    credential::{Credential, Grant, issuer_keys},
    did_key_of, peer_id,
    rotation::Rotation,
    sealed_box::{NONCE, seal},
};
use agentanycast_net as net;
use agentanycast_proto::v1::{A2aEnvelope, Message, Part, RawPart, SealedContent, SealedKind, part::Content};
use bytes::Bytes;
use prost::Message as _;

use crate::load_config;

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
    let read = InboundEnvelope::decode(&frame);
    if let Err(Malformed::DecodesTooLarge(unfolded)) = &read {
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
        read.queue_position
            .is_none_or(|(epoch, sequence)| epoch != 0 && sequence != 0),
        "{:?}",
        read.queue_position
    );
    let envelope = A2aEnvelope::decode(frame).expect("what was taken is an envelope");
    let again = InboundEnvelope::decode(&envelope.encode_to_vec().into());
    assert_eq!(again.as_ref(), Ok(&read));
}

/// A card that a peer shows: what is taken claims nobody else, and is taken the same when it is encoded anew.
pub fn card(data: &[u8]) {
    let key: Vec<u8> = [&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[7; 32]].concat();
    let peer = PeerId::from_bytes(&key).expect("a peer id");
    net::fuzz_card(peer, data);
}

/// What is in a box, and the parts of a message that may be one. What is taken is what it says that it is, for this task and
/// under this id, by this end and not by the other; it is taken the same when it is sealed anew. What nobody has sealed is not
/// opened.
pub fn sealed(data: &[u8]) {
    let (from, to) = (test_key(1), test_key(2));
    if let Ok(message) = Message::decode(data) {
        match sealed_part(&message.parts) {
            Ok(Some(part)) => {
                assert_eq!(message.parts.len(), 1);
                drop(sealed_by(part, peer_id(&to)));
            }
            Ok(None) => assert!(message.parts.iter().all(|part| part.media_type != MEDIA_TYPE)),
            Err(refused) => assert!(
                matches!(refused, UnsealError::Mixed | UnsealError::NoBox),
                "{refused:?}"
            ),
        }
    }
    let here = |task: &str| SealedChannel::new(&to, peer_id(&from), task);
    let kinds = [
        SealedKind::Task,
        SealedKind::Further,
        SealedKind::Answer,
        SealedKind::Artifact,
    ];
    let forged = here("").open(&box_of(data.to_vec()), &kinds, "m1");
    assert!(matches!(forged, Err(UnsealError::Closed(_))), "{forged:?}");

    // Its maker writes what it likes.
    let written = SealedContent::decode(data).unwrap_or_default();
    let part = |content: &[u8]| {
        let sealed = seal(&from, peer_id(&to), [7; NONCE], content);
        box_of(sealed.expect("they are Ed25519 keys"))
    };
    let sealed = part(data);
    let takes = |kind: SealedKind| here("").open(&sealed, &[kind], &written.id);
    let taken: Vec<SealedContent> = kinds.into_iter().filter_map(|kind| takes(kind).ok()).collect();
    let [content] = &taken[..] else {
        assert!(taken.is_empty(), "it is taken as {} kinds", taken.len());
        return;
    };
    // By its bytes: a number that is none equals nothing.
    let bytes = content.encode_to_vec();
    assert_eq!(bytes, written.encode_to_vec());
    let kind = content.kind();
    assert!(!content.id.is_empty() && !content.task_id.is_empty() && kinds.contains(&kind));
    let names = [&content.from_peer_id, &content.to_peer_id].map(|name| name.parse());
    assert_eq!(names, [Ok(peer_id(&from)), Ok(peer_id(&to))]);
    let open = |ends: &SealedChannel, part: &Part, id: &str| ends.open(part, &[kind], id);
    let again = open(&here(&content.task_id), &part(&bytes), &content.id);
    assert_eq!(again.map(|content| content.encode_to_vec()), Ok(bytes));
    let back = SealedChannel::new(&from, peer_id(&to), &content.task_id);
    for refused in [
        open(&back, &sealed, &content.id),
        open(&here(&format!("{}+", content.task_id)), &sealed, &content.id),
        open(&here(&content.task_id), &sealed, &format!("{}+", content.id)),
    ] {
        assert!(
            matches!(refused, Err(UnsealError::WrongContext(_))),
            "{refused:?}"
        );
    }
}

fn box_of(data: Vec<u8>) -> Part {
    let filename = String::new();
    Part {
        content: Some(Content::RawPart(RawPart { data, filename })),
        media_type: MEDIA_TYPE.to_owned(),
        ..Part::default()
    }
}

/// A key that is the same each time.
fn test_key(n: u8) -> Keypair {
    Keypair::ed25519_from_bytes([n; 32]).expect("32 bytes are a secret key")
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
struct SignedSample {
    #[cfg(test)]
    key: Keypair,
    grant: Grant,
}

fn signed() -> &'static SignedSample {
    static SIGNED: LazyLock<SignedSample> = LazyLock::new(|| {
        let day = 24 * 3600 * 1000;
        let key = test_key(7);
        let grant = Grant {
            id: "urn:uuid:5f0f4a6e-2d6b-4a55-9bb5-3d0cf3bfa2a1".to_owned(),
            issuer: did_key_of(peer_id(&key)).expect("an Ed25519 key has a did:key"),
            subject: "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH".to_owned(),
            capabilities: vec!["echo".to_owned()],
            from_ms: NOW - day,
            until_ms: Some(NOW + day),
            status: None,
        };
        SignedSample {
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
        settings::load(
            load_config::program(),
            args,
            |_| None,
            |_| Ok(text.to_owned()),
            home,
        )
    };
    match load(&[]) {
        Ok(LoadOutcome::Run { .. }) => {
            let shown = load(&["--print-config"]);
            assert!(
                matches!(shown, Ok(LoadOutcome::PrintConfig { refused: None, .. })),
                "{shown:?}"
            );
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
    use std::{collections::BTreeMap, path::Path};

    use agentanycast_core::sealed::{MessagePurpose, SealedChannel, sealed_by, sealed_part};
    use agentanycast_daemon_kit::fuzz_corpus::{FuzzCorpus, replay};
    use agentanycast_identity::{
        credential::Suite,
        peer_id,
        sealed_box::{NONCE, seal},
    };
    use agentanycast_proto::v1::{
        Message, Part, SealedContent, SealedKind, TaskStatus, TextPart, part::Content,
    };
    use prost::Message as _;

    use super::NOW;

    fn corpus(target: &str) -> FuzzCorpus {
        FuzzCorpus::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), target)
    }

    /// Otherwise nothing that is tried would ever count.
    #[test]
    fn the_corpus_has_what_was_signed() {
        let mut corpus = corpus("credential");
        let signed = super::signed();
        let suites = [Suite::EddsaJcs2022, Suite::Ed25519Signature2020];
        for (place, suite) in suites.into_iter().enumerate() {
            let from_ms = signed.grant.from_ms;
            let document = signed.grant.sign(&signed.key, suite, from_ms).unwrap();
            // Whatever order serde_json writes in this build.
            let document = agentanycast_identity::json::canonical(&document).unwrap();
            corpus.has(&format!("signed-{place}"), document.as_bytes());
            let read = super::Credential::read(document.as_bytes()).unwrap();
            let keys = super::issuer_keys(&signed.grant.issuer, None);
            assert_eq!(read.check(&keys, super::NOW), Ok(()));
            assert_eq!(read.grant(), &signed.grant);
        }
    }

    /// One of each kind, as the node seals it; and each sealed for somebody else.
    #[test]
    fn the_corpus_has_what_is_sealed() {
        let mut corpus = corpus("sealed");
        let (from, to) = (super::test_key(1), super::test_key(2));
        for (place, content) in contents().into_iter().enumerate() {
            let bytes = content.encode_to_vec();
            corpus.has(&format!("content-{place}"), &bytes);
            let sealed = seal(&from, peer_id(&to), [7; NONCE], &bytes).unwrap();
            let ends = SealedChannel::new(&to, peer_id(&from), "t1");
            let opened = ends.open(&super::box_of(sealed), &[content.kind()], &content.id);
            assert_eq!(opened.is_ok(), place < 4, "{opened:?}");
        }
        has_a_message_with_a_box(&mut corpus);
    }

    /// As it stands beside a box.
    fn has_a_message_with_a_box(corpus: &mut FuzzCorpus) {
        let ends = SealedChannel::new(&super::test_key(1), peer_id(&super::test_key(2)), "t1");
        let message = Message {
            message_id: "m1".to_owned(),
            ..Message::default()
        };
        let message = ends
            .message(NOW, [7; NONCE], MessagePurpose::FollowUp, message)
            .unwrap();
        corpus.has("message", &message.encode_to_vec());
        let part = sealed_part(&message.parts).unwrap().unwrap();
        assert_eq!(
            sealed_by(part, peer_id(&super::test_key(2))),
            Ok(peer_id(&super::test_key(1)))
        );
    }

    fn contents() -> Vec<SealedContent> {
        let text = |text: &str| Part {
            content: Some(Content::TextPart(TextPart {
                text: text.to_owned(),
            })),
            metadata: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
            ..Part::default()
        };
        let [from, to] = [1, 2].map(|n| peer_id(&super::test_key(n)).to_string());
        let content = |kind: SealedKind| SealedContent {
            kind: kind.into(),
            from_peer_id: from.clone(),
            to_peer_id: to.clone(),
            task_id: "t1".to_owned(),
            id: "m1".to_owned(),
            parts: vec![text("hello"), super::box_of(vec![0, 1, 2])],
            sealed_at_ms: NOW,
            ..SealedContent::default()
        };
        let mut all = vec![
            SealedContent {
                metadata: BTreeMap::from([("priority".to_owned(), "low".to_owned())]),
                ..content(SealedKind::Task)
            },
            content(SealedKind::Further),
            SealedContent {
                status: TaskStatus::Completed.into(),
                artifact_ids: vec!["a1".to_owned(), "a2".to_owned()],
                ..content(SealedKind::Answer)
            },
            SealedContent {
                name: "report".to_owned(),
                size_bytes: 5,
                ..content(SealedKind::Artifact)
            },
        ];
        let astray = all.iter().map(|content| SealedContent {
            to_peer_id: from.clone(),
            ..content.clone()
        });
        all.extend(astray.collect::<Vec<_>>());
        all
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
        replay(&top, "sealed", super::sealed);
    }
}
