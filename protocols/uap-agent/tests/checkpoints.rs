//! Checkpoints: saved after each step, in order, by any store; a store that fails or hangs never fails the
//! run.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "support/structure.rs"]
mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

#[cfg(feature = "sled")]
use agentanycast_uap::SledCheckpoints;
use agentanycast_uap::{
    AgentState, Checkpoint, CheckpointError, CheckpointMetadata, CheckpointStore, FileCheckpoints, agent,
    plan, react,
};
#[cfg(feature = "encryption")]
use agentanycast_uap::{CheckpointKey, EncryptedCheckpoints};
use agentanycast_upp::{
    AssistantMessage, ErrorCode, Scripted, ScriptedReply, Tool, ToolCall, ToolResult, ToolResultMessage,
};
use serde_json::{Value, json};
use support::{call, echo, plan_reply, rounds, state_structure};
use tokio::sync::Notify;

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Keeps,
    /// Each save takes so long.
    Slow(Duration),
    Fails,
    Hangs,
    Panics,
    PanicsOnce,
}

/// A store in memory that keeps the history of its saves.
#[derive(Clone)]
struct Memory {
    mood: Mood,
    saves: Arc<Mutex<Vec<(String, Checkpoint)>>>,
    tries: Arc<AtomicU64>,
    /// Whether a save began during another one.
    overlaps: Arc<AtomicBool>,
}

impl Memory {
    fn new(mood: Mood) -> Self {
        Self {
            mood,
            saves: Arc::default(),
            tries: Arc::default(),
            overlaps: Arc::default(),
        }
    }

    fn keep(&self, session_id: &str, checkpoint: Checkpoint) {
        self.saves
            .lock()
            .unwrap()
            .push((session_id.to_owned(), checkpoint));
    }

    fn steps(&self) -> Vec<u64> {
        self.saves
            .lock()
            .unwrap()
            .iter()
            .map(|(_, checkpoint)| checkpoint.metadata.step)
            .collect()
    }
}

#[async_trait::async_trait]
impl CheckpointStore for Memory {
    async fn save(&self, session_id: &str, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        let first = self.tries.fetch_add(1, Ordering::Relaxed) == 0;
        match self.mood {
            Mood::PanicsOnce if first => panic!("the store is not ready"),
            Mood::Keeps | Mood::PanicsOnce => {
                // A slow store still saves in order.
                tokio::task::yield_now().await;
                self.keep(session_id, checkpoint);
                Ok(())
            }
            Mood::Slow(duration) => {
                let tries = self.tries.load(Ordering::Relaxed);
                tokio::time::sleep(duration).await;
                let overlaps = self.tries.load(Ordering::Relaxed) != tries;
                self.overlaps.fetch_or(overlaps, Ordering::Relaxed);
                self.keep(session_id, checkpoint);
                Ok(())
            }
            Mood::Fails => Err(CheckpointError::store("save", "the disk is full")),
            Mood::Hangs => std::future::pending().await,
            Mood::Panics => panic!("the store is broken"),
        }
    }
    async fn load(&self, session_id: &str) -> Result<Option<Value>, CheckpointError> {
        let saves = self.saves.lock().unwrap();
        Ok(saves
            .iter()
            .rev()
            .find(|(session, _)| session == session_id)
            .map(|(_, kept)| kept.state.clone()))
    }
    async fn load_metadata(&self, _session_id: &str) -> Result<Option<CheckpointMetadata>, CheckpointError> {
        Ok(None)
    }
    async fn delete(&self, _session_id: &str) -> Result<(), CheckpointError> {
        Ok(())
    }
    async fn list(&self) -> Result<Vec<String>, CheckpointError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn each_strategy_saves_after_each_step() {
    let steps = json!([{"id": "a", "description": "a", "dependsOn": []}]);
    let thinking = [
        ScriptedReply::text("think"),
        call(1),
        ScriptedReply::text("think"),
        ScriptedReply::text("done"),
    ];
    let planning = [plan_reply(&steps), call(1), ScriptedReply::text("done")];
    for (index, expected) in [(0, vec![1, 2, 3]), (1, vec![1, 2]), (2, vec![1, 2])] {
        let store = Memory::new(Mood::Keeps);
        let script = match index {
            0 => rounds(2),
            1 => Scripted::new(thinking.clone()),
            _ => Scripted::new(planning.clone()),
        };
        let options = agent(script.model())
            .tool(echo())
            .checkpoints(store.clone())
            .session_id("s");
        let options = match index {
            0 => options,
            1 => options.execution(react()),
            _ => options.execution(plan()),
        };
        let agent = options.build().unwrap();
        let result = agent.generate("go", &AgentState::initial()).await.unwrap();
        assert_eq!(store.steps(), expected);
        assert_eq!(agent.restore("s").await.unwrap(), Some(result.state.clone()));
        let (_, last) = store.saves.lock().unwrap().last().cloned().unwrap();
        assert_eq!(last.metadata.agent_id, agent.id());
        assert_eq!(result.state.metadata()["sessionId"], "s");
        assert_eq!(result.state.metadata()["agentId"], agent.id());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_hangs_or_panics_never_fails_the_run() {
    for mood in [Mood::Fails, Mood::Hangs, Mood::Panics] {
        // More steps than the queue holds.
        let agent = agent(rounds(200).model())
            .tool(echo())
            .checkpoints(Memory::new(mood))
            .build()
            .unwrap();
        let begun = tokio::time::Instant::now();
        let result = agent.generate("go", &AgentState::initial()).await.unwrap();
        assert_eq!(result.turn.text(), "done");
        assert!(begun.elapsed() <= Duration::from_secs(5));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_ends_at_the_newest_step() {
    let store = Memory::new(Mood::Slow(Duration::from_millis(700)));
    let agent = agent(rounds(19).model())
        .tool(echo())
        .checkpoints(store.clone())
        .build()
        .unwrap();
    let begun = tokio::time::Instant::now();
    agent.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!(store.steps().last(), Some(&20));
    assert!(begun.elapsed() < Duration::from_secs(4));
    let steps = store.steps();
    assert!(steps.is_sorted() && steps.len() > 1, "{steps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_later_run_is_saved_behind_an_earlier_one_of_its_session() {
    // Slower than the patience of the runs, so that each returns before its states are saved.
    let store = Memory::new(Mood::Slow(Duration::from_secs(6)));
    let replies = (0..2)
        .map(call)
        .chain([ScriptedReply::text("one"), call(2), ScriptedReply::text("two")]);
    let agent = agent(Scripted::new(replies).model())
        .tool(echo())
        .checkpoints(store.clone())
        .session_id("s")
        .build()
        .unwrap();
    let first = agent.ask("go", &AgentState::initial()).await.unwrap();
    let second = agent.ask("on", &first.state).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(agent.restore("s").await.unwrap(), Some(second.state));
    assert!(!store.overlaps.load(Ordering::Relaxed));
}

#[tokio::test]
async fn an_earlier_run_that_goes_on_does_not_overwrite_a_later_one() {
    let store = Memory::new(Mood::Keeps);
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tool_begun, tool_goes_on) = (begun.clone(), go_on.clone());
    let wait = Tool::new("wait", "Waits", json!({"type": "object"}), move |_, _| {
        let (begun, go_on) = (tool_begun.clone(), tool_goes_on.clone());
        async move {
            begun.notify_one();
            go_on.notified().await;
            Ok("waited")
        }
    });
    let replies = [
        ScriptedReply::call("w", "wait", json!({})),
        ScriptedReply::text("later"),
        ScriptedReply::text("earlier"),
    ];
    let agent = agent(Scripted::new(replies).model())
        .tool(wait)
        .checkpoints(store.clone())
        .session_id("s")
        .build()
        .unwrap();
    let other = agent.clone();
    let earlier = tokio::spawn(async move { other.generate("go", &AgentState::initial()).await });
    begun.notified().await;
    let later = agent.generate("go", &AgentState::initial()).await.unwrap();
    go_on.notify_one();
    assert_eq!(earlier.await.unwrap().unwrap().turn.text(), "earlier");
    assert_eq!(agent.restore("s").await.unwrap(), Some(later.state));
}

#[tokio::test]
async fn a_panic_of_one_save_leaves_the_next_ones_alone() {
    let store = Memory::new(Mood::PanicsOnce);
    let agent = agent(rounds(5).model())
        .tool(echo())
        .checkpoints(store.clone())
        .build()
        .unwrap();
    agent.generate("go", &AgentState::initial()).await.unwrap();
    assert_eq!(store.steps(), [2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_failed_run_keeps_the_checkpoint_before_the_step() {
    let store = Memory::new(Mood::Keeps);
    let script = Scripted::new([call(1)]);
    let failing = agent(script.model())
        .tool(echo())
        .checkpoints(store.clone())
        .session_id("s")
        .build()
        .unwrap();
    let error = failing.generate("go", &AgentState::initial()).await.unwrap_err();
    assert_eq!(failing.restore("s").await.unwrap(), Some(error.state));
}

#[tokio::test]
async fn a_session_id_that_is_too_long_is_refused_before_the_run() {
    let script = rounds(0);
    let agent = agent(script.model())
        .checkpoints(Memory::new(Mood::Keeps))
        .build()
        .unwrap();
    for bad in ["", &"x".repeat(85)] {
        let error = agent
            .call("go", &AgentState::initial())
            .session_id(bad)
            .generate()
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidRequest);
    }
    assert!(script.requests().is_empty());
}

/// What every store does.
async fn check_store(store: &dyn CheckpointStore) {
    let sessions = ["plain", "../up", "a/b", "ünïcode", "."];
    assert_eq!(store.load("plain").await.unwrap(), None);
    assert_eq!(store.load_metadata("plain").await.unwrap(), None);
    for (step, session) in sessions.iter().enumerate() {
        let state = AgentState::initial()
            .with_step(step as u64)
            .with_metadata("text", "päßwörd");
        store
            .save(session, Checkpoint::new(session, &AgentState::initial()))
            .await
            .unwrap();
        let checkpoint = Checkpoint::new(session, &state);
        store.save(session, checkpoint.clone()).await.unwrap();
        assert_eq!(store.load_state(session).await.unwrap(), Some(state));
        assert_eq!(
            store.load_metadata(session).await.unwrap(),
            Some(checkpoint.metadata)
        );
    }
    let mut listed = store.list().await.unwrap();
    listed.sort_unstable();
    let mut expected = sessions.to_vec();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    store.delete("../up").await.unwrap();
    store.delete("../up").await.unwrap();
    assert_eq!(store.load("../up").await.unwrap(), None);
    assert_eq!(store.list().await.unwrap().len(), sessions.len() - 1);
    for bad in ["", &"x".repeat(85)] {
        let refused = [
            store
                .save(bad, Checkpoint::new(bad, &AgentState::initial()))
                .await
                .err(),
            store.load(bad).await.err(),
            store.load_metadata(bad).await.err(),
            store.delete(bad).await.err(),
        ];
        for error in refused {
            assert!(matches!(error, Some(CheckpointError::SessionId(length)) if length == bad.len()));
        }
    }
    check_depths(store).await;
}

/// The arguments of a call as deep as a provider's answer can bring them are kept, and what could not be read
/// is not saved.
async fn check_depths(store: &dyn CheckpointStore) {
    let nested = |depth: usize| (0..depth).fold(Value::Null, |inner, _| json!([inner]));
    let state = |depth: usize| {
        let call = ToolCall::new("t", "echo", nested(depth));
        let result = ToolResult {
            tool_call_id: "t".to_owned(),
            result: nested(depth),
            is_error: false,
        };
        AgentState::initial()
            .with_message(AssistantMessage::new([]).with_tool_calls([call]))
            .with_message(ToolResultMessage::new([result]))
    };
    for depth in [120, 126, 127, 155] {
        let state = state(depth);
        store.save("deep", Checkpoint::new("deep", &state)).await.unwrap();
        assert_eq!(store.load_state("deep").await.unwrap(), Some(state), "{depth}");
    }
    let kept = store.load("deep").await.unwrap();
    for depth in [156, 1000] {
        let refused = store.save("deep", Checkpoint::new("deep", &state(depth))).await;
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, CheckpointError::TooDeep(session) if session == "deep"),
            "{error}"
        );
        assert_eq!(store.load("deep").await.unwrap(), kept, "the last one stays");
    }
    store.delete("deep").await.unwrap();
}

#[tokio::test]
async fn files_keep_checkpoints_in_the_documented_layout() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("checkpoints");
    let store = FileCheckpoints::new(&inside);
    assert!(store.list().await.unwrap().is_empty());
    check_store(&store).await;
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing beside the directory"
    );
    let text = std::fs::read_to_string(inside.join("plain/checkpoint.json")).unwrap();
    assert!(text.starts_with("{\n  \""), "it is pretty");
    let metadata = std::fs::read_to_string(inside.join("plain/metadata.json")).unwrap();
    assert!(metadata.contains("\"sessionId\": \"plain\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_stores_of_one_directory_leave_the_files_whole() {
    const SAVES: u64 = 60;
    let dir = tempfile::tempdir().unwrap();
    let write = |first: u64| {
        let store = FileCheckpoints::new(dir.path());
        tokio::spawn(async move {
            for step in first..first + SAVES {
                // Long enough that a write takes a while.
                let state = AgentState::initial()
                    .with_step(step)
                    .with_metadata("text", "x".repeat(50_000));
                store.save("s", Checkpoint::new("s", &state)).await.unwrap();
            }
        })
    };
    let reader = FileCheckpoints::new(dir.path());
    let empty = Checkpoint::new("s", &AgentState::initial());
    reader.save("s", empty).await.unwrap();
    let writers = [write(1), write(1000)];
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        assert!(reader.load_state("s").await.unwrap().is_some());
        assert!(reader.load_metadata("s").await.unwrap().is_some());
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let state = reader.load_state("s").await.unwrap().unwrap();
    let metadata = reader.load_metadata("s").await.unwrap().unwrap();
    assert_eq!(state.step(), metadata.step);
    assert_eq!(
        names_in(&dir.path().join("s")),
        ["checkpoint.json", "metadata.json"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn metadata_that_is_read_behind_a_state_is_not_older() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileCheckpoints::new(dir.path());
    let writer = tokio::spawn(async move {
        for step in 1..200 {
            let state = AgentState::initial().with_step(step);
            store.save("s", Checkpoint::new("s", &state)).await.unwrap();
        }
    });
    let reader = FileCheckpoints::new(dir.path());
    while !writer.is_finished() {
        let state = reader.load_state("s").await.unwrap();
        let metadata = reader.load_metadata("s").await.unwrap();
        assert!(state.map(|state| state.step()) <= metadata.map(|metadata| metadata.step));
    }
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn saves_and_deletes_of_one_session_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let saves = (0..4).map(|_| {
        let store = FileCheckpoints::new(dir.path());
        tokio::spawn(async move {
            for _ in 0..25 {
                let checkpoint = Checkpoint::new("s", &AgentState::initial());
                store.save("s", checkpoint).await.unwrap();
                store.delete("s").await.unwrap();
            }
        })
    });
    for ended in futures::future::join_all(saves).await {
        ended.unwrap();
    }
    assert!(names_in(dir.path()).is_empty());
}

#[tokio::test]
async fn files_that_a_killed_process_left_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileCheckpoints::new(dir.path());
    let folder = dir.path().join("s");
    std::fs::create_dir(&folder).unwrap();
    let two_hours_ago = std::time::SystemTime::now() - Duration::from_hours(2);
    for (name, is_old) in [
        (".checkpoint.json.17", true),
        (".metadata.json.17", true),
        (".checkpoint.json.18", false),
        (".notes", true),
        ("notes.checkpoint.json.19", true),
    ] {
        let file = std::fs::File::create(folder.join(name)).unwrap();
        if is_old {
            file.set_modified(two_hours_ago).unwrap();
        }
    }
    let checkpoint = Checkpoint::new("s", &AgentState::initial());
    store.save("s", checkpoint.clone()).await.unwrap();
    let kept = [
        ".checkpoint.json.18",
        ".notes",
        "checkpoint.json",
        "metadata.json",
        "notes.checkpoint.json.19",
    ];
    assert_eq!(names_in(&folder), kept);

    // A save that fails leaves nothing beside the files: a folder is in the place of one of them.
    std::fs::remove_file(folder.join("metadata.json")).unwrap();
    std::fs::create_dir(folder.join("metadata.json")).unwrap();
    store.save("s", checkpoint).await.unwrap_err();
    assert_eq!(names_in(&folder), kept);
}

/// The sorted names in a directory.
fn names_in(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn malformed_files_are_errors_that_say_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileCheckpoints::new(dir.path());
    std::fs::create_dir(dir.path().join("s")).unwrap();
    let path = dir.path().join("s/checkpoint.json");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    let names_all = |error: &CheckpointError| {
        let what = format!("the checkpoint of session \"s\" in {} ", path.display());
        let text = error.to_string();
        text.starts_with(&what)
            && text.contains("; restore it from a backup, or delete")
            && !text.contains('\n')
    };
    write("{\"version\":");
    let error = store.load_state("s").await.unwrap_err();
    assert!(
        matches!(error, CheckpointError::Malformed { .. }) && names_all(&error),
        "{error}"
    );
    write("{\"version\": \"9.0.0\"}");
    let error = store.load_state("s").await.unwrap_err();
    assert!(
        matches!(error, CheckpointError::State { .. }) && names_all(&error),
        "{error}"
    );
    let huge = std::fs::File::create(&path).unwrap();
    huge.set_len(1 << 40).unwrap();
    let error = store.load("s").await.unwrap_err();
    assert!(
        matches!(error, CheckpointError::TooLarge { .. }) && names_all(&error),
        "{error}"
    );
    let metadata = dir.path().join("s/metadata.json");
    std::fs::write(&metadata, "{").unwrap();
    let error = store.load_metadata("s").await.unwrap_err().to_string();
    let what = format!("the metadata of session \"s\" in {} ", metadata.display());
    assert!(error.starts_with(&what), "{error}");
}

#[cfg(feature = "sled")]
#[tokio::test]
async fn sled_keeps_checkpoints_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledCheckpoints::open(dir.path()).unwrap();
    check_store(&store).await;
    drop(store);
    let store = SledCheckpoints::open(dir.path()).unwrap();
    assert_eq!(store.load_state("a/b").await.unwrap().unwrap().step(), 2);
    let mut damaged = Checkpoint::new("d", &AgentState::initial());
    damaged.state = json!({"version": "9.0.0"});
    store.save("d", damaged).await.unwrap();
    let error = store.load_state("d").await.unwrap_err().to_string();
    let what = format!(
        "the checkpoint of session \"d\" in the sled database {} ",
        dir.path().display()
    );
    assert!(error.starts_with(&what), "{error}");
}

#[cfg(feature = "encryption")]
#[tokio::test]
async fn encrypted_checkpoints_need_the_key_and_their_session() {
    let dir = tempfile::tempdir().unwrap();
    let files = FileCheckpoints::new(dir.path());
    let key = CheckpointKey::from_passphrase("correct horse", b"salt of the agent").unwrap();
    check_store(&EncryptedCheckpoints::new(files.clone(), key.clone())).await;
    let sealed = files.load("plain").await.unwrap().unwrap();
    assert!(!sealed.to_string().contains("päßwörd"));

    let again = CheckpointKey::from_passphrase("correct horse", b"salt of the agent").unwrap();
    let store = EncryptedCheckpoints::new(files.clone(), again);
    assert!(store.load_state("plain").await.unwrap().is_some());
    let other = CheckpointKey::from_passphrase("wrong horse", b"salt of the agent").unwrap();
    let wrong = EncryptedCheckpoints::new(files.clone(), other);
    let refused = wrong.load("plain").await.unwrap_err();
    assert!(matches!(refused, CheckpointError::Decrypt { .. }));
    let what = format!(
        "the checkpoint of session \"plain\" in {} cannot be decrypted",
        dir.path().join("plain/checkpoint.json").display()
    );
    assert!(refused.to_string().starts_with(&what), "{refused}");

    // Moved to another session, or changed.
    let mut moved = Checkpoint::new("a/b", &AgentState::initial());
    moved.state = sealed;
    files.save("a/b", moved).await.unwrap();
    assert!(matches!(
        store.load("a/b").await,
        Err(CheckpointError::Decrypt { .. })
    ));
    let mut garbage = Checkpoint::new("a/b", &AgentState::initial());
    garbage.state = json!({"encrypted": "xchacha20poly1305", "nonce": "AAAA", "data": "AAAA"});
    files.save("a/b", garbage).await.unwrap();
    assert!(matches!(
        store.load("a/b").await,
        Err(CheckpointError::Malformed { .. })
    ));
}

#[tokio::test]
async fn a_restored_run_ends_like_one_that_was_not_cut() {
    let whole = agent(rounds(4).model())
        .tool(echo())
        .checkpoints(Memory::new(Mood::Keeps))
        .build()
        .unwrap();
    let whole = whole.generate("go", &AgentState::initial()).await.unwrap();
    for cut in 1..5 {
        let store = Memory::new(Mood::Keeps);
        // The first model fails after `cut` rounds, the second one goes on.
        let first = agent(Scripted::new((0..cut).map(call)).model())
            .tool(echo())
            .checkpoints(store.clone());
        first
            .session_id("s")
            .build()
            .unwrap()
            .generate("go", &AgentState::initial())
            .await
            .unwrap_err();
        let rest = Scripted::new((cut..4).map(call).chain([ScriptedReply::text("done")]));
        let second = agent(rest.model())
            .tool(echo())
            .checkpoints(store)
            .session_id("s")
            .build()
            .unwrap();
        let state = second.restore("s").await.unwrap().unwrap();
        assert_eq!(state.step(), cut);
        let resumed = second.resume(&state).await.unwrap();
        assert_eq!(resumed.turn.text(), "done");
        assert_eq!(state_structure(&resumed.state), state_structure(&whole.state));
    }
}
