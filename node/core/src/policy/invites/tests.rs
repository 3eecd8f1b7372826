//! Invites against a model: a list of who showed what when.

use proptest::prelude::*;

use super::*;

fn peer(number: u8) -> PeerId {
    PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[number; 32]].concat()).unwrap()
}

fn secret(number: u8) -> [u8; SECRET] {
    [number; SECRET]
}

fn invite(number: u8, uses: u32, expires_at: Option<u64>) -> Invite {
    Invite {
        id: format!("i{number}"),
        label: "friends".to_owned(),
        agent: String::new(),
        agents: Vec::new(),
        skill: String::new(),
        hash: hash_of(&secret(number)),
        uses,
        created_at: 0,
        expires_at,
        peers: Vec::new(),
    }
}

#[test]
fn the_first_peers_take_the_uses() {
    let mut invites = Invites::default();
    assert!(invites.add(0, invite(1, 2, Some(100))).0);
    assert_eq!(invites.redeem(1, peer(1), &secret(1)).0, RedeemResult::Redeemed);
    assert_eq!(invites.redeem(1, peer(1), &secret(1)).0, RedeemResult::Held);
    assert_eq!(invites.redeem(99, peer(2), &secret(1)).0, RedeemResult::Redeemed);
    assert_eq!(invites.redeem(99, peer(3), &secret(1)).0, RedeemResult::UsedUp);
    assert_eq!(invites.redeem(100, peer(3), &secret(1)).0, RedeemResult::Expired);
    assert_eq!(
        invites.redeem(100, peer(2), &secret(1)).0,
        RedeemResult::Held,
        "it ends the taking only"
    );
    for wrong in [&secret(2)[..], &[], &[1; 15], &[1; 17]] {
        assert_eq!(invites.redeem(1, peer(1), wrong).0, RedeemResult::Unknown);
    }
    assert_eq!(
        invites.grants_of(peer(2)).next().unwrap().label.as_deref(),
        Some("friends")
    );
    assert!(invites.grants_of(peer(3)).next().is_none());
    assert_eq!(invites.remove("i1").unwrap().peers, [peer(1), peer(2)]);
    assert!(invites.grants_of(peer(1)).next().is_none() && invites.grants_of(peer(2)).next().is_none());
    assert_eq!(invites, Invites::default());
}

#[test]
fn a_new_invite_takes_the_room_of_those_that_are_spent() {
    let mut invites = Invites::default();
    for number in 0..MAX_INVITES {
        let mut one = invite(0, 1, Some(10));
        one.id = number.to_string();
        one.hash[..8].copy_from_slice(&(number as u64).to_be_bytes());
        assert!(invites.add(0, one).0);
    }
    assert_eq!(invites.add(9, invite(1, 1, None)), (false, Vec::new()));
    let (added, gone) = invites.add(10, invite(1, 1, None));
    assert!(added);
    assert_eq!(gone.len(), MAX_INVITES);
    assert_eq!(invites.iter().count(), 1);
}

#[test]
fn labels_are_plain_words() {
    for good in ["a", "team-1", "A.b_c", &"x".repeat(64)] {
        assert!(is_label(good), "{good}");
    }
    for bad in ["", "a b", "*", "ä", "a:b", &"x".repeat(65)] {
        assert!(!is_label(bad), "{bad}");
    }
}

#[derive(Clone, Debug)]
enum InviteStep {
    Add(u8, u32, Option<u64>),
    Show(u8, u8),
    Remove(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = InviteStep> {
    prop_oneof![
        (0..3_u8, 1..4_u32, prop::option::of(0..40_u64))
            .prop_map(|(n, uses, at)| InviteStep::Add(n, uses, at)),
        (0..6_u8, 0..4_u8).prop_map(|(peer, secret)| InviteStep::Show(peer, secret)),
        (0..3_u8).prop_map(InviteStep::Remove),
        (0..10_u64).prop_map(InviteStep::Wait),
    ]
}

proptest! {
    /// Whoever holds a right has shown its secret in time, and there are no more of them than uses.
    #[test]
    fn nobody_gets_in_without_a_use(steps in prop::collection::vec(step(), 0..60)) {
        let mut invites = Invites::default();
        let mut model: BTreeMap<u8, (u32, Option<u64>, Vec<u8>)> = BTreeMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                InviteStep::Add(number, uses, at) => {
                    invites.add(now, invite(number, uses, at));
                    model.insert(number, (uses, at, Vec::new()));
                }
                InviteStep::Show(who, number) => {
                    let shown = invites.redeem(now, peer(who), &secret(number)).0;
                    let expected = match model.get_mut(&number) {
                        None => RedeemResult::Unknown,
                        Some((_, _, peers)) if peers.contains(&who) => RedeemResult::Held,
                        Some((_, Some(at), _)) if now >= *at => RedeemResult::Expired,
                        Some((uses, _, peers)) if peers.len() >= *uses as usize => RedeemResult::UsedUp,
                        Some((_, _, peers)) => {
                            peers.push(who);
                            RedeemResult::Redeemed
                        }
                    };
                    prop_assert_eq!(shown, expected);
                }
                InviteStep::Remove(number) => {
                    let removed = invites.remove(&format!("i{number}"));
                    prop_assert_eq!(removed.is_some(), model.remove(&number).is_some());
                }
                InviteStep::Wait(time) => now += time,
            }
            for who in 0..6 {
                let held = model.values().filter(|(_, _, peers)| peers.contains(&who)).count();
                prop_assert_eq!(invites.grants_of(peer(who)).count(), held);
            }
            // What is kept is read again as it was.
            let mut again = Invites::default();
            for invite in invites.iter() {
                again.add(now, invite.clone());
            }
            for who in 0..6 {
                let sorted = |invites: &Invites| {
                    let mut rights = invites.grants_of(peer(who)).map(|right| right.label).collect::<Vec<_>>();
                    rights.sort();
                    rights
                };
                prop_assert_eq!(sorted(&again), sorted(&invites));
            }
        }
    }
}
