//! Who is who: ids of clients and sessions, and what the wrong ones are told.

use agentanycast_proto::v1 as mesh;
use agentanycast_uap_hub::v1::{AgentRegistration, ListenRequest, TestState};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request};

use crate::fixture::{TestClient, TestHub, registration, soon};

#[tokio::test]
async fn unknown_and_missing_ids_are_not_found() {
    let hub = TestHub::start().await;
    let mut client = hub.connect().await;
    for id in ["", "nobody", &"x".repeat(500)] {
        let (_says, said) = tokio::sync::mpsc::channel::<ListenRequest>(1);
        let mut request = Request::new(ReceiverStream::new(said));
        if !id.is_empty() {
            request.metadata_mut().insert("x-client-id", id.parse().unwrap());
        }
        let refused = soon(client.listen(request)).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{id}");
        assert!(refused.message().starts_with("Invalid Client ID"), "{refused}");
        let (_says, said) = tokio::sync::mpsc::channel(1);
        let mut request = Request::new(ReceiverStream::new(said));
        if !id.is_empty() {
            request.metadata_mut().insert("x-session-id", id.parse().unwrap());
        }
        let refused = soon(client.execute(request)).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{id}");
    }
}

#[tokio::test]
async fn a_session_is_for_the_client_to_which_it_was_proposed() {
    let hub = TestHub::start().await;
    let mut client = hub.client("one", "junit").await;
    let mut thief = hub.client("two", "other").await;
    hub.give("t", "junit");
    let session = client.proposal().await;
    let early = client.execute(&session).await.err().unwrap();
    assert_eq!(early.code(), Code::FailedPrecondition);
    // An answer of another client is not heard.
    thief.answer(&session, false, "not yours").await;
    client.answer(&session, true, "").await;
    hub.until_figure("uap_hub_sessions", "ready", 1).await;
    let refused = thief.execute(&session).await.err().unwrap();
    assert_eq!(refused.code(), Code::PermissionDenied);
    // Without an id of a client the session's id is enough.
    let (_says, said) = tokio::sync::mpsc::channel(1);
    let mut request = Request::new(ReceiverStream::new(said));
    request
        .metadata_mut()
        .insert("x-session-id", session.parse().unwrap());
    let mut hears = soon(client.hub.execute(request)).await.unwrap().into_inner();
    assert!(soon(hears.message()).await.unwrap().is_some());
    let again = client.execute(&session).await.err().unwrap();
    assert_eq!(again.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn the_newest_listen_of_a_client_wins() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    hub.give("t", "junit");
    let stream = client.begin().await;
    let mut old = client.hears.take().unwrap();
    let old_says = client.says.take();
    client.listen().await;
    let ended = soon(old.message()).await.unwrap_err();
    assert_eq!(ended.code(), Code::Aborted);
    drop((old, old_says));
    // Its session goes on, and it gets the next one on the new Listen.
    stream.status(TestState::Completed, "").await;
    drop(stream.says);
    hub.end_of("t").await;
    hub.give("next", "junit");
    client.complete().await;
    hub.end_of("next").await;
    assert_eq!(hub.figure("uap_hub_sessions_ended", "lost"), 0);
}

#[tokio::test]
async fn a_client_that_registers_again_gets_another_id_and_the_card_follows() {
    let hub = TestHub::start().await;
    let first = hub.client("runner", "junit").await;
    let second = hub.client("runner", "selenium").await;
    assert_ne!(first.id, second.id);
    drop(first);
    let skills = |card: mesh::AgentCard| card.skills.into_iter().map(|skill| skill.id).collect::<Vec<_>>();
    soon(
        hub.agents
            .until(|agents| (skills(agents.card()) == ["uap:test:selenium"]).then_some(())),
    )
    .await;
    drop(second);
    soon(
        hub.agents
            .until(|agents| skills(agents.card()).is_empty().then_some(())),
    )
    .await;
}

#[tokio::test]
async fn a_registration_that_says_nothing_useful_is_refused() {
    let hub = TestHub::start().await;
    let mut client = hub.connect().await;
    let empty = soon(client.register(AgentRegistration::default()))
        .await
        .unwrap_err();
    assert_eq!(empty.code(), Code::InvalidArgument);
    assert!(empty.message().contains("0 capabilities"), "{empty}");
    let long = soon(client.register(registration(&"x".repeat(1000), "junit")))
        .await
        .unwrap_err();
    assert!(long.message().contains("display_name"), "{long}");
}

#[tokio::test]
async fn the_hub_ends_the_listens_when_it_stops() {
    let hub = TestHub::start().await;
    let mut client = hub.client("runner", "junit").await;
    let mut stopped = TestClient {
        hears: client.hears.take(),
        says: client.says.take(),
        ..client
    };
    let mut hears = stopped.hears.take().unwrap();
    let stopping = tokio::spawn(hub.running.stop());
    assert!(
        soon(hears.message()).await.unwrap().is_none(),
        "a request to end, not an error"
    );
    drop((hears, stopped));
    soon(stopping).await.unwrap();
}
