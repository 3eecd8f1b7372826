//! Hearing what an agent says of a task that it has.

use std::time::Duration;

use agentanycast_proto::v1::{OutsideDeed, TaskStatus};
use futures::StreamExt as _;
use tokio::time::Instant;

use super::{Failure, Next, Run, ours};
use crate::{
    a2a::{
        outbound::{
            binding::Ask,
            fault::{Fault, Kind},
            heard::{Heard, What},
            place::Place,
            progress::{Due, Progress},
            remote::{Events, Remote},
        },
        version::Version,
    },
    gateway::{Errand, is_terminal},
};

/// How long a result may have grown before its reader is told.
const SOON: Duration = Duration::from_millis(250);

/// The pause between two looks at a task without a stream: it grows while nothing happens.
const LOOK: Duration = Duration::from_millis(500);
const LONGEST_LOOK: Duration = Duration::from_secs(15);

/// The same beside a stream, which may have lost something; and at least.
const LOOK_BESIDE: Duration = Duration::from_mins(1);
const LEAST_LOOK: Duration = Duration::from_millis(300);

/// The pause between two looks at a task that waits for its sender: the agent may give up waiting.
const LOOK_AT_REST: Duration = Duration::from_secs(5);
const LONGEST_REST: Duration = Duration::from_mins(2);

/// How long a stream may go on without a word after a message without a task. By A2A it ends with the first one.
const AFTER_ANSWER: Duration = Duration::from_mins(5);

/// Between two times that a stream is asked for, when it ends before the task.
const AFTER_STREAM: Duration = Duration::from_secs(30);

impl Run {
    /// Hears a stream that began with the message, so that nothing of it is missing.
    pub(super) async fn watch(
        &mut self,
        mut progress: Progress,
        place: &mut Place,
        mut events: Events,
    ) -> Result<Next, Failure> {
        let mut tell_at: Option<Instant> = None;
        let mut last_word = Instant::now();
        loop {
            match progress.due() {
                Due::Now => {
                    if self.tell(&mut progress, Some(place)).await? {
                        return Ok(Next::Done);
                    }
                    tell_at = None;
                }
                Due::Soon => {
                    tell_at.get_or_insert_with(|| Instant::now() + SOON);
                }
                Due::Later | Due::Nothing => {}
            }
            if progress.status() == TaskStatus::InputRequired {
                return Ok(Next::Again);
            }
            let stop = self.shared.stop.clone();
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    progress.release();
                    self.tell(&mut progress, Some(place)).await?;
                    return Ok(Next::Done);
                }
                () = self.bell.rings() => {
                    if self.has_come(place).await? {
                        progress.release();
                        self.tell(&mut progress, Some(place)).await?;
                        return Ok(Next::Again);
                    }
                    continue;
                }
                () = at(tell_at) => {
                    progress.release();
                    self.tell(&mut progress, Some(place)).await?;
                    tell_at = None;
                    continue;
                }
                () = at(place.answered.then(|| last_word + AFTER_ANSWER)) => {
                    self.told.breach("its stream goes on after its message, without a word; it is not heard further");
                    None
                }
                event = events.next() => event,
            };
            match event {
                Some(Ok(heard)) => {
                    self.heard();
                    last_word = Instant::now();
                    if let Some(named) = self.hear_in_stream(&mut progress, place, heard)? {
                        self.told.did(OutsideDeed::Given, &named);
                    }
                }
                // The agent was there until now; what became of the task is looked at.
                Some(Err(fault)) if matches!(fault.kind(), Kind::Broken | Kind::Busy) => {
                    self.heard();
                    let pause = self.pause(&fault);
                    self.told.failed(OutsideDeed::Failed, &fault, Some(pause));
                    progress.release();
                    self.tell(&mut progress, Some(place)).await?;
                    return Ok(Next::Wait(pause));
                }
                Some(Err(fault)) => {
                    progress.release();
                    self.tell(&mut progress, Some(place)).await?;
                    return Err(fault.into());
                }
                None if place.answered => {
                    self.heard();
                    return self.after_answer(progress, place).await;
                }
                None => {
                    self.tell(&mut progress, Some(place)).await?;
                    self.heard();
                    return Ok(Next::Again);
                }
            }
        }
    }

    /// Hears an event of a stream that began with a message. Some: the agent's id of the task, which was not known
    /// before.
    pub(super) fn hear_in_stream(
        &mut self,
        progress: &mut Progress,
        place: &mut Place,
        heard: Heard,
    ) -> Result<Option<String>, Fault> {
        if progress.is_sealed() {
            return hear(progress, place, heard).map(|()| None);
        }
        let Heard {
            task,
            context,
            what,
            unknown_state,
        } = heard;
        if let What::Message(message) = what {
            if !task.is_empty() && !place.task.is_empty() && task != place.task {
                self.told.breach(&format!(
                    "a message names the task {task}, and its task is {}; the message is taken",
                    place.task
                ));
            }
            let named = (place.task.is_empty() && !task.is_empty()).then_some(task);
            if let Some(named) = &named {
                place.task.clone_from(named);
            }
            if place.context.is_empty() {
                place.context = context;
            }
            // Before anything else is heard, a message may be the whole answer.
            if place.answered {
                progress.hold(*message);
            } else {
                progress.say(*message);
            }
            return Ok(named);
        }
        let mut named = None;
        if place.answered {
            place.answered = false;
            if !task.is_empty() && task != place.task {
                place.task.clone_from(&task);
                named = Some(task.clone());
            }
            if !context.is_empty() {
                place.context.clone_from(&context);
            }
        }
        hear(
            progress,
            place,
            Heard {
                task,
                context,
                what,
                unknown_state,
            },
        )?;
        Ok(named)
    }

    /// The agent has answered by messages alone. If they name a task that it has, that is followed; if not, they are
    /// its whole answer.
    pub(super) async fn after_answer(
        &mut self,
        mut progress: Progress,
        place: &mut Place,
    ) -> Result<Next, Failure> {
        if !place.task.is_empty() {
            let Some(choice) = &place.choice else {
                return Err(Fault::last("the node's note on it names no interface of it").into());
            };
            match self.remote(choice)?.get(&place.task).await {
                Ok(snapshot) => {
                    self.heard();
                    place.answered = false;
                    progress.release();
                    hear_look(&mut progress, snapshot)?;
                    let ended = self.tell(&mut progress, Some(place)).await?;
                    return Ok(if ended { Next::Done } else { Next::Again });
                }
                Err(fault) if fault.is_passing() => {
                    progress.release();
                    self.tell(&mut progress, Some(place)).await?;
                    return Err(fault.into());
                }
                Err(fault) => self.told.breach(&format!(
                    "its message names the task {}, which it does not show ({fault}); the message is its answer",
                    place.task
                )),
            }
        }
        let answers = progress.answers();
        if answers > 1 {
            self.told.breach(&format!(
                "it said {answers} messages without a task, and A2A has one; all are taken"
            ));
        }
        progress.conclude();
        self.tell(&mut progress, Some(place)).await?;
        Ok(Next::Done)
    }

    /// Whether something has come that has to be done before anything else.
    async fn has_come(&self, place: &Place) -> Result<bool, Failure> {
        self.bell.quiet();
        let errand = self.shared.errands.errand(&self.id).await?;
        Ok(errand
            .is_none_or(|errand| is_terminal(errand.task.status()) || ours(&errand).count() > place.taken))
    }

    /// Hears of a task whose beginning was heard before: what it is now is looked at, and a stream, if the agent has
    /// them, says when to look again. So no piece of a result is missing, and none is there twice.
    pub(super) async fn follow(&mut self, errand: &Errand, place: &mut Place) -> Result<Next, Failure> {
        if place.answered {
            return self.after_answer(Progress::of(errand), place).await;
        }
        let Some(choice) = &place.choice else {
            return Err(Fault::last("the node's note on it names no way to it").into());
        };
        let remote = self.remote(choice)?;
        let mut progress = Progress::of(errand);
        // Servers on the official SDK of 0.3 write each piece of a result down twice while somebody is subscribed again.
        let streams = choice.streaming && choice.interface.version == Version::V10;
        let mut events: Option<Events> = None;
        let mut subscribe_at = Instant::now();
        let mut pause = LOOK;
        let mut end: Option<What> = None;
        loop {
            let looked = Instant::now();
            if streams && events.is_none() && subscribe_at <= looked {
                events = self.subscribe(&remote, place).await?;
                subscribe_at = looked + AFTER_STREAM;
            }
            let snapshot = remote.get(&place.task).await?;
            self.heard();
            hear_look(&mut progress, snapshot)?;
            if let Some(end) = end.take() {
                progress.hear(end)?;
            }
            pause = match progress.due() {
                Due::Nothing => (pause + pause / 2).min(LONGEST_LOOK),
                _ => LOOK,
            };
            if self.tell(&mut progress, None).await? {
                return Ok(Next::Done);
            }
            if progress.status() == TaskStatus::InputRequired {
                return Ok(Next::Again);
            }
            let mut look_at = looked + if events.is_some() { LOOK_BESIDE } else { pause };
            loop {
                let stop = self.shared.stop.clone();
                let event = tokio::select! {
                    biased;
                    () = stop.cancelled() => return Ok(Next::Done),
                    () = self.bell.rings() => {
                        if self.has_come(place).await? {
                            return Ok(Next::Again);
                        }
                        continue;
                    }
                    () = tokio::time::sleep_until(look_at) => break,
                    event = next(&mut events) => event,
                };
                self.heard();
                let heard = match event {
                    Some(Ok(heard)) if heard.task == place.task || matches!(heard.what, What::Message(_)) => {
                        heard
                    }
                    Some(Ok(_)) => continue,
                    Some(Err(fault)) if !matches!(fault.kind(), Kind::Broken | Kind::Busy) => {
                        return Err(fault.into());
                    }
                    // It is looked at without one, and another is asked for after a while.
                    Some(Err(_)) | None => {
                        events = None;
                        look_at = looked + LOOK;
                        continue;
                    }
                };
                look_at = look_at.min((looked + LEAST_LOOK).max(Instant::now()));
                match heard.what {
                    // The results that came before are looked at first.
                    What::Status(status, _) if is_terminal(status) => {
                        end = Some(heard.what);
                        break;
                    }
                    What::Status(..) => {
                        hear(&mut progress, place, heard)?;
                        if progress.due() == Due::Now {
                            self.tell(&mut progress, None).await?;
                        }
                    }
                    // The task may not show it.
                    What::Message(message) if !progress.is_sealed() => {
                        progress.say(*message);
                        self.tell(&mut progress, None).await?;
                    }
                    What::Task(_) | What::Message(_) | What::Artifact { .. } => {}
                }
            }
        }
    }

    /// A stream about a task that the agent has; `None`: there is none for this task.
    async fn subscribe(&self, remote: &Remote, place: &Place) -> Result<Option<Events>, Failure> {
        match remote
            .events(Ask::Subscribe {
                id: place.task.clone(),
            })
            .await
        {
            Ok(events) => Ok(Some(events)),
            // It may have ended; whoever looks at it knows.
            Err(fault)
                if matches!(
                    fault.kind(),
                    Kind::Unsupported | Kind::Refused | Kind::Final | Kind::TaskGone
                ) =>
            {
                Ok(None)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// The task waits for its sender. The agent is looked at from time to time: it may not wait for ever.
    pub(super) async fn rest(&mut self, errand: &Errand, place: &mut Place) -> Result<Next, Failure> {
        let mut pause = LOOK_AT_REST;
        let Some(choice) = &place.choice else {
            return Err(Fault::last("the node's note on it names no way to it").into());
        };
        let remote = self.remote(choice)?;
        let mut progress = Progress::of(errand);
        loop {
            let stop = self.shared.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Next::Done),
                () = self.bell.rings() => {
                    self.heard();
                    return Ok(Next::Again);
                }
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_REST);
            match remote.get(&place.task).await {
                Ok(snapshot) => hear_look(&mut progress, snapshot)?,
                Err(fault) if fault.kind() == Kind::TaskGone => return Err(fault.into()),
                // Its sender may take longer to answer than the agent is away.
                Err(_) => continue,
            }
            if progress.due() == Due::Nothing {
                continue;
            }
            self.heard();
            if self.tell(&mut progress, None).await? {
                return Ok(Next::Done);
            }
            if progress.status() != TaskStatus::InputRequired {
                return Ok(Next::Again);
            }
        }
    }
}

/// Hears how the task stands, by the agent's answer to a question for it.
fn hear_look(progress: &mut Progress, heard: Heard) -> Result<(), Fault> {
    progress.look(heard.unknown_state.as_deref())?;
    progress.hear(heard.what)
}

/// Hears what is said of this task; of others, nothing.
fn hear(progress: &mut Progress, place: &Place, heard: Heard) -> Result<(), Fault> {
    if !heard.task.is_empty() && heard.task != place.task {
        return Ok(());
    }
    let what = match heard.what {
        // An answer beside a task does not end it.
        What::Message(message) if !place.task.is_empty() => What::Status(TaskStatus::Working, Some(*message)),
        what => what,
    };
    progress.hear(what)
}

/// The next event of a stream; without a stream, never.
async fn next(events: &mut Option<Events>) -> Option<Result<Heard, Fault>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
