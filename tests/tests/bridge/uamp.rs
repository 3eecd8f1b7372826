//! Clients of UAMP at the gateway of one daemon, and agents at another one, which a relay's registry tells of. `scene` is the
//! scene, and has a client that signs.

pub(crate) mod scene;

use std::{process::Stdio, time::Duration};

use agentanycast_tests::{
    Daemon,
    cli::{anycast, anycast_at, program},
    eventually,
};
use agentanycast_uamp::{
    delta::DeltaType,
    envelope::{Envelope, Intent},
};
use futures::future::join_all;
use tokio::process::Command;

use scene::{SigningClient, UampScene, is_end, of_skill, result_of};

#[tokio::test]
async fn an_ask_is_answered_by_an_agent_two_nodes_away_with_progress_and_chunks() {
    let scene = UampScene::start().await;
    let script = r#"echo half way >&2; text=$(cat); for i in 1 2 3 4 5 6 7 8; do head -c 50000 /dev/zero | tr '\0' x; done; echo "$text" | tr a-z A-Z"#;
    let _agent = scene.nodes.program("upper", script).await;
    let client = scene.client();
    let asked = client.ask("upper", "good morning").await;
    let deltas = client.follow(asked.location.as_deref().unwrap(), |_| false).await;
    let said = |text: &str| {
        deltas.iter().any(|delta| {
            let payload = serde_json::Value::Object(delta.payload.clone());
            delta.kind == DeltaType::Progress && payload["message"] == text
        })
    };
    assert!(said("half way"), "{deltas:?}");
    let chunks: Vec<_> = deltas
        .iter()
        .filter(|delta| delta.kind == DeltaType::Chunk)
        .collect();
    assert!(chunks.len() > 1, "{}", chunks.len());
    assert_eq!(deltas.last().unwrap().kind, DeltaType::Done);
    let numbers: Vec<u64> = deltas.iter().map(|delta| delta.seq).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_far_agent_verifies_what_the_sender_has_signed() {
    let scene = UampScene::start().await;
    let script = format!(
        r#"for file in "$ANYCAST_INPUT_DIR"/*; do '{}' uamp verify "$file" && exit 0; done; exit 1"#,
        program().display()
    );
    let _agent = scene.nodes.program("verify", &script).await;
    let client = scene.client();
    let asked = client.ask("verify", "signed").await;
    let end = client.end_of(&asked).await;
    assert_eq!(end.kind, DeltaType::Done, "{end:?}");
    let said = result_of(&end);
    assert!(
        said.contains("valid") && said.contains(&asked.id.to_string()),
        "{said}"
    );
}

#[tokio::test]
async fn failures_questions_and_cancels_come_back() {
    let scene = UampScene::start().await;
    let fails = scene.nodes.program("fails", "echo no display >&2; exit 3").await;
    let client = scene.client();
    let asked = client.ask("fails", "x").await;
    let end = client.end_of(&asked).await;
    assert_eq!(end.kind, DeltaType::Error);
    assert!(format!("{end:?}").contains("no display"), "{end:?}");
    drop(fails);

    let asks = "if grep -q yes; then echo surely; else echo 'are you sure?'; exit 75; fi";
    let _asks = scene.nodes.program("asks", asks).await;
    let asked = client.ask("asks", "do it").await;
    let location = asked.location.clone().unwrap();
    let is_question =
        |delta: &agentanycast_uamp::delta::Delta| format!("{delta:?}").contains("input_required");
    let deltas = client.follow(&location, is_question).await;
    assert!(format!("{deltas:?}").contains("are you sure?"), "{deltas:?}");
    let answer = SigningClient::draft(Intent::Ask, &of_skill("asks"), "yes").with_reply_to(asked.id);
    client.send(&answer).await;
    let end = client.end_of(&asked).await;
    assert_eq!((end.kind, result_of(&end).trim()), (DeltaType::Done, "surely"));

    let files = tempfile::tempdir().unwrap();
    let folder = files.path().display();
    let slow = format!("trap 'touch {folder}/ended; exit' TERM; touch {folder}/begun; sleep 100 & wait");
    let _slow = scene.nodes.program("slow", &slow).await;
    let asked = client.ask("slow", "x").await;
    let is_there = |name: &'static str| {
        let path = files.path().join(name);
        move || {
            let path = path.clone();
            async move { path.exists().then_some(()) }
        }
    };
    eventually("the agent has begun", is_there("begun")).await;
    let cancel = SigningClient::draft(Intent::Cancel, &of_skill("slow"), "enough").with_reply_to(asked.id);
    client.send(&cancel).await;
    assert_eq!(client.end_of(&asked).await.kind, DeltaType::Cancel);
    eventually("the agent was told", is_there("ended")).await;
}

#[tokio::test]
async fn the_command_signs_what_the_gateway_takes_and_sees_what_was_changed() {
    let scene = UampScene::start().await;
    let _agent = scene.nodes.program("upper", "tr a-z A-Z").await;
    let files = tempfile::tempdir().unwrap();
    let key = files.path().join("client.pem");
    std::fs::write(&key, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let key = key.display().to_string();
    let to = of_skill("upper");
    let signed = anycast(["uamp", "sign", "--key", &key, "--to", &to, "good morning"]);
    assert!(signed.status.success(), "{}", signed.all_output);
    let envelope = Envelope::read(signed.stdout.as_bytes(), 1 << 20).unwrap();
    assert!(envelope.from().starts_with("did:key:zDn"), "{}", envelope.from());
    let client = scene.client();
    let location = client
        .client
        .send(signed.stdout.clone().into_bytes())
        .await
        .unwrap();
    let deltas = client.follow(&location.unwrap(), |_| false).await;
    assert_eq!(result_of(deltas.last().unwrap()), "GOOD MORNING");

    let verify = async |text: &str| {
        let file = files.path().join("envelope.json");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(program());
        command
            .args(["uamp", "verify"])
            .arg(&file)
            .env_clear()
            .stdin(Stdio::null());
        command.output().await.unwrap()
    };
    assert!(verify(&signed.stdout).await.status.success());
    let changed = verify(&signed.stdout.replace("good", "goof")).await;
    assert_eq!(changed.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&changed.stderr).contains("4.01"),
        "{changed:?}"
    );
    for (args, why) in [
        (["--to", "urn:x:y", "--intent", "shout"], "not an intent"),
        (["--to", "urn:x:y", "--window", "0"], "1 frame or more"),
        (["--to", "urn:x:y", "--reply-to", "7"], "UUID"),
    ] {
        let refused = anycast(
            ["uamp", "sign", "--key", &key]
                .into_iter()
                .chain(args)
                .chain(["x"]),
        );
        assert_eq!(refused.status.code(), Some(2), "{}", refused.all_output);
        assert!(refused.all_output.contains(why), "{}", refused.all_output);
    }
}

#[tokio::test]
async fn a_task_is_sent_by_url_to_the_gateway_of_another_node() {
    let scene = UampScene::start().await;
    let _agent = scene.nodes.program("upper", "tr a-z A-Z").await;
    let settings = format!(
        "[gateways.uamp]\noutbound_private = true\noutbound_ca = \"{}\"\n",
        scene.cert().display()
    );
    let outside = Daemon::builder().gateway("uamp").config(&settings).start().await;
    let url = format!("uamp+https://{}?skill=upper", scene.authority());
    let sent = anycast_at(
        &outside,
        &["send", "--url", "--allow-private", &url, "good morning"],
    )
    .await;
    assert!(sent.status.success(), "{}", sent.all_output);
    assert_eq!(sent.stdout, "GOOD MORNING\n");
}

#[tokio::test]
async fn a_gateway_that_is_killed_among_a_hundred_conversations_ends_or_resumes_each() {
    let mut scene = UampScene::start().await;
    let _agent = scene.nodes.program("upper", "tr a-z A-Z").await;
    let client = std::sync::Arc::new(scene.client());
    let talks = (0..100).map(|number| {
        let client = std::sync::Arc::clone(&client);
        tokio::spawn(async move { client.insist("upper", &format!("text {number}")).await })
    });
    let talks: Vec<_> = talks.collect();
    eventually("some have ended", || async {
        let ended = talks.iter().filter(|talk| talk.is_finished()).count();
        (ended >= 20).then_some(())
    })
    .await;
    scene.nodes.gateway.kill().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    scene.nodes.gateway.restart().await;
    for (number, deltas) in join_all(talks).await.into_iter().enumerate() {
        let deltas = deltas.unwrap();
        let numbers: Vec<u64> = deltas.iter().map(|delta| delta.seq).collect();
        assert_eq!(
            numbers,
            (0..numbers.len() as u64).collect::<Vec<_>>(),
            "{deltas:?}"
        );
        let (end, before) = deltas.split_last().unwrap();
        assert!(is_end(end) && !before.iter().any(is_end), "{deltas:?}");
        if end.kind == DeltaType::Done {
            assert_eq!(result_of(end), format!("TEXT {number}"));
        }
    }
}
