//! Where what an agent says goes: any order of prompts, parts, ends and cancels against a simple model.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{ContentBlock, TextContent};
use proptest::prelude::*;

use super::*;

fn chunk(text: &str, id: Option<&str>) -> ContentChunk {
    let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text)));
    match id {
        Some(id) => chunk.message_id(id),
        None => chunk,
    }
}

fn said(text: &str, id: Option<&str>) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(chunk(text, id))
}

fn text_of(chunk: &ContentChunk) -> String {
    match &chunk.content {
        ContentBlock::Text(text) => text.text.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn events_go_to_their_turn_as_long_as_it_reads() {
    let turns = Arc::new(Turns::default());
    let one = SessionId::new("1");
    let mut events = turns.open(&one, 10);
    for _ in 0..20 {
        turns.update(&one, said("x", None), 10);
        assert!(matches!(events.next().await, TurnEvent::Update(_)));
    }
    turns.update(&SessionId::new("2"), said("y", None), 1);
    assert!(events.try_next().is_none());
    drop(events);
    turns.update(&one, said("z", None), 1);
    assert!(turns.take_kept(&one).unwrap().ends_with("said: z"));
    assert_eq!(turns.take_kept(&one), None);
}

#[tokio::test]
async fn a_turn_that_does_not_read_is_told_that_there_is_too_much() {
    let turns = Arc::new(Turns::default());
    let one = SessionId::new("1");
    let mut events = turns.open(&one, 10);
    turns.update(&one, said("x", None), 6);
    turns.update(&one, said("x", None), 6);
    turns.update(&one, said("x", None), 1);
    assert!(matches!(events.next().await, TurnEvent::Update(_)));
    assert!(matches!(events.try_next(), Some(TurnEvent::TooMuch)));
    assert!(events.try_next().is_none());
}

#[tokio::test]
async fn a_replay_is_no_part_of_a_turn() {
    let turns = Arc::new(Turns::default());
    let one = SessionId::new("1");
    turns.set_loading(&one, true);
    turns.update(&one, said("said before", None), 1);
    turns.set_loading(&one, false);
    assert_eq!(turns.take_kept(&one), None);
}

#[tokio::test(start_paused = true)]
async fn silence_is_waited_for_within_its_bound() {
    let turns = Arc::new(Turns::default());
    let one = SessionId::new("1");
    let events = turns.open(&one, 1000);
    let began = Instant::now();
    let speaking = async {
        tokio::time::sleep(QUIET / 2).await;
        turns.update(&one, said("x", None), 1);
    };
    tokio::join!(events.quiet(), speaking);
    assert_eq!(began.elapsed(), QUIET + QUIET / 2);
    let began = Instant::now();
    let speaking = async {
        loop {
            tokio::time::sleep(QUIET / 2).await;
            turns.update(&one, said("x", None), 0);
        }
    };
    tokio::select! {
        () = events.quiet() => {}
        () = speaking => {}
    }
    assert_eq!(began.elapsed(), QUIET_WITHIN);
}

#[derive(Debug, Clone)]
enum TurnStep {
    /// The agent says something; of which turn before the last one, and whether the message has an id.
    Say {
        turns_ago: usize,
        has_id: bool,
    },
    /// The turn ends by itself.
    End,
    /// The task is canceled; so many of the parts that wait are read before.
    Cancel {
        read: usize,
    },
    Prompt,
}

fn steps() -> impl Strategy<Value = Vec<TurnStep>> {
    let step = prop_oneof![
        5 => (0..3_usize, any::<bool>()).prop_map(|(turns_ago, has_id)| TurnStep::Say { turns_ago, has_id }),
        2 => Just(TurnStep::End),
        1 => (0..3_usize).prop_map(|read| TurnStep::Cancel { read }),
        3 => Just(TurnStep::Prompt),
    ];
    prop::collection::vec(step, 0..40)
}

/// Reads what a turn has.
fn read(events: &mut TurnEvents, most: usize, shown: &mut BTreeMap<String, usize>, turn: usize) {
    for _ in 0..most {
        match events.try_next() {
            Some(TurnEvent::Update(update)) => {
                let SessionUpdate::AgentMessageChunk(chunk) = *update else {
                    continue;
                };
                assert!(shown.insert(text_of(&chunk), turn).is_none(), "shown twice");
            }
            Some(TurnEvent::Late(chunk)) => events.keep(&chunk),
            Some(_) => panic!("nothing else is sent"),
            None => return,
        }
    }
}

proptest! {
    /// Each part is shown once, in its own turn, or told as outside of the turns.
    #[test]
    fn each_part_is_shown_in_its_turn_or_told(steps in steps()) {
        let turns = Arc::new(Turns::default());
        let session = SessionId::new("s");
        let (mut open, mut turn) = (None::<TurnEvents>, 0_usize);
        let mut shown = BTreeMap::new();
        // Each part with its turn by its id; 0: it has no id, or comes before the first turn.
        let mut parts: Vec<(String, Option<usize>)> = Vec::new();
        drop(turns.open(&session, usize::MAX));
        for step in steps {
            match step {
                TurnStep::Say { turns_ago, has_id } => {
                    let of = turn.saturating_sub(turns_ago);
                    let (text, id) = (format!("<{}>", parts.len()), format!("m{of}"));
                    // Only a turn that has said something under an id can go on under it.
                    let is_known = parts.iter().any(|(_, known)| *known == Some(of));
                    let may = has_id && of > 0 && (of == turn && open.is_some() || is_known);
                    turns.update(&session, said(&text, may.then_some(&*id)), 1);
                    parts.push((text, may.then_some(of)));
                }
                TurnStep::End => {
                    if let Some(mut events) = open.take() {
                        events.close(true);
                        read(&mut events, usize::MAX, &mut shown, turn);
                    }
                }
                TurnStep::Cancel { read: most } => {
                    if let Some(mut events) = open.take() {
                        read(&mut events, most, &mut shown, turn);
                    }
                }
                TurnStep::Prompt => {
                    if open.is_none() {
                        turn += 1;
                        open = Some(turns.open(&session, usize::MAX));
                    }
                }
            }
        }
        drop(open);
        let told = turns.take_kept(&session).unwrap_or_default();
        for (text, of) in &parts {
            let is_told = told.matches(text.as_str()).count();
            if let Some(turn) = shown.get(text) {
                prop_assert_eq!(is_told, 0);
                prop_assert!(of.is_none_or(|of| of == *turn), "{} is of {:?}", text, of);
            } else {
                prop_assert_eq!(is_told, 1, "{} in {}", text, told);
            }
        }
    }
}
