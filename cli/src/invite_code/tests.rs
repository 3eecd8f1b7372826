//! Strings that are written and read, and all that is no string.

use proptest::{collection::vec, option, prelude::*, sample::Index};

use super::*;

fn peer(seed: [u8; 32]) -> PeerId {
    PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &seed].concat()).unwrap()
}

fn relay(number: u8) -> Multiaddr {
    format!("/ip4/198.51.100.{number}/tcp/4001/p2p/{}", peer([number; 32]))
        .parse()
        .unwrap()
}

fn invitation() -> Invitation {
    Invitation {
        peer: peer([1; 32]),
        relays: vec![relay(2)],
        addresses: vec!["/ip4/192.0.2.1/udp/4001/quic-v1".parse().unwrap()],
        registries: vec!["registry.example:443".to_owned()],
        secret: Some([7; SECRET]),
        agent: "parrot".to_owned(),
        skill: "echo".to_owned(),
        expires_at: Some(1_800_000_000),
    }
}

/// A string with this content, with a checksum that agrees.
fn string_of(head: &[u8], code: &[u8]) -> String {
    let mut content = [head, code].concat();
    content.extend(checksum(&content));
    multibase::encode(Base::Base32Lower, content)
}

#[test]
fn a_string_begins_with_its_name_and_can_be_carried() {
    let text = invitation().encode().unwrap();
    assert!(text.starts_with("banycastb") && text.len() < 400, "{text}");
    assert!(
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    );
    assert_eq!(Invitation::decode(&text), Ok(invitation()));
    assert_eq!(
        Invitation::decode(&format!(" {}\n", text.to_uppercase())),
        Ok(invitation())
    );
    assert!(
        is_invite_code(&text)
            && is_invite_code("BANYCASTx")
            && !is_invite_code("bob")
            && !is_invite_code("banycas")
    );
    let dialled = invitation().dialled();
    let me = peer([1; 32]);
    assert_eq!(dialled[0], format!("/ip4/192.0.2.1/udp/4001/quic-v1/p2p/{me}"));
    assert_eq!(dialled[1], format!("{}/p2p-circuit/p2p/{me}", relay(2)));
}

#[test]
fn what_is_no_invite_is_told_from_what_is_damaged() {
    let text = invitation().encode().unwrap();
    for nothing in ["", "bob", "zQ3shabc", "/ip4/192.0.2.1/tcp/1"] {
        assert_eq!(
            Invitation::decode(nothing),
            Err(InviteCodeError::NoInvite),
            "{nothing}"
        );
    }
    for damaged in [
        "banycast",
        "banycastb",
        &text[..text.len() - 1],
        &format!("{text}a"),
        "banycastb????",
        "banycastä",
    ] {
        assert_eq!(
            Invitation::decode(damaged),
            Err(InviteCodeError::Damaged),
            "{damaged}"
        );
    }
    let long = format!("{text}{}", "a".repeat(MAX_STRING));
    assert_eq!(Invitation::decode(&long), Err(InviteCodeError::Damaged));
    let newer = string_of(&head_bytes('c'), &InviteCode::default().encode_to_vec());
    assert_eq!(Invitation::decode(&newer), Err(InviteCodeError::OtherVersion));
}

#[test]
fn what_cannot_be_is_refused() {
    let good = InviteCode {
        peer: peer([1; 32]).to_bytes(),
        ..InviteCode::default()
    };
    let read = |code: InviteCode| Invitation::decode(&string_of(&head_bytes(VERSION), &code.encode_to_vec()));
    assert!(read(good.clone()).is_ok());
    let bare: Multiaddr = "/ip4/192.0.2.1/tcp/1".parse().unwrap();
    let circuit: Multiaddr = format!("{}/p2p-circuit", relay(2)).parse().unwrap();
    let wrong = [
        InviteCode {
            peer: Vec::new(),
            ..good.clone()
        },
        InviteCode {
            peer: vec![1, 2, 3],
            ..good.clone()
        },
        InviteCode {
            secret: vec![1; 15],
            ..good.clone()
        },
        InviteCode {
            secret: vec![1; 17],
            ..good.clone()
        },
        InviteCode {
            relays: vec![bare.to_vec()],
            ..good.clone()
        },
        InviteCode {
            relays: vec![circuit.to_vec()],
            ..good.clone()
        },
        InviteCode {
            relays: vec![relay(1).to_vec(); 5],
            ..good.clone()
        },
        InviteCode {
            relays: vec![vec![0xff, 0xff]],
            ..good.clone()
        },
        InviteCode {
            addresses: vec![relay(1).to_vec()],
            ..good.clone()
        },
        InviteCode {
            addresses: vec![bare.to_vec(); 5],
            ..good.clone()
        },
        InviteCode {
            registries: vec!["x".to_owned(); 5],
            ..good.clone()
        },
        InviteCode {
            registries: vec!["x".repeat(257)],
            ..good.clone()
        },
        InviteCode {
            agent: "a\u{1b}[2J".to_owned(),
            ..good.clone()
        },
        InviteCode {
            skill: "x".repeat(257),
            ..good
        },
    ];
    for code in wrong {
        let said = read(code.clone());
        assert!(
            matches!(said, Err(InviteCodeError::Invalid(_))),
            "{code:?}: {said:?}"
        );
    }
    let nothing = string_of(&head_bytes(VERSION), b"\xff\xff\xff");
    assert!(matches!(
        Invitation::decode(&nothing),
        Err(InviteCodeError::Invalid(_))
    ));
    let full = Invitation {
        agent: "x".repeat(MAX_TEXT),
        registries: vec!["x".repeat(MAX_TEXT); 4],
        ..invitation()
    };
    assert!(
        matches!(full.encode(), Err(InviteCodeError::Invalid(_))),
        "no string that would not be read"
    );
}

#[test]
fn addresses_are_those_that_others_can_use() {
    let circuits = [
        format!("{}/p2p-circuit", relay(2)),
        format!("/ip6/2001:db8::2/tcp/1/p2p/{}/p2p-circuit", peer([2; 32])),
        format!("{}/p2p-circuit", relay(3)),
    ];
    let direct = ["/ip4/127.0.0.1/tcp/1", "/ip4/192.0.2.9/tcp/1", "nonsense"].map(str::to_owned);
    let (relays, addresses) = reachable(&direct, &circuits);
    assert_eq!(relays, [relay(2), relay(3)]);
    assert_eq!(addresses, ["/ip4/192.0.2.9/tcp/1".parse().unwrap()]);
    let (relays, addresses) = reachable(&direct[..1], &[]);
    assert_eq!((relays.len(), addresses.len()), (0, 1), "there is only this host");
    assert!(reachable(&direct[..1], &circuits).1.is_empty());
    let registries = ["198.51.100.2:50052", "198.51.100.2:50053", "r.example:443"].map(str::to_owned);
    assert_eq!(registries_to_name(&registries, &[relay(2)]), registries[1..]);
}

fn any_invitation() -> impl Strategy<Value = Invitation> {
    let texts = ("\\PC{0,20}", "[a-z]{0,20}", vec("[a-z.]{1,20}:[0-9]{1,5}", 0..3));
    (
        any::<[u8; 32]>(),
        vec(any::<u8>(), 0..4),
        vec(any::<[u8; 4]>(), 0..4),
        any::<Option<[u8; 16]>>(),
        texts,
        option::of(1..i64::MAX as u64),
    )
        .prop_map(
            |(seed, relays, addresses, secret, (agent, skill, registries), expires_at)| Invitation {
                peer: peer(seed),
                relays: relays.into_iter().map(relay).collect(),
                addresses: addresses
                    .into_iter()
                    .map(|[a, b, c, d]| format!("/ip4/{a}.{b}.{c}.{d}/tcp/4001").parse().unwrap())
                    .collect(),
                registries,
                secret,
                agent,
                skill,
                expires_at,
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_is_read(invitation in any_invitation()) {
        let text = invitation.encode().unwrap();
        prop_assert_eq!(Invitation::decode(&text), Ok(invitation.clone()));
        prop_assert_eq!(Invitation::decode(&text.to_ascii_uppercase()), Ok(invitation));
    }

    /// One wrong letter, a swap of two, a piece that is missing or doubled: none of it reads as another invite.
    #[test]
    fn what_was_changed_is_refused(invitation in any_invitation(), at: Index, to: Index, letter in "[a-z2-7]", kind in 0..4_u8) {
        let text = invitation.encode().unwrap();
        let (at, to) = (at.index(text.len()), to.index(text.len()));
        let mut letters: Vec<char> = text.chars().collect();
        match kind {
            0 => letters[at] = letter.chars().next().unwrap(),
            1 => letters.swap(at, to),
            2 => drop(letters.drain(at.min(to)..=at.max(to))),
            _ => letters.insert(at, letter.chars().next().unwrap()),
        }
        let changed: String = letters.into_iter().collect();
        if changed != text {
            prop_assert!(Invitation::decode(&changed).is_err(), "{changed}");
        }
    }

    /// Whatever bytes come with a checksum that agrees, reading ends, and what is read is written as the same string.
    #[test]
    fn no_content_is_too_odd(code in vec(any::<u8>(), 0..300)) {
        let text = string_of(&head_bytes(VERSION), &code);
        if let Ok(read) = Invitation::decode(&text) {
            prop_assert_eq!(Invitation::decode(&read.encode().unwrap()), Ok(read));
        }
    }

    #[test]
    fn no_text_is_too_odd(text in "(banycast)?(\\PC|[a-z2-7]){0,100}") {
        prop_assert!(Invitation::decode(&text).is_err());
    }
}
