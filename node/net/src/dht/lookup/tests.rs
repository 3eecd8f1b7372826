use std::time::Duration;

use agentanycast_proto::v1::SkillInfo;

use super::*;

type SearchReply = oneshot::Receiver<Result<Vec<FoundAgent>, FindError>>;

/// The network of a test: numbers the queries, and notes what runs.
#[derive(Default)]
struct FakeQueries {
    next: u32,
    running: BTreeMap<u32, Option<PeerId>>,
}

impl FakeQueries {
    /// The query for the record of `peer`.
    fn asks(&self, peer: PeerId) -> Option<u32> {
        let mut running = self.running.iter();
        running.find_map(|(query, of)| (*of == Some(peer)).then_some(*query))
    }
}

impl Queries for FakeQueries {
    type Id = u32;

    fn providers(&mut self, _: &str) -> u32 {
        self.next += 1;
        self.running.insert(self.next, None);
        self.next
    }

    fn record(&mut self, peer: PeerId) -> u32 {
        self.next += 1;
        self.running.insert(self.next, Some(peer));
        self.next
    }

    fn end(&mut self, query: u32) {
        assert!(self.running.remove(&query).is_some(), "ended twice");
    }
}

struct SearchFixture {
    searches: Searches<u32>,
    network: FakeQueries,
    now: Instant,
}

impl SearchFixture {
    fn new() -> Self {
        Self {
            searches: Searches::new(PeerId::random()),
            network: FakeQueries::default(),
            now: Instant::now(),
        }
    }

    fn ask(&mut self, skill: &str, limit: usize) -> SearchReply {
        let (reply, answer) = oneshot::channel();
        let asker = SearchRequest {
            limit,
            deadline: self.now + Duration::from_secs(1),
            reply,
        };
        self.searches.ask(skill.to_owned(), asker, &mut self.network);
        answer
    }

    fn found(&mut self, query: u32, peers: &[PeerId]) {
        let peers = peers
            .iter()
            .map(|peer| (*peer, vec!["/ip4/203.0.113.7/tcp/1".to_owned()]));
        self.searches.found(query, peers, &mut self.network);
    }

    fn record(&mut self, query: u32, skill: &str, signed_at_ms: u64) {
        let skills = vec![SkillInfo {
            skill_id: skill.to_owned(),
            ..SkillInfo::default()
        }];
        let record = AgentRecord {
            skills,
            signed_at_ms,
            ..AgentRecord::default()
        };
        self.searches.record(query, record, &mut self.network);
    }

    fn ended(&mut self, query: u32) {
        self.network.running.remove(&query);
        self.searches.ended(query, &mut self.network);
    }

    fn idle(&self) -> bool {
        self.searches.running.is_empty()
            && self.searches.queries.is_empty()
            && self.network.running.is_empty()
    }
}

fn peers(mut answer: SearchReply) -> Vec<PeerId> {
    let found = answer.try_recv().expect("answered").expect("there is room");
    assert!(
        found
            .iter()
            .all(|agent| agent.addresses == ["/ip4/203.0.113.7/tcp/1"])
    );
    found.into_iter().map(|agent| agent.peer.into()).collect()
}

#[test]
fn a_search_ends_when_everything_is_known() {
    let mut lab = SearchFixture::new();
    let [a, b, c] = std::array::from_fn(|_| PeerId::random());
    let mut answer = lab.ask("echo", 10);
    let local = lab.searches.local;
    lab.found(1, &[a, local, b]);
    lab.found(1, &[b, c]);
    assert_eq!(lab.network.asks(local), None, "oneself is not found");
    let queries = [a, b, c].map(|peer| lab.network.asks(peer).unwrap());
    lab.ended(queries[0]);
    lab.record(queries[1], "echo", 1);
    lab.ended(queries[1]);
    lab.record(queries[2], "sum", 1);
    lab.ended(1);
    assert!(answer.try_recv().is_err(), "one is still asked for");
    lab.ended(queries[2]);
    assert_eq!(
        peers(answer),
        [b, a],
        "described ones first; c does not offer it any more"
    );
    assert!(lab.idle());
}

#[test]
fn the_latest_record_counts_and_three_copies_are_enough() {
    let mut lab = SearchFixture::new();
    let peer = PeerId::random();
    let answer = lab.ask("echo", 2);
    lab.found(1, &[peer]);
    let query = lab.network.asks(peer).unwrap();
    lab.record(query, "echo", 1);
    lab.record(query, "sum", 3);
    lab.record(query, "echo", 2);
    assert_eq!(lab.network.asks(peer), None, "ended");
    lab.ended(1);
    assert_eq!(peers(answer), [], "the latest does not offer it");
    assert!(lab.idle());
}

#[test]
fn enough_is_enough_and_late_is_late() {
    let mut lab = SearchFixture::new();
    let [a, b] = std::array::from_fn(|_| PeerId::random());
    let (one, mut many) = (lab.ask("echo", 1), lab.ask("echo", 10));
    assert_eq!(lab.network.next, 1, "askers of one skill share a search");
    lab.found(1, &[a, b]);
    let query = lab.network.asks(b).unwrap();
    lab.record(query, "echo", 1);
    lab.ended(query);
    assert_eq!(peers(one), [b]);
    let deadline = lab.searches.next_at().unwrap();
    lab.searches.expire(lab.now, &mut lab.network);
    assert!(many.try_recv().is_err() && !lab.idle());
    lab.searches.expire(deadline, &mut lab.network);
    assert_eq!(peers(many), [b, a], "what is known by then");
    assert!(lab.idle());
    assert_eq!(lab.searches.next_at(), None);
}

#[test]
fn a_search_nobody_waits_for_is_ended() {
    let mut lab = SearchFixture::new();
    drop(lab.ask("echo", 1));
    lab.found(1, &[PeerId::random()]);
    assert!(lab.idle());
    drop(lab.ask("sum", 1));
    lab.searches.expire(lab.now, &mut lab.network);
    assert!(lab.idle());
    lab.ended(1);
    lab.found(1, &[PeerId::random()]);
    assert!(lab.idle(), "what comes late is dropped");
}

#[test]
fn searches_askers_and_answers_are_bounded() {
    let mut lab = SearchFixture::new();
    let mut answers: Vec<_> = (0..MAX_QUERIES).map(|n| lab.ask(&n.to_string(), 1)).collect();
    let busy = |mut answer: SearchReply| matches!(answer.try_recv(), Ok(Err(FindError::Busy)));
    assert!(busy(lab.ask("one more", 1)));
    answers.extend((MAX_QUERIES..MAX_REQUESTS).map(|_| lab.ask("0", 1000)));
    assert!(busy(lab.ask("0", 1)));
    let crowd: Vec<_> = (0..200).map(|_| PeerId::random()).collect();
    lab.found(1, &crowd);
    assert_eq!(lab.searches.running["0"].candidates.len(), MAX_FOUND);
    assert_eq!(lab.network.running.len(), MAX_QUERIES + MAX_RECORD_QUERIES);
    lab.searches
        .expire(lab.now + Duration::from_secs(2), &mut lab.network);
    assert!(lab.idle());
    assert_eq!(peers(answers.pop().unwrap()).len(), MAX_FOUND);
}
