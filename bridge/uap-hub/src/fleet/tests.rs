//! What the fleet does in each case of the protocol.

use std::time::Duration;

use agentanycast_uap_hub::v1::{
    AgentRegistration, Capability, PayloadRequirement, TestCapability, capability::Format,
};

use super::*;
use crate::capability::Domain;

pub(super) fn registration(name: &str, kinds: &[&str], required: Option<&str>) -> CheckedRegistration {
    let payloads = required.map(|name| PayloadRequirement {
        r#type: name.to_owned(),
        is_required: true,
        ..PayloadRequirement::default()
    });
    let capability = |kind: &&str| Capability {
        format: Some(Format::Test(TestCapability {
            r#type: (*kind).to_owned(),
            payloads: payloads.clone().into_iter().collect(),
        })),
    };
    CheckedRegistration::read(AgentRegistration {
        display_name: name.to_owned(),
        capabilities: kinds.iter().map(capability).collect(),
    })
    .unwrap()
}

pub(super) fn kind(name: &str) -> Kind {
    Kind::new(Domain::Test, name)
}

fn secs(seconds: u64) -> Time {
    Duration::from_secs(seconds)
}

/// A fleet, and what it has said.
struct Case {
    fleet: Fleet,
    now: Time,
}

impl Case {
    fn new(slots: usize) -> Self {
        let fleet = Fleet::new(slots);
        Self { fleet, now: secs(0) }
    }

    fn client(&mut self, name: &str, kinds: &[&str]) -> Listener {
        self.client_with(name, kinds, None)
    }

    fn client_with(&mut self, name: &str, kinds: &[&str], required: Option<&str>) -> Listener {
        let id = ClientId::from(name);
        self.fleet
            .register(id.clone(), registration(name, kinds, required), self.now)
            .unwrap();
        let listener = self.fleet.listen(&id, self.now).unwrap();
        self.fleet.ready(&listener, self.now);
        listener
    }

    fn submit(&mut self, name: &str) -> TaskNumber {
        self.submit_with(name, &[InputShape::default()], 0)
    }

    fn submit_with(&mut self, name: &str, parts: &[InputShape], retries: u32) -> TaskNumber {
        let number = self.fleet.next_task();
        self.fleet
            .submit(number, kind(name), Arc::from(parts), retries, self.now);
        number
    }

    /// Proposals since the last call: to which client, and which session.
    fn proposals(&mut self) -> Vec<(String, SessionId)> {
        let proposed = self
            .fleet
            .take_actions()
            .into_iter()
            .filter_map(|action| match action {
                Action::Propose(listener, session, _) => Some((listener.client.to_string(), session)),
                _ => None,
            });
        proposed.collect()
    }

    fn told(&mut self) -> Vec<(TaskNumber, Told)> {
        let told = self
            .fleet
            .take_actions()
            .into_iter()
            .filter_map(|action| match action {
                Action::Tell(task, told) => Some((task, told)),
                _ => None,
            });
        told.collect()
    }

    fn answer(&mut self, listener: &Listener, session: &SessionId, accepts: bool, reason: &str) {
        self.fleet.answer(listener, session, accepts, reason, self.now);
    }

    fn begin(&mut self, listener: &Listener, session: &SessionId) -> TaskNumber {
        self.answer(listener, session, true, "");
        self.fleet
            .open(session, Some(&*listener.client), Domain::Test)
            .unwrap()
    }

    fn pass(&mut self, seconds: u64) {
        self.now += secs(seconds);
        self.fleet.expire(self.now);
    }
}

fn rejected(reason: &str) -> Told {
    Told::Rejected(reason.to_owned())
}

fn failed(reason: &str) -> Told {
    Told::Failed(reason.to_owned())
}

#[test]
fn nothing_is_proposed_before_a_client_is_ready_or_two_seconds_have_passed() {
    let mut case = Case::new(1);
    let id = ClientId::from("a");
    case.submit("junit");
    case.fleet
        .register(id.clone(), registration("a", &["junit"], None), case.now)
        .unwrap();
    let listener = case.fleet.listen(&id, case.now).unwrap();
    case.pass(1);
    assert!(case.proposals().is_empty());
    case.pass(1);
    assert_eq!(
        case.proposals().len(),
        1,
        "a client that omits `ready` is ready after 2 s"
    );
    case.fleet.ready(&listener, case.now);
    assert!(case.proposals().is_empty(), "it has one slot");
}

#[test]
fn a_refusal_asks_the_next_client_and_the_last_one_ends_the_task() {
    let mut case = Case::new(1);
    let (a, b) = (case.client("a", &["junit"]), case.client("b", &["junit"]));
    let task = case.submit("junit");
    let proposed = case.proposals();
    assert_eq!(proposed[0].0, "a");
    case.answer(&a, &proposed[0].1, false, "no room\non the disk");
    let proposed = case.proposals();
    assert_eq!(proposed.len(), 1, "a is not asked again");
    assert_eq!(proposed[0].0, "b");
    case.answer(&b, &proposed[0].1, false, "");
    assert_eq!(case.told(), [(task, rejected("b refused: no reason was given"))]);
    case.submit("junit");
    assert_eq!(case.proposals().len(), 1, "a refusal is for one task");
}

#[test]
fn a_client_that_does_not_answer_or_open_loses_the_session_after_thirty_seconds() {
    let mut case = Case::new(1);
    let a = case.client("a", &["junit"]);
    let task = case.submit("junit");
    let session = case.proposals().remove(0).1;
    case.pass(29);
    assert!(case.told().is_empty());
    case.pass(1);
    assert_eq!(case.told(), [(task, rejected("a did not answer within 30 s"))]);
    case.answer(&a, &session, true, "");
    assert!(case.fleet.take_actions().is_empty(), "too late");

    let task = case.submit("junit");
    let session = case.proposals().remove(0).1;
    case.answer(&a, &session, true, "");
    case.pass(30);
    assert_eq!(
        case.told(),
        [(task, failed("a did not open its stream within 30 s"))]
    );
    assert_eq!(
        case.fleet.open(&session, None, Domain::Test),
        Err(OpenRefusal::Unknown)
    );
    assert_eq!(
        case.fleet.counts(),
        FleetCounts {
            clients: 1,
            ..FleetCounts::default()
        }
    );
}

#[test]
fn a_session_opens_once_for_its_own_client_and_call() {
    let mut case = Case::new(1);
    let a = case.client("a", &["junit"]);
    let task = case.submit("junit");
    let session = case.proposals().remove(0).1;
    let mut open =
        |session: &SessionId, client: Option<&str>, domain| case.fleet.open(session, client, domain);
    assert_eq!(open(&session, None, Domain::Test), Err(OpenRefusal::NotReady));
    assert_eq!(
        open(&SessionId::from("JOB-x"), None, Domain::Test),
        Err(OpenRefusal::Unknown)
    );
    case.answer(&a, &session, true, "");
    let mut open = |client: Option<&str>, domain| case.fleet.open(&session, client, domain);
    assert_eq!(open(Some("b"), Domain::Test), Err(OpenRefusal::OfAnotherClient));
    assert_eq!(open(None, Domain::Translation), Err(OpenRefusal::OtherCall));
    assert_eq!(open(None, Domain::Test), Ok(task));
    assert_eq!(open(Some("a"), Domain::Test), Err(OpenRefusal::HasStream));
}

#[test]
fn an_answer_of_another_client_or_an_old_listen_is_not_heard() {
    let mut case = Case::new(1);
    let a = case.client("a", &["junit"]);
    let b = case.client("b", &["other"]);
    case.submit("junit");
    let session = case.proposals().remove(0).1;
    case.answer(&b, &session, true, "");
    case.answer(&b, &session, false, "not yours");
    assert_eq!(case.fleet.counts().proposed, 1);
    case.answer(&a, &session, true, "");
    assert_eq!(case.fleet.counts().ready, 1);
}

#[test]
fn what_waits_is_given_when_a_client_is_free() {
    let mut case = Case::new(1);
    let a = case.client("a", &["junit"]);
    let tasks = [case.submit("junit"), case.submit("junit"), case.submit("junit")];
    for task in tasks {
        let proposed = case.proposals();
        assert_eq!(proposed.len(), 1);
        assert_eq!(
            case.begin(&a, &proposed[0].1),
            task,
            "in the order in which they came"
        );
        case.fleet.end_task(task, case.now);
        assert!(case.proposals().is_empty(), "its stream goes on");
        case.fleet.session_ended(&proposed[0].1, "", case.now);
    }
    assert!(case.fleet.take_actions().is_empty());
}

#[test]
fn kinds_take_turns() {
    let mut case = Case::new(1);
    let a = case.client("a", &["one", "two", "three"]);
    let mut of = HashMap::new();
    for name in ["one", "one", "one", "two", "two", "three"] {
        of.insert(case.submit(name), name);
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        let session = case.proposals().remove(0).1;
        let task = case.begin(&a, &session);
        order.push(of[&task]);
        case.fleet.end_task(task, case.now);
        case.fleet.session_ended(&session, "", case.now);
    }
    assert_eq!(order, ["one", "three", "two", "one", "two", "one"]);
}

#[test]
fn a_client_that_is_lost_fails_its_sessions_and_is_passed_over() {
    let mut case = Case::new(1);
    let a = case.client("a", &["junit"]);
    let task = case.submit("junit");
    let session = case.proposals().remove(0).1;
    assert_eq!(case.begin(&a, &session), task);
    case.fleet.listen_ended(&a, case.now);
    assert_eq!(case.told(), [(task, failed("agent disconnected: a"))]);
    assert!(case.fleet.skills().is_empty());
    case.fleet.session_ended(&session, "late", case.now);
    assert!(case.fleet.take_actions().is_empty());
    assert_eq!(
        case.fleet.listen(&a.client, case.now),
        Err(()),
        "it registers anew"
    );

    // Lost with a proposal: the next one, if there is one.
    let b = case.client("b", &["junit"]);
    let task = case.submit("junit");
    assert_eq!(case.proposals().remove(0).0, "b");
    let _c = case.client("c", &["junit"]);
    case.fleet.listen_ended(&b, case.now);
    let proposed = case.proposals();
    assert_eq!(proposed[0].0, "c");
    assert_eq!(case.fleet.client_name(task), "c");
}

#[test]
fn a_task_is_given_again_as_often_as_its_skill_says() {
    let mut case = Case::new(1);
    let a = case.client("a", &["junit"]);
    let _b = case.client("b", &["junit"]);
    let task = case.submit_with("junit", &[], 1);
    let session = case.proposals().remove(0).1;
    case.begin(&a, &session);
    case.fleet.listen_ended(&a, case.now);
    let actions = case.fleet.take_actions();
    let again = Told::WaitsAgain("agent disconnected: a".to_owned());
    assert!(actions.contains(&Action::Tell(task, again)), "{actions:?}");
    let proposed = actions.into_iter().find_map(|action| match action {
        Action::Propose(listener, session, _) => Some((listener, session)),
        _ => None,
    });
    let (b, session) = proposed.unwrap();
    assert_eq!(case.begin(&b, &session), task);
    case.fleet
        .session_ended(&session, "Stream error: reset", case.now);
    assert_eq!(
        case.told(),
        [(task, failed("Stream error: reset"))],
        "no second time"
    );
}

#[test]
fn a_second_listen_ends_the_first_and_keeps_sessions() {
    let mut case = Case::new(2);
    let first = case.client("a", &["junit"]);
    let task = case.submit("junit");
    let open = case.proposals().remove(0).1;
    case.begin(&first, &open);
    let waiting = case.submit("junit");
    let proposed = case.proposals().remove(0).1;
    let second = case.fleet.listen(&first.client, case.now).unwrap();
    let actions = case.fleet.take_actions();
    assert!(actions.contains(&Action::EndListen(first.clone())), "{actions:?}");
    case.answer(&first, &proposed, true, "");
    case.fleet.listen_ended(&first, case.now);
    assert!(case.told().is_empty(), "the older Listen is not the client");
    case.fleet.ready(&second, case.now);
    let again = case.proposals();
    assert_eq!(again.len(), 1, "what was proposed is proposed again");
    assert_eq!(case.begin(&second, &again[0].1), waiting);
    case.fleet.end_task(task, case.now);
    case.fleet.session_ended(&open, "", case.now);
    assert!(case.told().is_empty());
}

#[test]
fn a_busy_client_that_refuses_is_asked_again_later() {
    let mut case = Case::new(3);
    let a = case.client("a", &["junit"]);
    let first = case.submit("junit");
    let session = case.proposals().remove(0).1;
    case.begin(&a, &session);
    let second = case.submit("junit");
    let other = case.proposals().remove(0).1;
    case.answer(&a, &other, false, "busy");
    assert!(
        case.fleet
            .take_actions()
            .iter()
            .all(|action| *action == Action::Answered(ProposalAnswer::Busy))
    );
    case.submit("junit");
    assert!(
        case.proposals().is_empty(),
        "it has no room while it has a session"
    );
    case.fleet.end_task(first, case.now);
    case.fleet.session_ended(&session, "", case.now);
    let proposed = case.proposals();
    assert_eq!(proposed.len(), 3 - 1);
    assert_eq!(case.begin(&a, &proposed[0].1), second);
}

#[test]
fn a_task_without_a_client_waits_two_minutes() {
    let mut case = Case::new(1);
    let task = case.submit("junit");
    case.pass(119);
    assert!(case.told().is_empty());
    case.pass(1);
    assert_eq!(
        case.told(),
        [(
            task,
            rejected("no agent with uap:test:junit has connected to the hub for 120 s")
        )]
    );

    // A client that comes back in time does it.
    let a = case.client("a", &["junit"]);
    case.fleet.listen_ended(&a, case.now);
    let task = case.submit("junit");
    case.pass(100);
    let b = case.client("b", &["junit"]);
    let session = case.proposals().remove(0).1;
    assert_eq!(case.begin(&b, &session), task);
    case.pass(100);
    assert!(case.told().is_empty());
    // The time counts from when the last one went.
    let waiting = case.submit("junit");
    case.pass(1000);
    case.fleet.listen_ended(&b, case.now);
    case.told();
    case.pass(119);
    assert!(case.told().is_empty());
    case.pass(1);
    assert_eq!(case.told().remove(0).0, waiting);
    assert!(case.fleet.next_time().is_none(), "nothing is left");
}

#[test]
fn payloads_decide_who_is_asked() {
    let mut case = Case::new(1);
    let _strict = case.client_with("strict", &["junit"], Some("suite"));
    let task = case.submit_with("junit", &[], 0);
    assert_eq!(
        case.told(),
        [(task, rejected("payload suite is required and missing"))]
    );
    let free = case.client("free", &["junit"]);
    let task = case.submit_with("junit", &[], 0);
    let proposed = case.proposals().remove(0);
    assert_eq!(proposed.0, "free");
    assert_eq!(case.begin(&free, &proposed.1), task);
    assert!(case.fleet.payload_types(task).is_empty());
    let given = case.submit("junit");
    assert_eq!(case.proposals().remove(0).0, "strict");
    assert_eq!(case.fleet.payload_types(given), ["suite"]);
}

#[test]
fn clients_that_never_listen_are_forgotten_after_a_minute() {
    let mut case = Case::new(1);
    let heard = case.client("heard", &["junit"]);
    for number in 0..10_000 {
        let id = ClientId::from(format!("c{number}").as_str());
        let registration = registration("silent", &["junit"], None);
        case.fleet.register(id, registration, case.now).unwrap();
    }
    case.pass(59);
    assert_eq!(case.fleet.clients.len(), 10_001);
    case.pass(1);
    assert_eq!(case.fleet.clients.len(), 1);
    assert!(case.fleet.unheard.is_empty() && case.fleet.clients.contains_key(&heard.client));
    assert_eq!(case.fleet.listen(&ClientId::from("c1"), case.now), Err(()));
}

#[test]
fn a_silent_client_gives_way_when_the_hub_is_full_of_them() {
    let mut case = Case::new(1);
    for number in 0..=MOST_CLIENTS {
        let id = ClientId::from(format!("c{number}").as_str());
        case.fleet
            .register(id, registration("silent", &["junit"], None), case.now)
            .unwrap();
    }
    assert_eq!(case.fleet.clients.len(), MOST_CLIENTS);
    assert_eq!(
        case.fleet.listen(&ClientId::from("c0"), case.now),
        Err(()),
        "the oldest has gone"
    );
    assert!(case.fleet.listen(&ClientId::from("c1"), case.now).is_ok());
}

#[test]
fn the_types_of_all_clients_have_a_bound() {
    let mut case = Case::new(1);
    let names: Vec<String> = (0..MOST_KINDS).map(|number| format!("t{number}")).collect();
    for some in names.chunks(50) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        case.client(some[0], &some);
    }
    assert_eq!(case.fleet.skills().len(), MOST_KINDS);
    let more = registration("more", &["other"], None);
    let refused = case.fleet.register(ClientId::from("more"), more, case.now);
    assert!(refused.unwrap_err().contains("1000 different types"));
    case.client("same", &["t0"]);
}

#[test]
fn a_task_that_is_canceled_frees_its_client() {
    let mut case = Case::new(1);
    let a = case.client("a", &["junit"]);
    let task = case.submit("junit");
    let session = case.proposals().remove(0).1;
    case.answer(&a, &session, true, "");
    case.fleet.end_task(task, case.now);
    assert_eq!(
        case.fleet.open(&session, None, Domain::Test),
        Err(OpenRefusal::Unknown)
    );
    let next = case.submit("junit");
    let session = case.proposals().remove(0).1;
    assert_eq!(case.begin(&a, &session), next);
    // While the stream stands the client keeps its slot, until the stream has ended.
    case.fleet.end_task(next, case.now);
    case.submit("junit");
    assert!(case.proposals().is_empty());
    case.fleet.session_ended(&session, "canceled", case.now);
    assert_eq!(case.proposals().len(), 1);
    assert!(case.told().is_empty());
}
