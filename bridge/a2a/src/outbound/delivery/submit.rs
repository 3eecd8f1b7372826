//! Giving an agent a message, and finding out whether it has one.

use agentanycast_daemon_kit::address::bare_url;
use agentanycast_gateway::ExternalTask;
use agentanycast_proto::v1::{ExternalAction, Message, TaskStatus};
use futures::StreamExt as _;

use super::{DeliveryError, DeliveryJob, NextStep, own_messages};
use crate::{
    outbound::{
        checkpoint::DeliveryCheckpoint,
        decode::{AgentUpdate, UpdateContent},
        encode::RemoteCall,
        error::{Kind, OutboundError},
        remote_agent::UpdateStream,
        report_builder::ReportBuilder,
    },
    protocol::{message, metadata, task},
};

/// How often a message that may have arrived is looked for: the agent may be about to begin its task.
const LOOKS: u32 = 4;

/// Tasks without messages in a list that are read one by one.
const READ: usize = 10;

impl DeliveryJob {
    /// Gives the agent the next message, and hears what it says.
    pub(super) async fn submit(
        &mut self,
        errand: &ExternalTask,
        place: &mut DeliveryCheckpoint,
    ) -> Result<NextStep, DeliveryError> {
        let choice = if let Some(choice) = &place.choice {
            choice.clone()
        } else {
            let (choice, at) = self.shared.cards.choose(&self.clients, &errand.url).await?;
            self.clients.check_card_origin(&at, self.remote(&choice)?.uri())?;
            self.step_log.about(&errand.url, Some(&choice));
            self.step_log
                .record(ExternalAction::CardRead, &bare_url(&at.to_string()));
            choice
        };
        let Some(message) = own_messages(errand).nth(place.taken) else {
            return Ok(NextStep::Again);
        };
        let remote = self.remote(&choice)?;
        let here = message::TaskContext {
            context_id: context(errand, place).to_owned(),
            task_id: place.task.clone(),
        };
        let is_first = place.taken == 0;
        let (message, labels) = match &errand.seal {
            Some(seal) => {
                let sealed = seal.seal(message, is_first);
                let sealed = sealed
                    .map_err(|reason| OutboundError::permanent(format!("nothing was sent: {reason}")))?;
                (sealed, metadata::trace_labels(&errand.task.metadata))
            }
            None => (message.clone(), errand.task.metadata.clone()),
        };
        let said = message::write(remote.version(), message, &here);
        let metadata = is_first.then(|| task::metadata(&labels)).flatten();
        place.choice = Some(choice.clone());
        place.sending = true;
        self.save_checkpoint(place).await?;
        let given = if choice.streaming {
            let ask = RemoteCall::Stream {
                message: said,
                metadata,
            };
            match remote.events(ask).await {
                Ok(mut events) => first(&mut events).await.map(|heard| (heard, Some(events))),
                Err(fault) => Err(fault),
            }
        } else {
            let ask = RemoteCall::Send {
                message: said,
                metadata,
            };
            remote.send(ask).await.map(|heard| (heard, None))
        };
        let (heard, events) = match given {
            Ok(given) => given,
            Err(fault) => return self.submit_failed(place, fault).await,
        };
        self.contact_made();
        self.begin(errand, place, heard, events).await
    }

    /// The agent said something to a message: it has it.
    async fn begin(
        &mut self,
        errand: &ExternalTask,
        place: &mut DeliveryCheckpoint,
        heard: AgentUpdate,
        events: Option<UpdateStream>,
    ) -> Result<NextStep, DeliveryError> {
        place.sending = false;
        place.taken += 1;
        let mut progress = ReportBuilder::new(errand);
        let alone = heard.task.is_empty() && place.task.is_empty();
        let what = match heard.content {
            // More may follow in the stream, and the task that it names may be there or not.
            UpdateContent::Message(_) if errand.seal.is_none() && (events.is_some() || !alone) => {
                place.answered = true;
                self.apply_stream_update(&mut progress, place, heard)?;
                self.step_log.record(ExternalAction::Accepted, &place.task);
                return match events {
                    Some(events) => self.watch(progress, place, events).await,
                    None => self.after_answer(progress, place).await,
                };
            }
            // An answer beside a task does not end it.
            UpdateContent::Message(message) if !alone => {
                UpdateContent::Status(TaskStatus::Working, Some(*message))
            }
            what => what,
        };
        if !heard.task.is_empty() {
            place.task = heard.task;
        }
        if !heard.context.is_empty() {
            place.context = heard.context;
        }
        self.step_log.record(ExternalAction::Accepted, &place.task);
        progress.apply(what)?;
        if self.report_progress(&mut progress, Some(place)).await? {
            return Ok(NextStep::Done);
        }
        match events {
            Some(events) => self.watch(progress, place, events).await,
            None => Ok(NextStep::Again),
        }
    }

    /// A message was not taken, or nobody knows.
    async fn submit_failed(
        &mut self,
        place: &mut DeliveryCheckpoint,
        fault: OutboundError,
    ) -> Result<NextStep, DeliveryError> {
        if fault.kind() == Kind::Broken {
            // It stays in doubt, and there is as much patience again to find out.
            self.contact_made();
            let pause = self.pause(&fault);
            self.step_log
                .record_failure(ExternalAction::InDoubt, &fault, Some(pause));
            self.doubt = Some(fault);
            self.save_checkpoint(place).await?;
            return Ok(NextStep::Wait(pause));
        }
        place.sending = false;
        let streaming = place.choice.as_mut().map(|choice| &mut choice.streaming);
        if let (Kind::Unsupported, Some(streaming @ true)) = (fault.kind(), streaming) {
            *streaming = false;
            self.save_checkpoint(place).await?;
            return Ok(NextStep::Again);
        }
        if place.task.is_empty() {
            // Another try begins with the card: the agent may have moved.
            place.choice = None;
        }
        self.save_checkpoint(place).await?;
        Err(fault.into())
    }

    /// A message was on its way when this process ended or the connection broke: whether it has arrived is found
    /// out, where the agent can be asked. It is not sent again: an agent that is slow to begin may have it.
    pub(super) async fn resolve_doubt(
        &mut self,
        errand: &ExternalTask,
        place: &mut DeliveryCheckpoint,
    ) -> Result<NextStep, DeliveryError> {
        let found = if place.task.is_empty() {
            self.look_for_first(errand, place).await?
        } else {
            self.look_for_answer(errand, place).await?
        };
        self.heard_of_doubt(errand, place, found).await
    }

    async fn heard_of_doubt(
        &mut self,
        errand: &ExternalTask,
        place: &mut DeliveryCheckpoint,
        found: Option<String>,
    ) -> Result<NextStep, DeliveryError> {
        if let Some(task) = found {
            self.contact_made();
            self.doubt = None;
            self.step_log.record(ExternalAction::Accepted, &task);
            place.task = task;
            place.taken += 1;
            place.sending = false;
            self.save_checkpoint(place).await?;
            return Ok(NextStep::Again);
        }
        if self.looks() {
            return Err(
                OutboundError::new(Kind::Broken, "it is not known whether it has the message").into(),
            );
        }
        let reason = self.in_doubt();
        Ok(self.fail(errand, &reason, place.task.is_empty()).await)
    }

    /// Whether it is looked once more.
    fn looks(&self) -> bool {
        self.failures < LOOKS
    }

    /// The agent's id of the task that a first message has begun; `None`: none that can be seen.
    pub(super) async fn look_for_first(
        &mut self,
        errand: &ExternalTask,
        place: &DeliveryCheckpoint,
    ) -> Result<Option<String>, DeliveryError> {
        let (Some(choice), Some(message)) = (&place.choice, own_messages(errand).nth(place.taken)) else {
            return Ok(None);
        };
        let remote = self.remote(choice)?;
        let listed = match remote.list(context(errand, place)).await {
            Ok(listed) => listed,
            Err(fault) if may_pass(&fault) => return Err(fault.into()),
            Err(_) => {
                self.failures = self.failures.max(LOOKS);
                return Ok(None);
            }
        };
        let mut unread = Vec::new();
        for task in listed {
            if has(&task.messages, message) {
                return Ok(Some(task.task_id));
            }
            if task.messages.iter().all(|said| said.role != message.role) {
                unread.push(task.task_id);
            }
        }
        for id in unread.into_iter().take(READ) {
            if let UpdateContent::Task(task) = remote.get(&id).await?.content
                && has(&task.messages, message)
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// The same for a further message: its task is known.
    async fn look_for_answer(
        &mut self,
        errand: &ExternalTask,
        place: &DeliveryCheckpoint,
    ) -> Result<Option<String>, DeliveryError> {
        let (Some(choice), Some(message)) = (&place.choice, own_messages(errand).nth(place.taken)) else {
            return Ok(None);
        };
        let heard = self.remote(choice)?.get(&place.task).await?;
        let UpdateContent::Task(task) = heard.content else {
            return Ok(None);
        };
        // A task that does not ask any more was answered.
        let is_answered = has(&task.messages, message) || task.status() != TaskStatus::InputRequired;
        Ok(is_answered.then(|| place.task.clone()))
    }
}

/// The first event of a stream.
async fn first(events: &mut UpdateStream) -> Result<AgentUpdate, OutboundError> {
    let ended = || OutboundError::new(Kind::Broken, "its stream ended before it had begun");
    events.next().await.unwrap_or_else(|| Err(ended()))
}

fn may_pass(fault: &OutboundError) -> bool {
    matches!(fault.kind(), Kind::Unreached | Kind::Busy | Kind::Broken)
}

fn has(messages: &[Message], message: &Message) -> bool {
    messages.iter().any(|said| said.message_id == message.message_id)
}

/// The conversation, as the agent knows it: what it chose itself, or what it was told.
fn context<'a>(errand: &'a ExternalTask, place: &'a DeliveryCheckpoint) -> &'a str {
    if place.context.is_empty() {
        &errand.task.context_id
    } else {
        &place.context
    }
}
