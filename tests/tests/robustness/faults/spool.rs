//! The file of an artifact is not what was written: its reader gets what was sent, or is told; never anything
//! else. Nothing but that artifact is affected.

use std::{fs, path::Path};

use agentanycast::{Artifact, Target};
use agentanycast_tests::{DaemonPair, TransportKind, agent::TestAgent, task_assertions::completed, within};

use super::has_not_panicked;

/// Bytes of the artifact: several records.
const BYTES: usize = 300_000;

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 31 % 251) as u8).collect()
}

/// Damages the file, given its bytes.
type SpoolDamage = fn(&Path, Vec<u8>);

const DAMAGES: [(&str, SpoolDamage); 7] = [
    ("empty", |path, _| fs::write(path, b"").unwrap()),
    ("gone", |path, _| fs::remove_file(path).unwrap()),
    ("without its last byte", |path, bytes| {
        fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    }),
    ("cut in the middle", |path, bytes| {
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }),
    ("its beginning changed", |path, bytes| changed(path, bytes, 3)),
    ("its middle changed", |path, bytes| {
        let middle = bytes.len() / 2;
        changed(path, bytes, middle);
    }),
    ("its end changed", |path, bytes| {
        let end = bytes.len() - 1;
        changed(path, bytes, end);
    }),
];

fn changed(path: &Path, mut bytes: Vec<u8>, at: usize) {
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_artifact_is_never_taken_for_a_sound_one() {
    let mut pair = DaemonPair::start(TransportKind::Tcp).await;
    let (alice, bob) = pair.nodes().await;
    let agent = TestAgent::serve(&bob, |task| async move {
        let mut artifact = task
            .stream_artifact("numbers", "application/octet-stream")
            .await?;
        artifact.write(content()).await?;
        artifact.finish().await?;
        task.complete([Artifact::text("done")]).await?;
        Ok(())
    });
    let target = Target::Peer(pair.bob.peer_id().clone());
    let handle = alice.send_task(target.clone(), "x").await.unwrap();
    let task = completed(&handle).await;
    let streamed = task.artifacts.iter().find(|artifact| artifact.name == "numbers");
    let artifact = streamed.expect("the artifact is part of the task").id.clone();
    assert_eq!(handle.read_artifact(artifact.clone()).await.unwrap(), content());
    let spool = pair.alice.home().path().join("data/artifacts");
    let file = find(&spool).expect("the artifact's file");
    let sound = fs::read(&file).unwrap();
    for (what, damage) in DAMAGES {
        pair.alice.stop().await;
        fs::write(&file, &sound).unwrap();
        damage(&file, sound.clone());
        pair.alice.restart().await;
        let read = within("the reader is answered", handle.read_artifact(artifact.clone())).await;
        match read {
            Ok(bytes) => assert!(bytes == content(), "{what}: other bytes than were sent"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let task = completed(&handle).await;
        assert!(
            task.text_content().contains("done"),
            "{what}: the rest of the task suffers"
        );
        for part in task.artifacts.iter().flat_map(|artifact| &artifact.parts) {
            assert!(
                part.as_raw().is_none_or(|raw| raw == content()),
                "{what}: other bytes in the task"
            );
        }
        has_not_panicked(&pair.alice.log_tail());
    }
    let other = alice.send_task(target, "another").await.unwrap();
    completed(&other).await;
    drop(agent);
}

/// The first file below.
fn find(directory: &Path) -> Option<std::path::PathBuf> {
    fs::read_dir(directory).ok()?.find_map(|entry| {
        let path = entry.ok()?.path();
        if path.is_dir() { find(&path) } else { Some(path) }
    })
}
