//! Names against a model that looks through everything, letter by letter.

use proptest::prelude::*;

use super::*;

/// A peer id with these bytes in it.
fn peer(seed: &[u8; 32]) -> PeerId {
    let bytes = [&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], seed].concat();
    let id = agentanycast_identity::PeerId::from_bytes(&bytes).unwrap();
    id.to_string().parse().unwrap()
}

fn numbered(number: u8) -> PeerId {
    peer(&[number; 32])
}

fn names(aliases: &[(&str, u8)], known: &[(u8, &str)]) -> PeerNames {
    let aliases = aliases
        .iter()
        .map(|(name, number)| ((*name).to_owned(), numbered(*number)));
    let known = known.iter().map(|(number, name)| NamedPeer {
        peer: numbered(*number),
        card_name: (*name).to_owned(),
    });
    PeerNames::new(aliases.collect(), known.collect())
}

#[test]
fn what_holds_a_key_needs_nobody() {
    let one = numbered(1);
    let did = did::did_of_peer(&one).unwrap();
    assert_eq!(
        PeerReference::parse(one.as_str()),
        Ok(PeerReference::Peer(one.clone(), None))
    );
    assert_eq!(
        PeerReference::parse(&did),
        Ok(PeerReference::Peer(one.clone(), None))
    );
    let address = format!("/ip4/192.0.2.1/tcp/4001/p2p/{one}");
    assert_eq!(
        PeerReference::parse(&address),
        Ok(PeerReference::Peer(one, Some(address.clone())))
    );
    let web = "did:web:example.org";
    assert_eq!(
        PeerReference::parse(web),
        Ok(PeerReference::DidWeb(web.to_owned()))
    );
    assert_eq!(
        PeerReference::parse("bob"),
        Ok(PeerReference::Name("bob".to_owned()))
    );
    for wrong in [
        "",
        "/ip4/192.0.2.1/tcp/4001",
        "did:key:zzz",
        "did:key:z6Mkabc",
        "did:other:x",
        "https://example.org",
        "a\nb",
    ] {
        assert!(
            matches!(PeerReference::parse(wrong), Err(LookupError::Malformed(_))),
            "{wrong:?}"
        );
    }
}

#[test]
fn an_alias_that_is_the_listed_id_of_another_peer_is_asked_about() {
    let other = numbered(2);
    let listed = short_id::peer(other.as_str());
    let names = names(&[(listed, 1)], &[(1, "one"), (2, "two")]);
    let Err(LookupError::Ambiguous(text)) = names.find(listed) else {
        panic!("{:?}", names.find(listed));
    };
    assert!(
        text.contains(numbered(1).as_str()) && text.contains(other.as_str()),
        "{text}"
    );
    assert_eq!(names.find(other.as_str().split_at(20).1), Ok(other));
}

#[test]
fn an_alias_goes_before_what_peers_say_of_themselves() {
    let names = names(&[("bob", 1)], &[(2, "bob"), (3, "carol")]);
    assert_eq!(names.find("bob"), Ok(numbered(1)));
    assert_eq!(names.find("carol"), Ok(numbered(3)));
    assert!(matches!(names.find("dave"), Err(LookupError::Unknown(_))));
    let said = names.find("caro").unwrap_err();
    assert!(said.message().contains("did you mean carol?"), "{said:?}");
}

#[test]
fn a_name_that_two_peers_have_is_refused_with_both() {
    let names = names(&[("mine", 1)], &[(1, "echo"), (2, "echo")]);
    let Err(LookupError::Ambiguous(said)) = names.find("echo") else {
        panic!("one of two");
    };
    for part in [numbered(1).as_str(), numbered(2).as_str(), "mine"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn nobody_is_called_as_another_peers_id_ends() {
    let victim = numbered(1);
    let short = short_id::peer(victim.as_str()).to_owned();
    let with = |liar: &str| names(&[], &[(1, ""), (2, liar)]);
    assert_eq!(with("").find(&short), Ok(victim));
    assert!(matches!(
        with(&short).find(&short),
        Err(LookupError::Ambiguous(_))
    ));
}

#[test]
fn a_piece_of_an_id_names_a_peer() {
    let names = names(&[("bob", 1)], &[(2, ""), (3, "")]);
    for number in 1..=3 {
        let wanted = numbered(number);
        let id = wanted.as_str();
        let did = did::did_of_peer(&wanted).unwrap();
        for piece in [
            &id[id.len() - 8..],
            &id[..id.len() - 1],
            &did[..did.len() - 1],
            &did[did.len() - 8..],
        ] {
            assert_eq!(names.find(piece), Ok(wanted.clone()), "{piece}");
        }
    }
    let id = numbered(2).to_string();
    for nothing in ["12D3KooW", &id[..13], &id[id.len() - 5..], "did:key:z6Mk"] {
        assert!(names.find(nothing).is_err(), "{nothing}");
    }
}

#[test]
fn lists_call_nobody_by_a_name_that_means_another() {
    let names = names(
        &[("bob", 1)],
        &[(1, "x"), (2, "bob"), (3, "two"), (4, "two"), (5, "five"), (6, "")],
    );
    let name = |number| names.name_of(&numbered(number));
    assert_eq!(name(1), Some("bob"));
    assert_eq!([name(2), name(3), name(4), name(6)], [None; 4]);
    assert_eq!(name(5), Some("five"));
    assert_eq!(display_name(&names, &numbered(6), true), numbered(6).to_string());
    assert!(display_name(&names, &numbered(5), false).starts_with("five "));
}

/// Texts that mean somebody, or nearly.
fn text(of: &[PeerId], at: usize, begin: usize, length: usize, as_did: bool) -> String {
    let Some(peer) = of.get(at % of.len().max(1)) else {
        return "bob".to_owned();
    };
    let whole = if as_did {
        did::did_of_peer(peer).unwrap()
    } else {
        peer.to_string()
    };
    let begin = begin % whole.len();
    whole.chars().skip(begin).take(length).collect()
}

proptest! {
    /// A name is found exactly if one peer fits by the model: the alias, or card names and pieces together.
    #[test]
    fn finds_whom_the_model_finds(
        seeds in prop::collection::vec(any::<[u8; 2]>(), 1..6),
        cards in prop::collection::vec(prop::sample::select(vec!["", "echo", "bob", "carol"]), 6),
        aliased in prop::collection::vec((prop::sample::select(vec!["bob", "amy", "echo"]), 0..6_usize), 0..3),
        at in 0..6_usize, begin in 0..60_usize, length in 1..60_usize, as_did: bool,
        word in prop::option::of(prop::sample::select(vec!["echo", "bob", "amy", "carol", "nobody"])),
    ) {
        // Ids that differ in two bytes only share long pieces.
        let peers: Vec<PeerId> = seeds.iter().map(|[a, b]| {
            let mut seed = [7; 32];
            (seed[0], seed[31]) = (*a, *b);
            peer(&seed)
        }).collect();
        let aliases: BTreeMap<String, PeerId> = aliased.iter()
            .map(|(name, at)| ((*name).to_owned(), peers[at % peers.len()].clone())).collect();
        let known: Vec<NamedPeer> = peers.iter().zip(&cards)
            .map(|(peer, name)| NamedPeer { peer: peer.clone(), card_name: (*name).to_owned() }).collect();
        let text = word.map_or_else(|| text(&peers, at, begin, length, as_did), str::to_owned);
        let names = PeerNames::new(aliases.clone(), known.clone());

        let model: Vec<&PeerId> = if let Some(peer) = aliases.get(&text) {
            vec![peer]
        } else {
            let mut fits: Vec<&PeerId> = known.iter().filter(|known| {
                let did = did::did_of_peer(&known.peer).unwrap();
                let (id_rest, did_rest) = (&known.peer.as_str()[8..], &did[12..]);
                let piece = |begins_at: &str, rest: &str| match text.strip_prefix(begins_at) {
                    Some(begin) => begin.len() >= 6 && rest.starts_with(begin),
                    None => text.len() >= 6 && rest.contains(&text),
                };
                known.card_name == text || piece("12D3KooW", id_rest) || piece("did:key:z6Mk", did_rest)
            }).map(|known| &known.peer).collect();
            fits.sort();
            fits.dedup();
            fits
        };
        match names.find(&text) {
            Ok(found) => prop_assert_eq!(vec![&found], model),
            Err(LookupError::Ambiguous(said)) => {
                prop_assert!(model.len() > 1, "{}", said);
                for peer in model {
                    prop_assert!(said.contains(peer.as_str()), "{}", said);
                }
            }
            Err(_) => prop_assert!(model.is_empty()),
        }
    }

    /// What a list calls a peer means that peer.
    #[test]
    fn a_shown_name_is_understood(
        cards in prop::collection::vec("[a-z]{0,3}", 1..8),
        aliased in prop::collection::vec(("[a-z]{1,3}", 0..8_usize), 0..4),
    ) {
        let peers: Vec<PeerId> = (0..cards.len()).map(|number| numbered(number as u8)).collect();
        let aliases = aliased.iter().map(|(name, at)| (name.clone(), peers[at % peers.len()].clone()));
        let known = peers.iter().zip(&cards)
            .map(|(peer, name)| NamedPeer { peer: peer.clone(), card_name: name.clone() });
        let names = PeerNames::new(aliases.collect(), known.collect());
        for peer in &peers {
            if let Some(name) = names.name_of(peer) {
                prop_assert_eq!(names.find(name), Ok(peer.clone()));
            }
        }
    }
}

#[test]
fn an_agent_is_shown_as_tasks_are_sent_to_it() {
    let names = names(&[("bob", 1)], &[(2, "")]);
    let shown =
        |peer: u8, agent: &str| display_agent(&names, Some(&numbered(9)), &numbered(peer), agent, false);
    let short = |peer: u8| short_id::peer(numbered(peer).as_str()).to_owned();
    assert_eq!(shown(1, ""), format!("bob {}", short(1)));
    assert_eq!(shown(1, "words"), format!("bob/words {}", short(1)));
    assert_eq!(shown(2, "words"), format!("{}/words", short(2)));
    assert_eq!(
        (shown(9, "").as_str(), shown(9, "words").as_str()),
        ("self", "self/words")
    );
}
