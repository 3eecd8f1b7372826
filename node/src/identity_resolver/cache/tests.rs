use std::collections::HashMap;

use agentanycast_identity::{
    Keypair,
    credential::{Grant, StatusEntry as Status, StatusList, Suite},
    did_key_of, document_of, peer_id,
    rotation::Rotation,
};
use agentanycast_proto::v1::P2pExtension;
use proptest::prelude::*;

use super::*;

const UNIX: u64 = 1_700_000_000_000;
const DAY: u64 = 24 * 3600 * 1000;
const WEB: &str = "did:web:example.org";
const TIMES: CacheTimes = CacheTimes {
    ttl: Duration::from_mins(5),
    negative: Duration::from_secs(30),
    stale: Duration::from_hours(1),
};

fn key(n: u8) -> Keypair {
    Keypair::ed25519_from_bytes([n; 32]).unwrap()
}

fn peer(n: u8) -> PeerId {
    peer_id(&key(n))
}

fn at(seconds: u64) -> Now {
    Now {
        mono: Duration::from_secs(seconds),
        unix: UNIX + seconds * 1000,
    }
}

fn names() -> RequiredProofs {
    RequiredProofs {
        names: true,
        issuers: Vec::new(),
    }
}

fn roll(asks: RequiredProofs) -> IdentityCache {
    IdentityCache::new(asks, TIMES)
}

fn web(n: u8, did: &str) -> IdentityClaims {
    let extension = P2pExtension {
        did_web: did.to_owned(),
        ..P2pExtension::default()
    };
    IdentityClaims::from_extension(peer(n), &extension)
}

fn source(did: &str) -> ClaimSource {
    ClaimSource::Web(did.parse().unwrap())
}

fn document(did: &str, n: u8) -> SourceAnswer {
    let document = document_of(did, peer(n), None).unwrap().to_string();
    SourceAnswer::Document(Document::read(did, document.as_bytes()).unwrap())
}

fn failure(is_passing: bool) -> LookupFailure {
    LookupFailure {
        why: "for a test".to_owned(),
        is_temporary: is_passing,
    }
}

/// What is asked now.
fn asked(roll: &mut IdentityCache) -> Vec<ClaimSource> {
    std::iter::from_fn(|| roll.next_to_ask()).collect()
}

/// The names that the engine is told of, of each peer that it is told of.
fn told(roll: &mut IdentityCache, now: Now) -> HashMap<PeerId, Vec<String>> {
    let verdicts = roll.take_resolved(now).into_iter();
    verdicts.map(|told| (told.peer, told.attributes.names)).collect()
}

fn proven(n: u8) -> HashMap<PeerId, Vec<String>> {
    [(peer(n), vec![WEB.to_owned()])].into()
}

fn nothing(n: u8) -> HashMap<PeerId, Vec<String>> {
    [(peer(n), Vec::new())].into()
}

#[test]
fn a_name_counts_once_its_document_has_the_key_and_is_asked_for_once() {
    let mut roll = roll(names());
    roll.on_claims(at(0), peer(1), web(1, WEB));
    roll.on_claims(at(0), peer(2), web(2, WEB));
    assert!(told(&mut roll, at(0)).is_empty() && roll.is_pending(peer(1)));
    assert_eq!(asked(&mut roll), [source(WEB)]);
    roll.on_answer(at(1), &source(WEB), Ok(document(WEB, 1)));
    let told_now = told(&mut roll, at(1));
    assert_eq!(told_now[&peer(1)], [WEB]);
    assert!(told_now[&peer(2)].is_empty() && !roll.is_pending(peer(2)));
    // Whoever comes again is told at once.
    roll.on_claims(at(2), peer(1), web(1, WEB));
    assert_eq!(told(&mut roll, at(2)), proven(1));
    assert_eq!(asked(&mut roll), []);
}

/// A node has changed its key, and its document is right at once.
#[test]
fn a_document_without_the_key_of_one_who_says_it_is_its_own_is_asked_for_anew() {
    let mut roll = roll(names());
    roll.on_claims(at(0), peer(1), web(1, WEB));
    roll.take_resolved(at(0));
    asked(&mut roll);
    roll.on_answer(at(1), &source(WEB), Ok(document(WEB, 1)));
    assert_eq!(told(&mut roll, at(1)), proven(1));
    for again in [2, 3] {
        roll.on_claims(at(again), peer(2), web(2, WEB));
        assert!(told(&mut roll, at(again)).is_empty() && roll.is_pending(peer(2)));
    }
    assert_eq!(asked(&mut roll), [source(WEB)]);
    // What was proven of others stays meanwhile, and they are told when they come.
    roll.on_claims(at(4), peer(1), web(1, WEB));
    assert!(told(&mut roll, at(4)).is_empty());
    roll.on_answer(at(5), &source(WEB), Ok(document(WEB, 2)));
    let told_now = told(&mut roll, at(5));
    assert_eq!(told_now[&peer(2)], [WEB]);
    assert!(told_now[&peer(1)].is_empty());
    assert!(!roll.is_pending(peer(1)) && !roll.is_pending(peer(2)));
    // Whoever says so again and again does not make this node ask again and again: he waits for the next time.
    roll.on_claims(at(6), peer(3), web(3, WEB));
    assert!(told(&mut roll, at(6)).is_empty() && roll.is_pending(peer(3)));
    roll.tick(at(6), |_| true);
    assert_eq!(asked(&mut roll), []);
    roll.tick(at(7), |_| true);
    assert_eq!(asked(&mut roll), [source(WEB)]);
    roll.on_answer(at(8), &source(WEB), Ok(document(WEB, 2)));
    assert_eq!(told(&mut roll, at(8)), nothing(3));
    assert!(!roll.is_pending(peer(3)));
    // A thief is looked up as often as anybody, and proves nothing.
    roll.on_claims(at(30), peer(3), web(3, WEB));
    assert!(told(&mut roll, at(30)).is_empty());
    assert_eq!(asked(&mut roll), [source(WEB)]);
    roll.on_answer(at(31), &source(WEB), Err(failure(true)));
    assert_eq!(told(&mut roll, at(31)), nothing(3));
    assert!(!roll.is_pending(peer(3)));
    roll.on_claims(at(32), peer(2), web(2, WEB));
    assert_eq!(told(&mut roll, at(32)), proven(2), "out of reach is no denial");
}

/// Whoever looks into the log finds why somebody was not let in, once.
#[test]
fn what_does_not_count_is_told_with_the_reason_and_once() {
    let said = |answer: Result<SourceAnswer, LookupFailure>| {
        let mut roll = roll(names());
        roll.on_claims(at(0), peer(1), web(1, WEB));
        assert!(roll.take_resolved(at(0)).iter().all(|told| told.news.is_empty()));
        asked(&mut roll);
        roll.on_answer(at(1), &source(WEB), answer);
        let verdict = roll.take_resolved(at(1)).remove(0);
        assert_eq!(verdict.news, verdict.unproven);
        let told = verdict.news.join("; ");
        roll.on_claims(at(2), peer(1), web(1, WEB));
        roll.take_resolved(at(2));
        for source in asked(&mut roll) {
            roll.on_answer(at(3), &source, Ok(document(WEB, 2)));
        }
        let again = roll.take_resolved(at(3));
        assert!(again.iter().all(|again| again.unproven == verdict.unproven));
        (told, again.iter().all(|told| told.news.is_empty()))
    };
    assert_eq!(said(Ok(document(WEB, 1))).0, "");
    let (told, is_quiet) = said(Ok(document(WEB, 2)));
    assert!(
        told.starts_with(WEB) && told.contains("does not have the key"),
        "{told}"
    );
    assert!(is_quiet);
    let (told, _) = said(Err(failure(true)));
    assert_eq!(
        told,
        format!("{WEB}: what is published for it cannot be had: for a test")
    );
}

/// What a server makes of its failure is short, and one line.
#[test]
fn the_cause_of_a_failure_is_told_and_bounded() {
    let url = "https://issuer.example/list";
    let list = ClaimSource::StatusList(url.to_owned());
    let entry = Status {
        list: url.to_owned(),
        index: 5,
        purpose: "revocation".to_owned(),
    };
    let because = |why: String| {
        let mut roll = roll(issuer_is(9));
        roll.on_claims(at(0), peer(1), with_credential(1, 9, Some(entry.clone())));
        roll.take_resolved(at(0));
        asked(&mut roll);
        let failure = LookupFailure {
            why,
            is_temporary: true,
        };
        roll.on_answer(at(0), &list, Err(failure));
        roll.take_resolved(at(0)).remove(0).unproven.remove(0)
    };
    let told = because("it answered\n500".to_owned());
    assert!(
        told.ends_with("its status list cannot be had: it answered 500"),
        "{told}"
    );
    let long = because("x".repeat(1 << 20));
    assert!(
        (100..=MAX_FAILURE_TEXT).contains(&long.matches('x').count()),
        "{long}"
    );
}

#[test]
fn a_source_that_was_not_asked_is_told_as_that() {
    let mut roll = roll(names());
    for n in 0..=MAX_NEW_PER_PEER {
        roll.on_claims(at(0), peer(1), web(1, &format!("did:web:h{n}.example")));
        roll.take_resolved(at(0));
        asked(&mut roll);
        roll.in_flight = 0;
    }
    roll.on_claims(at(0), peer(1), web(1, "did:web:last.example"));
    let told = roll.take_resolved(at(0)).remove(0).unproven.remove(0);
    assert!(
        told.ends_with(&format!("cannot be had: {TOO_MANY_LOOKUPS}")),
        "{told}"
    );
}

/// Whatever a server makes of its answers: a reason is told when it is another one, so at most once for each answer.
#[test]
fn another_reason_is_told_when_it_changes_and_once_for_each_answer() {
    let mut roll = roll(names());
    roll.on_claims(at(0), peer(1), web(1, WEB));
    let mut now = 0;
    let mut next = |said: Result<SourceAnswer, LookupFailure>| {
        now += 400;
        roll.tick(at(now), |_| true);
        roll.take_resolved(at(now));
        assert_eq!(asked(&mut roll), [source(WEB)]);
        roll.on_answer(at(now), &source(WEB), said);
        let told = roll.take_resolved(at(now));
        for second in 1..20 {
            roll.tick(at(now + second), |_| true);
            assert_eq!(
                roll.take_resolved(at(now + second)),
                [],
                "nothing was asked since"
            );
        }
        let news = |told: ResolvedPeer| {
            assert_eq!(told.unproven.len(), 1);
            told.news
        };
        told.into_iter().flat_map(news).collect::<Vec<_>>().join("; ")
    };
    assert!(next(Ok(document(WEB, 2))).contains("does not have the key"));
    assert!(next(Err(failure(false))).contains("cannot be had"));
    assert_eq!(next(Err(failure(true))), "", "as before");
    let other = LookupFailure {
        why: "another one".to_owned(),
        is_temporary: true,
    };
    assert!(next(Err(other)).ends_with("cannot be had: another one"));
    assert!(next(Ok(document(WEB, 3))).contains("does not have the key"));
    assert_eq!(next(Ok(document(WEB, 4))), "");
}

/// The shrunk case of a failure of `what_counts_was_said`: the third claim within seconds waits for the pause between two
/// questions, and no longer.
#[test]
fn a_peer_that_claims_a_name_thrice_within_seconds_waits_for_the_pause_only() {
    let mut roll = roll(names());
    let claim = |roll: &mut IdentityCache, now| {
        roll.on_claims(at(now), peer(0), web(0, WEB));
        roll.take_resolved(at(now));
        asked(roll)
    };
    let hear = |roll: &mut IdentityCache, now, key| {
        roll.on_answer(at(now), &source(WEB), Ok(document(WEB, key)));
        assert_eq!(told(roll, at(now)), nothing(0));
    };
    assert_eq!(claim(&mut roll, 0), [source(WEB)]);
    hear(&mut roll, 0, 2);
    assert_eq!(claim(&mut roll, 1), [source(WEB)]);
    hear(&mut roll, 1, 1);
    for now in 2..6 {
        roll.tick(at(now), |_| true);
        // Further claims do not prolong the pause.
        assert_eq!(claim(&mut roll, now), []);
        assert!(roll.is_pending(peer(0)), "{now}");
    }
    roll.tick(at(6), |_| true);
    roll.take_resolved(at(6));
    assert_eq!(asked(&mut roll), [source(WEB)]);
    hear(&mut roll, 6, 3);
    assert!(!roll.is_pending(peer(0)));
}

#[test]
fn a_peer_whose_source_was_displaced_while_it_waits_is_asked_about_again() {
    for has_answer in [false, true] {
        let mut roll = roll(names());
        roll.on_claims(at(0), peer(1), web(1, WEB));
        roll.take_resolved(at(0));
        assert_eq!(asked(&mut roll), [source(WEB)]);
        // As many other sources as there is room for.
        roll.sources.pop(&source(WEB));
        if has_answer {
            roll.on_answer(at(1), &source(WEB), Ok(document(WEB, 1)));
        }
        roll.take_resolved(at(1));
        assert!(roll.is_pending(peer(1)));
        roll.tick(at(2), |_| true);
        assert!(told(&mut roll, at(2)).is_empty());
        assert_eq!(asked(&mut roll), [source(WEB)]);
        roll.on_answer(at(3), &source(WEB), Ok(document(WEB, 1)));
        assert_eq!(told(&mut roll, at(3)), proven(1));
    }
}

#[test]
fn it_is_asked_again_in_time_and_ends_with_its_document() {
    let mut roll = roll(names());
    roll.on_claims(at(0), peer(1), web(1, WEB));
    roll.take_resolved(at(0));
    asked(&mut roll);
    roll.on_answer(at(0), &source(WEB), Ok(document(WEB, 1)));
    assert_eq!(told(&mut roll, at(0)), proven(1));
    let next = |roll: &mut IdentityCache, now, said| {
        roll.tick(at(now - 1), |_| true);
        roll.take_resolved(at(now - 1));
        assert_eq!(asked(roll), [], "not yet");
        roll.tick(at(now), |_| true);
        roll.take_resolved(at(now));
        assert_eq!(asked(roll), [source(WEB)]);
        roll.on_answer(at(now), &source(WEB), said);
        told(roll, at(now))
    };
    // Out of reach it counts on, for a while.
    assert!(next(&mut roll, 300, Err(failure(true))).is_empty());
    assert!(next(&mut roll, 330, Ok(document(WEB, 1))).is_empty());
    // With another key it ends, and so it does when the document is gone.
    assert_eq!(next(&mut roll, 630, Ok(document(WEB, 2))), nothing(1));
    assert_eq!(next(&mut roll, 930, Ok(document(WEB, 1))), proven(1));
    assert_eq!(next(&mut roll, 1230, Err(failure(false))), nothing(1));
    // That there is none is asked again sooner.
    assert_eq!(next(&mut roll, 1260, Ok(document(WEB, 1))), proven(1));
    let mut now = 1560;
    while now < 1560 + 3600 {
        assert!(next(&mut roll, now, Err(failure(true))).is_empty(), "{now}");
        now += 30;
    }
    assert_eq!(next(&mut roll, now, Err(failure(true))), nothing(1));
}

#[test]
fn who_is_gone_is_not_asked_about() {
    let mut roll = roll(names());
    roll.on_claims(at(0), peer(1), web(1, WEB));
    roll.take_resolved(at(0));
    asked(&mut roll);
    roll.on_answer(at(0), &source(WEB), Ok(document(WEB, 1)));
    roll.take_resolved(at(0));
    roll.tick(at(300), |_| false);
    assert_eq!(told(&mut roll, at(300)), nothing(1));
    assert_eq!(
        (asked(&mut roll), roll.peers.len(), roll.sources.len(), roll.bytes),
        (vec![], 0, 0, 0)
    );
}

#[test]
fn without_rules_that_ask_for_names_nobody_is_asked() {
    let mut roll = roll(RequiredProofs::default());
    roll.on_claims(at(0), peer(1), web(1, WEB));
    assert_eq!(told(&mut roll, at(0)), nothing(1));
    assert_eq!(asked(&mut roll), []);
    // With rules that do, those who are there are looked at.
    roll.set_required(names());
    assert!(told(&mut roll, at(1)).is_empty());
    assert_eq!(asked(&mut roll), [source(WEB)]);
}

#[test]
fn nobody_makes_this_node_knock_on_many_doors() {
    let mut roll = roll(names());
    let mut count = 0;
    for n in 0..100 {
        roll.on_claims(at(0), peer(1), web(1, &format!("did:web:h{n}.example")));
        roll.take_resolved(at(0));
        for source in asked(&mut roll) {
            count += 1;
            roll.on_answer(at(0), &source, Err(failure(false)));
        }
    }
    assert_eq!(count, MAX_NEW_PER_PEER);
    assert_eq!(told(&mut roll, at(0)), HashMap::new());
    assert!(!roll.is_pending(peer(1)), "it was told that nothing is proven");
    roll.on_claims(at(60), peer(1), web(1, WEB));
    roll.take_resolved(at(60));
    assert_eq!(asked(&mut roll).len(), 1);
}

fn with_credential(subject: u8, issuer: u8, status: Option<Status>) -> IdentityClaims {
    let grant = Grant {
        id: String::new(),
        issuer: did_key_of(peer(issuer)).unwrap(),
        subject: did_key_of(peer(subject)).unwrap(),
        capabilities: Vec::new(),
        from_ms: UNIX,
        until_ms: Some(UNIX + DAY),
        status,
    };
    let signed = grant.sign(&key(issuer), Suite::EddsaJcs2022, UNIX).unwrap();
    let extension = P2pExtension {
        verifiable_credentials: vec!["{}".to_owned(), signed.to_string()],
        ..P2pExtension::default()
    };
    IdentityClaims::from_extension(peer(1), &extension)
}

fn vouched(roll: &mut IdentityCache, now: Now) -> Option<bool> {
    let mut verdicts = roll.take_resolved(now).into_iter();
    let mine = verdicts.find(|told| told.peer == peer(1) && told.is_settled);
    mine.map(|told| told.attributes.vouched)
}

fn issuer_is(n: u8) -> RequiredProofs {
    RequiredProofs {
        names: false,
        issuers: vec![did_key_of(peer(n)).unwrap()],
    }
}

#[test]
fn a_credential_vouches_for_its_subject_while_it_counts() {
    let mut roll = roll(issuer_is(9));
    for (subject, issuer, counts) in [(1, 9, true), (1, 8, false), (2, 9, false)] {
        roll.on_claims(at(0), peer(1), with_credential(subject, issuer, None));
        let said = vouched(&mut roll, at(0));
        assert!(
            said == Some(counts) || (said.is_none() && !counts),
            "{subject} {issuer}"
        );
    }
    roll.on_claims(at(0), peer(1), with_credential(1, 9, None));
    assert_eq!(vouched(&mut roll, at(0)), Some(true));
    let end = DAY / 1000;
    roll.tick(at(end - 1), |_| true);
    assert_eq!(vouched(&mut roll, at(end - 1)), None);
    roll.tick(at(end), |_| true);
    assert_eq!(vouched(&mut roll, at(end)), Some(false));
}

#[test]
fn a_credential_that_was_taken_back_vouches_for_nobody() {
    let url = "https://issuer.example/list";
    let entry = Status {
        list: url.to_owned(),
        index: 5,
        purpose: "revocation".to_owned(),
    };
    let list = ClaimSource::StatusList(url.to_owned());
    let issuer = did_key_of(peer(9)).unwrap();
    let mut bits = StatusList::new("revocation");
    let signed = |bits: &StatusList, n: u8| {
        let text = bits.sign(url, &did_key_of(peer(n)).unwrap(), &key(n), UNIX, DAY);
        SourceAnswer::List(text.unwrap().to_string().into())
    };
    let clear = signed(&bits, 9);
    let foreign = signed(&bits, 8);
    bits.set(5);
    let set = signed(&bits, 9);
    assert!(issuer_is(9).issuers.contains(&issuer));
    for (said, counts) in [
        (Ok(clear), true),
        (Ok(set), false),
        (Ok(foreign), false),
        (Ok(SourceAnswer::List(Bytes::from_static(b"{}"))), false),
        (Err(failure(true)), false),
    ] {
        let mut roll = roll(issuer_is(9));
        roll.on_claims(at(0), peer(1), with_credential(1, 9, Some(entry.clone())));
        assert_eq!(vouched(&mut roll, at(0)), None);
        assert_eq!(asked(&mut roll), std::slice::from_ref(&list));
        roll.on_answer(at(0), &list, said);
        assert_eq!(vouched(&mut roll, at(0)), Some(counts));
    }
}

#[test]
fn former_keys_are_told_while_the_change_counts() {
    let rotation = Rotation::sign(&key(2), &key(1), UNIX).unwrap();
    let extension = P2pExtension {
        key_rotations: vec![b"x".to_vec(), rotation.to_bytes()],
        ..P2pExtension::default()
    };
    let claims = IdentityClaims::from_extension(peer(1), &extension);
    assert!(claims.is_any(&RequiredProofs::default()));
    let mut roll = roll(RequiredProofs::default());
    roll.on_claims(at(0), peer(1), claims);
    let verdicts = roll.take_resolved(at(0));
    assert_eq!(verdicts[0].attributes.former, [peer(2)]);
    let end = 30 * DAY / 1000;
    roll.tick(at(end), |_| true);
    assert_eq!(roll.take_resolved(at(end))[0].attributes.former, []);
}

#[derive(Clone, Debug)]
enum CacheStep {
    Claim(u8, u8),
    Hear(prop::sample::Index, u8),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<CacheStep>> {
    let step = prop_oneof![
        (0..4_u8, 0..4_u8).prop_map(|(peer, did)| CacheStep::Claim(peer, did)),
        (any::<prop::sample::Index>(), 0..6_u8).prop_map(|(which, said)| CacheStep::Hear(which, said)),
        (1..400_u64).prop_map(CacheStep::Pass),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// Whatever is claimed, answered and when: a name that counts was said by its source within the time that it counts,
    /// nothing is asked twice at once, and a peer that claims is told when everything has been answered. A question that was
    /// asked a moment ago is asked again after a pause, and a peer waits no longer than that for it.
    #[test]
    fn what_counts_was_said(steps in steps()) {
        let did = |n: u8| format!("did:web:h{n}.example");
        let mut roll = roll(names());
        let mut now = 0;
        let mut flying: Vec<ClaimSource> = Vec::new();
        // When each source said last which key is the name's.
        let mut said: HashMap<ClaimSource, (u64, Option<u8>)> = HashMap::new();
        let mut believed: HashMap<u8, Vec<String>> = HashMap::new();
        let mut claimed: HashMap<u8, u8> = HashMap::new();
        // Since when the questions of peers wait that are neither asked nor answered.
        let mut paused: HashMap<ClaimSource, u64> = HashMap::new();
        for step in steps {
            match step {
                CacheStep::Claim(n, which) => {
                    roll.on_claims(at(now), peer(n), web(n, &did(which)));
                    claimed.insert(n, which);
                }
                CacheStep::Hear(which, answer) if !flying.is_empty() => {
                    let source = flying.swap_remove(which.index(flying.len()));
                    let n = (0..4).find(|n| source == self::source(&did(*n))).unwrap();
                    let heard = match answer {
                        4 => Err(failure(true)),
                        5 => Err(failure(false)),
                        key => Ok(document(&did(n), key)),
                    };
                    match answer {
                        4 => {}
                        5 => { said.insert(source.clone(), (now, None)); }
                        key => { said.insert(source.clone(), (now, Some(key))); }
                    }
                    roll.on_answer(at(now), &source, heard);
                }
                CacheStep::Hear(..) => {}
                CacheStep::Pass(seconds) => {
                    now += seconds;
                    roll.tick(at(now), |_| true);
                }
            }
            for told in roll.take_resolved(at(now)) {
                let n = (0..4).find(|n| peer(*n) == told.peer).unwrap();
                believed.insert(n, told.attributes.names);
            }
            for source in asked(&mut roll) {
                prop_assert!(!flying.contains(&source));
                flying.push(source);
            }
            prop_assert!(flying.len() <= MAX_LOOKUPS);
            for (n, names) in &believed {
                for name in names {
                    let (when, key) = said[&source(name)];
                    prop_assert_eq!(key, Some(*n));
                    // With the answer that is on its way, if its source is slow.
                    prop_assert!(now - when <= 300 + 3600 + 400 || flying.contains(&source(name)));
                }
            }
            let waited: Vec<ClaimSource> = claimed
                .iter()
                .filter(|(n, _)| roll.is_pending(peer(**n)))
                .map(|(_, which)| self::source(&did(*which)))
                .filter(|source| !flying.contains(source))
                .collect();
            paused.retain(|source, _| waited.contains(source));
            for source in waited {
                prop_assert!(said.contains_key(&source), "it was never asked");
                let since = *paused.entry(source).or_insert(now);
                prop_assert!(now - since < REFRESH_PAUSE.as_secs(), "since {}, at {}", since, now);
            }
        }
    }
}
