use agentanycast_proto::v1::Skill;

use super::*;

const NOW: u64 = 1_800_000_000_000;
const LIFE: Duration = Duration::from_mins(30);
const LIFETIME: Lifetime = Lifetime {
    longest: LIFE,
    skew: Duration::from_mins(10),
};

fn card(skills: usize, description: &str) -> AgentCard {
    let skill = |n| Skill {
        id: format!("skill-{n}"),
        description: description.to_owned(),
        tags: [("lang".to_owned(), "de".to_owned())].into(),
        ..Skill::default()
    };
    AgentCard {
        name: "Ada".to_owned(),
        description: "counts".to_owned(),
        skills: (0..skills).map(skill).collect(),
        ..AgentCard::default()
    }
}

fn signed(key: &Keypair) -> Vec<u8> {
    let mut record = describe(&card(1, "one")).unwrap();
    record.addresses = vec!["/ip4/203.0.113.7/tcp/4001".to_owned()];
    sign(record, key, NOW, LIFE).unwrap()
}

fn seal(record: &AgentRecord, key: &Keypair, domain: &str) -> Vec<u8> {
    let payload = record.encode_to_vec();
    let envelope = SignedEnvelope::new(key, domain.to_owned(), PAYLOAD_TYPE.to_vec(), payload);
    envelope.unwrap().into_protobuf_encoding()
}

#[test]
fn what_a_peer_says_of_itself_is_believed_while_it_lives() {
    let key = Keypair::generate_ed25519();
    let peer = key.public().to_peer_id();
    let (value, at) = (signed(&key), key::of_agent(peer));
    let (who, record) = check(&at, &value, NOW, LIFETIME).unwrap();
    assert_eq!((who, record.name.as_str(), record.skills.len()), (peer, "Ada", 1));
    assert_eq!(record.skills[0].tags["lang"], "de");
    assert!(offers(&record, "skill-0") && !offers(&record, "skill-1"));
    let minute = 60_000;
    let at_time = |now| check(&at, &value, now, LIFETIME).map(|_| ());
    assert_eq!(at_time(NOW - 10 * minute), Ok(()), "a slow clock here");
    assert_eq!(at_time(NOW - 10 * minute - 1), Err(RecordError::Times));
    assert_eq!(at_time(NOW + 40 * minute - 1), Ok(()), "a slow clock there");
    assert_eq!(at_time(NOW + 40 * minute), Err(RecordError::Expired));
}

#[test]
fn forged_records_are_refused() {
    let (key, other) = (Keypair::generate_ed25519(), Keypair::generate_ed25519());
    let peer = key.public().to_peer_id();
    let at = key::of_agent(peer);
    let refused = |at: &kad::RecordKey, value: &[u8]| check(at, value, NOW, LIFETIME).unwrap_err();

    assert_eq!(refused(&key::of_skill("echo"), &signed(&key)), RecordError::Key);
    assert_eq!(
        refused(&at, &signed(&other)),
        RecordError::Signer,
        "another's record at our key"
    );
    let mut record = check(&at, &signed(&key), NOW, LIFETIME).unwrap().1;
    assert_eq!(refused(&at, &seal(&record, &other, DOMAIN)), RecordError::Signer);
    assert_eq!(
        refused(&at, &seal(&record, &key, "another protocol")),
        RecordError::Signer
    );
    let mut changed = signed(&key);
    let name = changed.windows(3).position(|bytes| bytes == b"Ada").unwrap();
    changed[name] = b'E';
    assert_eq!(refused(&at, &changed), RecordError::Signer);
    assert_eq!(refused(&at, b"no envelope"), RecordError::Malformed);
    assert_eq!(refused(&at, &vec![0; MAX_RECORD_BYTES + 1]), RecordError::TooLong);

    record.expires_at_ms = record.signed_at_ms + LIFE.as_millis() as u64 + 1;
    assert_eq!(refused(&at, &seal(&record, &key, DOMAIN)), RecordError::Times);
    record.expires_at_ms = record.signed_at_ms - 1;
    assert_eq!(refused(&at, &seal(&record, &key, DOMAIN)), RecordError::Times);
    record.expires_at_ms = NOW;
    record.peer_id = other.public().to_peer_id().to_bytes();
    assert_eq!(refused(&at, &seal(&record, &key, DOMAIN)), RecordError::Signer);
    record.peer_id = peer.to_bytes();
    record.addresses = vec![String::new(); MAX_ADDRESSES + 1];
    assert_eq!(refused(&at, &seal(&record, &key, DOMAIN)), RecordError::Malformed);
}

#[test]
fn skills_name_their_agents_where_there_is_room() {
    let with_agent = |skills: usize, name: &str| {
        let node = card(skills, "");
        let agent = AgentCard {
            agent: name.to_owned(),
            ..node.clone()
        };
        AgentCard {
            agents: vec![agent],
            ..node
        }
    };
    let agents = |card: &AgentCard| -> Vec<String> {
        let skills = describe(card).unwrap().skills.into_iter();
        skills.map(|skill| skill.agent).collect()
    };
    assert_eq!(agents(&with_agent(2, "digger")), ["digger", "digger"]);
    assert_eq!(agents(&card(1, "")), [""]);
    let wide = with_agent(150, &"x".repeat(64));
    assert!(
        agents(&wide).iter().all(String::is_empty),
        "a skill that is found goes before its agent"
    );
}

#[test]
fn a_record_fits_or_says_why_not() {
    let long = describe(&card(20, &"é".repeat(1000))).unwrap();
    assert_eq!(long.skills[0].description.len(), MAX_DESCRIPTION);
    let many = describe(&card(150, &"x".repeat(200))).unwrap();
    assert!(many.skills.iter().all(|skill| skill.description.is_empty()));
    let key = Keypair::generate_ed25519();
    let mut full = many.clone();
    full.addresses = vec![format!("/dns4/{}/tcp/4001", "relay.".repeat(70)); 30];
    let value = sign(full, &key, NOW, LIFE).unwrap();
    assert!(value.len() <= MAX_RECORD_BYTES, "{}", value.len());
    let at = key::of_agent(key.public().to_peer_id());
    let (_, record) = check(&at, &value, NOW, LIFETIME).unwrap();
    assert!((1..MAX_ADDRESSES).contains(&record.addresses.len()));

    assert_eq!(describe(&card(257, "")), Err(DescribeError::TooManySkills(257)));
    let mut wide = card(200, "");
    for skill in &mut wide.skills {
        skill.id.push_str(&"x".repeat(100));
    }
    assert!(matches!(describe(&wide), Err(DescribeError::TooLong(bytes)) if bytes > MAX_RECORD_BYTES));
}
