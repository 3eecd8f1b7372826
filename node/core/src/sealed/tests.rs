use agentanycast_proto::v1::{TextPart, part::Content};
use proptest::prelude::*;

use super::*;

/// Any moment: 2026-01-01.
const NOW: u64 = 1_767_225_600_000;

/// Made with PyNaCl 1.6.2 from the seeds 01…01 and 02…02 and the nonce 04…04: the first message of a task, as
/// [`a_box_is_that_of_nacl`] has it, encoded by hand.
const BY_PYNACL: &str = "\
    040404040404040404040404040404040404040404040404475357eb9c8a6da93cc46246bc6ab4d284c0c39b6f0534ba\
    2fca383c1f8b93bba5ebced5ee4bc79eb30aa56f2a3bc9d2266333ec4d43985e0a7f8a816d7b17b31daba4df3d6a4052\
    4a94f61b0ffca28305ec407b6d5c53f4e29e1ac264ba7bbce8b2f41860196c13d164b3ac452f76ccd7df6899291d3c43\
    0b25633b0098cf926d5134bdd0a6d9253992f071a3624ec2e7484cc48bf103f55996d8c4510551671156bf4b3642dcd9\
    d3";

fn from_hex(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let pairs = pairs.map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn key(n: u8) -> Keypair {
    Keypair::ed25519_from_bytes([n; 32]).unwrap()
}

fn id(n: u8) -> PeerId {
    peer_id(&key(n))
}

/// One end of task `t1`.
fn ends(mine: u8, other: u8) -> SealedChannel {
    SealedChannel::new(&key(mine), id(other), "t1")
}

fn message(message_id: &str, text: &str) -> Message {
    Message {
        message_id: message_id.to_owned(),
        parts: vec![Part {
            content: Some(Content::TextPart(TextPart {
                text: text.to_owned(),
            })),
            ..Part::default()
        }],
        ..Message::default()
    }
}

fn artifact(artifact_id: &str) -> Artifact {
    Artifact {
        artifact_id: artifact_id.to_owned(),
        name: "a name".to_owned(),
        parts: message("", "a result").parts,
        size_bytes: 7,
    }
}

fn part_of(parts: &[Part]) -> &Part {
    sealed_part(parts).unwrap().unwrap()
}

fn bytes_of(part: &mut Part) -> &mut Vec<u8> {
    match &mut part.content {
        Some(Content::RawPart(raw)) => &mut raw.data,
        other => panic!("{other:?}"),
    }
}

fn further(message_id: &str) -> Message {
    ends(1, 2)
        .message(
            NOW,
            [4; NONCE],
            MessagePurpose::FollowUp,
            message(message_id, "more"),
        )
        .unwrap()
}

#[test]
fn a_box_is_that_of_nacl() {
    let labels = BTreeMap::from([("priority".to_owned(), "low".to_owned())]);
    let sealed = ends(1, 2)
        .message(
            NOW,
            [4; NONCE],
            MessagePurpose::Task(&labels),
            message("m1", "hello"),
        )
        .unwrap();
    let part = part_of(&sealed.parts);
    let mut copy = part.clone();
    assert_eq!(*bytes_of(&mut copy), from_hex(BY_PYNACL));
    assert_eq!(sealed_by(part, id(2)), Ok(id(1)));
    let opened = SealedChannel::new(&key(2), id(1), "")
        .open(part, &[SealedKind::Task], "m1")
        .unwrap();
    assert_eq!(opened.parts, message("m1", "hello").parts);
    assert_eq!((opened.metadata, opened.task_id.as_str()), (labels, "t1"));
    assert_eq!(sealed_task_id(&sealed.parts), "t1");
}

#[test]
fn an_answer_and_a_result_are_opened_at_the_other_end() {
    let results = ["a".to_owned()];
    let saying = MessagePurpose::Answer(TaskStatus::Completed, &results);
    let sealed = ends(2, 1)
        .message(NOW, [5; NONCE], saying, message("m2", "done"))
        .unwrap();
    let opened = ends(1, 2)
        .open(part_of(&sealed.parts), &[SealedKind::Answer], "m2")
        .unwrap();
    assert_eq!(opened.parts, message("", "done").parts);
    assert_eq!(
        (opened.status(), opened.artifact_ids),
        (TaskStatus::Completed, results.to_vec())
    );

    let sealed = ends(2, 1).artifact(NOW, [6; NONCE], artifact("a")).unwrap();
    assert_eq!((sealed.name.as_str(), sealed.size_bytes), ("", 0));
    let opened = ends(1, 2)
        .open(part_of(&sealed.parts), &[SealedKind::Artifact], "a")
        .unwrap();
    assert_eq!((opened.name.as_str(), opened.size_bytes), ("a name", 7));
    assert_eq!(opened.parts, artifact("a").parts);
}

#[test]
fn a_box_that_comes_back_is_not_that_of_the_other_end() {
    let sealed = further("m1");
    let back = ends(1, 2).open(part_of(&sealed.parts), &[SealedKind::Further], "m1");
    assert!(matches!(back, Err(UnsealError::WrongContext(_))), "{back:?}");
}

#[test]
fn a_box_in_another_place_is_refused() {
    let sealed = further("m1");
    let part = part_of(&sealed.parts);
    let reader = ends(2, 1);
    assert!(reader.open(part, &[SealedKind::Further], "m1").is_ok());
    let elsewhere = SealedChannel::new(&key(2), id(1), "t2");
    for refused in [
        reader.open(part, &[SealedKind::Further], "m2"),
        reader.open(part, &[SealedKind::Task], "m1"),
        reader.open(part, &[SealedKind::Answer, SealedKind::Artifact], "m1"),
        elsewhere.open(part, &[SealedKind::Further], "m1"),
    ] {
        assert!(
            matches!(refused, Err(UnsealError::WrongContext(_))),
            "{refused:?}"
        );
    }
    let third = SealedChannel::new(&key(3), id(1), "t1").open(part, &[SealedKind::Further], "m1");
    assert_eq!(third, Err(UnsealError::Closed(SealError::Closed)));
    let not_here = sealed_by(part, id(3)).unwrap_err();
    let (to, me) = (Box::new(id(2)), Box::new(id(3)));
    let said = not_here.to_string();
    assert!(
        said.starts_with(&format!("it is sealed for {to}, and this node is {me}: ")),
        "{said}"
    );
    assert!(
        said.contains(&format!("send it to the URL of {to}, or seal it for {me}")),
        "{said}"
    );
    assert_eq!(not_here, UnsealError::NotForThisNode { to, me });
}

#[test]
fn what_is_sealed_in_part_is_not_taken_for_sealed_or_plain() {
    let sealed = further("m1").parts;
    let plain = message("m1", "x").parts;
    assert_eq!(sealed_part(&plain), Ok(None));
    assert_eq!(sealed_part(&[]), Ok(None));
    for mixed in [
        [sealed.clone(), plain.clone()].concat(),
        [plain, sealed.clone()].concat(),
    ] {
        assert_eq!(sealed_part(&mixed), Err(UnsealError::Mixed));
    }
    assert_eq!(
        sealed_part(&[sealed.clone(), sealed.clone()].concat()),
        Err(UnsealError::Mixed)
    );
    let mut part = sealed[0].clone();
    part.content = None;
    assert_eq!(sealed_part(&[part]), Err(UnsealError::NoBox));
    let mut part = sealed[0].clone();
    part.media_type = MEDIA_TYPE.to_uppercase();
    assert!(sealed_part(&[part]).unwrap().is_some());
    let mut part = sealed[0].clone();
    part.metadata.clear();
    assert_eq!(sealed_by(&part, id(2)), Err(UnsealError::NoNames));
}

#[test]
fn a_box_that_unfolds_is_not_read() {
    let empty = Message {
        parts: vec![Part::default(); MAX_ELEMENTS + 1],
        ..message("m1", "")
    };
    let sealed = ends(1, 2)
        .message(NOW, [4; NONCE], MessagePurpose::FollowUp, empty)
        .unwrap();
    let opened = ends(2, 1).open(part_of(&sealed.parts), &[SealedKind::Further], "m1");
    assert!(matches!(opened, Err(UnsealError::Unreadable(_))), "{opened:?}");
}

proptest! {
    #[test]
    fn what_is_sealed_is_opened_whole_or_not_at_all(
        text in "\\PC{0,40}", message_id in "[a-z]{1,9}", nonce: [u8; NONCE], flip: Option<prop::sample::Index>,
    ) {
        let said = message(&message_id, &text);
        let mut sealed = ends(1, 2).message(NOW, nonce, MessagePurpose::FollowUp, said.clone()).unwrap();
        if let Some(flip) = flip {
            let bytes = bytes_of(&mut sealed.parts[0]);
            let at = flip.index(bytes.len() * 8);
            bytes[at / 8] ^= 1 << (at % 8);
        }
        let opened = ends(2, 1).open(part_of(&sealed.parts), &[SealedKind::Further], &message_id);
        if flip.is_some() {
            prop_assert_eq!(opened, Err(UnsealError::Closed(SealError::Closed)));
        } else {
            prop_assert_eq!(opened.unwrap().parts, said.parts);
        }
    }

    #[test]
    fn any_content_of_a_box_does_no_harm(content in prop::collection::vec(any::<u8>(), 0..60), nonce: [u8; NONCE]) {
        let mut part = further("m1").parts.remove(0);
        *bytes_of(&mut part) = sealed_box::seal(&key(1), id(2), nonce, &content).unwrap();
        let opened = ends(2, 1).open(&part, &[SealedKind::Further], "m1");
        prop_assert!(opened.is_err());
    }
}
