//! What each intent does.

use std::{collections::BTreeMap, sync::Arc};

use agentanycast_gateway::{
    Target, TaskHandle,
    caller::CallerIdentity,
    labels::STRANGER,
    tasks::{CallerMessage, CallerReply, TaskRefusal},
};
use agentanycast_uamp::{
    envelope::{Envelope, EnvelopeId, Intent},
    error::UampError,
    window::StreamLog,
};
use futures::StreamExt as _;
use serde_json::Value;

use super::{Accepted, UampHandler, label, verify::GoodSignature};
use crate::{
    content::{JSON, message_of},
    refusals,
    stream::{StreamOrigin, TaskEvents, UampStream},
    task_events::{TaskPosition, events},
};

/// The value of [`STRANGER`] on the task of a known sender whose connection says nothing of who it is: the task stays among those of
/// such connections, and counts as the own node's.
const KNOWN_SENDER: &str = "false";

impl UampHandler {
    /// Does what an envelope says.
    pub(super) async fn act(
        &self,
        caller: &CallerIdentity,
        envelope: &Envelope,
        raw: &[u8],
        signature: GoodSignature,
    ) -> Result<Accepted, UampError> {
        let answer = |stream_id| Accepted {
            id: envelope.id(),
            stream_id,
        };
        match envelope.intent() {
            Intent::Ask | Intent::Propose => {
                if let Some(stream) = self.answered(caller, envelope, raw).await? {
                    return Ok(answer(Some(stream.id.clone())));
                }
                let stream = self.begin(caller, envelope, raw, signature).await?;
                Ok(answer(Some(stream.id.clone())))
            }
            Intent::Inform | Intent::Notify => {
                self.inform(caller, envelope, raw, signature).await?;
                Ok(answer(None))
            }
            Intent::Subscribe => {
                let stream = self.subscribe(caller, envelope).await?;
                Ok(answer(Some(stream.id.clone())))
            }
            Intent::Cancel | Intent::Error => {
                self.cancel(caller, envelope).await?;
                Ok(answer(None))
            }
            Intent::Confirm | Intent::Deny => {
                // An answer where one is asked for; else it only closes what has ended.
                self.answered(caller, envelope, raw).await?;
                Ok(answer(None))
            }
            Intent::Progress => {
                self.acknowledge_by(caller, envelope).await?;
                Ok(answer(None))
            }
        }
    }

    /// The labels of the task of one receiver.
    fn labels_of(envelope: &Envelope, at: usize, is_body_signed: bool) -> BTreeMap<String, String> {
        let receiver = envelope.to().get(at).map_or("", String::as_str);
        let mut labels: BTreeMap<String, String> = Self::chosen(envelope).collect();
        for (name, value) in [
            (label::ID, envelope.id().to_string()),
            (label::FROM, envelope.from().to_owned()),
            (label::INTENT, envelope.intent().as_str().to_owned()),
            (label::WINDOW, envelope.delta_window().to_string()),
            (
                label::RECEIVER,
                format!("{at}/{} {receiver}", envelope.to().len()),
            ),
        ] {
            labels.insert(name.to_owned(), value);
        }
        if !is_body_signed {
            labels.insert("body_unsigned".to_owned(), "true".to_owned());
        }
        labels
    }

    /// Begins a task for each receiver.
    async fn send_all(
        &self,
        caller: &CallerIdentity,
        envelope: &Envelope,
        raw: &[u8],
        signature: GoodSignature,
        (stream_id, context): (&str, &str),
    ) -> Result<Vec<Result<Arc<dyn TaskHandle>, UampError>>, UampError> {
        let message = message_of(envelope, raw, self.max_body)?;
        let mut targets = Vec::new();
        for at in 0..envelope.to().len() {
            targets.push(self.receivers.target(envelope, at, &**self.node()).await?);
        }
        let sender = Self::sending_caller(caller, stream_id, envelope.from());
        let tasks = self.tasks.of_caller(sender);
        let mut sent = Vec::new();
        // The last one has the message itself.
        let messages = std::iter::repeat_n(message, targets.len());
        for (at, (target, message)) in targets.into_iter().zip(messages).enumerate() {
            let skill = match &target {
                Target::Skill(skill) => Some(skill.clone()),
                _ => None,
            };
            let mut said = CallerMessage::new(target, message);
            context.clone_into(&mut said.context);
            said.gateway_labels = Self::labels_of(envelope, at, signature.covers_body);
            if caller.is_stranger() && signature.is_of_known {
                said.gateway_labels
                    .insert(STRANGER.to_owned(), KNOWN_SENDER.to_owned());
            }
            said.key = Some(format!("{}:{at}", envelope.id()));
            let begun = tasks.send(said).await;
            // Nothing more begins with an envelope that is another one's.
            if let Err(refusal @ TaskRefusal::KeyReused(_)) = begun {
                return Err(refusals::of_task(refusal));
            }
            sent.push(begun.map_err(|refusal| match skill {
                Some(skill) => refusals::of_skill(refusal, &skill, at),
                None => refusals::of_task(refusal),
            }));
        }
        // What has begun is answered by its stream; an envelope of which nothing has begun is refused.
        if sent.iter().all(Result::is_err)
            && let Some(Err(error)) = sent.pop()
        {
            return Err(error);
        }
        Ok(sent)
    }

    async fn begin(
        &self,
        caller: &CallerIdentity,
        envelope: &Envelope,
        raw: &[u8],
        signature: GoodSignature,
    ) -> Result<Arc<UampStream>, UampError> {
        let id = self.stream_of(envelope.from(), envelope.id(), envelope.stream_id());
        if envelope.stream_id().is_some() {
            match self.open(caller, &id).await {
                // Taken before a restart.
                Ok(known) if known.origin.id == envelope.id() && known.origin.from == envelope.from() => {
                    return Ok(known);
                }
                Ok(_) => {
                    let text =
                        "is that of another envelope; leave it out, or give each request a stream of its own";
                    return Err(UampError::field("stream_id", text));
                }
                Err(UampError::UnknownStream(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let slot = self.tasks.follow_slot().map_err(refusals::of_task)?;
        let context = self.context_of(caller, envelope);
        let sent = self
            .send_all(caller, envelope, raw, signature, (&id, &context))
            .await?;
        // These tasks may be those of before a restart, whose frames are numbered already.
        if self.may_be_of_before_start() && sent.iter().all(Result::is_ok) {
            drop(slot);
            return self.open(caller, &id).await;
        }
        let origin = StreamOrigin {
            id: envelope.id(),
            from: envelope.from().to_owned(),
            to: envelope.to().to_vec(),
            context,
        };
        let names = sent
            .iter()
            .map(|sent| sent.as_ref().ok().map(|handle| handle.id().to_owned()));
        let stream = Arc::new(UampStream::new(
            id,
            caller.clone(),
            origin,
            names.collect(),
            StreamLog::new(envelope.delta_window()),
            vec![TaskPosition::default(); sent.len()],
        ));
        let added = self.streams.add(Arc::clone(&stream))?;
        if !Arc::ptr_eq(&added, &stream) {
            return Ok(added);
        }
        let mut handles = Vec::new();
        for (at, sent) in sent.into_iter().enumerate() {
            match sent {
                Ok(handle) => handles.push((at, handle, TaskPosition::default())),
                Err(error) => stream.fail_receiver(at, &error),
            }
        }
        self.follow(&stream, handles, slot);
        Ok(stream)
    }

    /// Fills a stream from these tasks.
    pub(super) fn follow(
        &self,
        stream: &Arc<UampStream>,
        handles: Vec<(usize, Arc<dyn TaskHandle>, TaskPosition)>,
        slot: tokio::sync::OwnedSemaphorePermit,
    ) {
        let reader = self
            .tasks
            .of_caller(Self::stream_caller(&stream.caller, &stream.id))
            .reader();
        let each = handles.into_iter().map(|(at, handle, position)| {
            let number = u16::try_from(at).unwrap_or(u16::MAX);
            events(handle, reader.clone(), position)
                .map(move |event| (number, event))
                .boxed()
        });
        let mut all: Vec<TaskEvents> = each.collect();
        let events = match all.pop() {
            Some(only) if all.is_empty() => only,
            last => futures::stream::select_all(all.into_iter().chain(last)).boxed(),
        };
        stream.start(Arc::clone(self.node()), events, self.stop.clone(), slot);
    }

    async fn inform(
        &self,
        caller: &CallerIdentity,
        envelope: &Envelope,
        raw: &[u8],
        signature: GoodSignature,
    ) -> Result<(), UampError> {
        let id = self.stream_of(envelope.from(), envelope.id(), None);
        let context = self.context_of(caller, envelope);
        self.send_all(caller, envelope, raw, signature, (&id, &context))
            .await?;
        Ok(())
    }

    /// The conversation: the first context, else the root of what is answered, else a new one.
    fn context_of(&self, caller: &CallerIdentity, envelope: &Envelope) -> String {
        if let Some(first) = envelope.context().first() {
            return first.id.to_string();
        }
        match envelope.reply_to() {
            Some(id) => match self.streams.by_envelope(caller, id) {
                Some(stream) => stream.origin.context.clone(),
                None => id.to_string(),
            },
            None => envelope.id().to_string(),
        }
    }

    /// Gives an envelope to a task of the stream that it answers, if one asks for input; the stream.
    async fn answered(
        &self,
        caller: &CallerIdentity,
        envelope: &Envelope,
        raw: &[u8],
    ) -> Result<Option<Arc<UampStream>>, UampError> {
        let Some(id) = envelope.reply_to() else {
            return Ok(None);
        };
        let Some(stream) = self.replied_stream(caller, envelope, id).await? else {
            return Ok(None);
        };
        let message = message_of(envelope, raw, self.max_body)?;
        let sender = Self::sending_caller(caller, &stream.id, envelope.from());
        let tasks = self.tasks.of_caller(sender);
        let mut is_used = None;
        for task in stream.tasks.iter().flatten() {
            let reply = CallerReply {
                message: message.clone(),
                context: String::new(),
                note: None,
                // The key of a first task too: the envelope may not begin one for another caller.
                key: Some(format!("{}:0", envelope.id())),
            };
            match tasks.reply(task, reply).await {
                Ok(_) => {
                    stream.note_answer(envelope.id());
                    return Ok(Some(stream));
                }
                Err(TaskRefusal::AsksNothing(_) | TaskRefusal::Ended(..)) => {}
                // It answered another of the tasks before a restart, or is another envelope.
                Err(refusal @ TaskRefusal::KeyReused(_)) => is_used = Some(refusal),
                Err(refusal) => return Err(refusals::of_task(refusal)),
            }
        }
        is_used.map_or(Ok(None), |refusal| Err(refusals::of_task(refusal)))
    }

    /// The stream that an envelope answers, of its own sender.
    async fn replied_stream(
        &self,
        caller: &CallerIdentity,
        envelope: &Envelope,
        id: EnvelopeId,
    ) -> Result<Option<Arc<UampStream>>, UampError> {
        let stream = if let Some(stream) = self.streams.by_envelope(caller, id) {
            stream
        } else {
            let name = self.stream_of(envelope.from(), id, envelope.stream_id());
            match self.open(caller, &name).await {
                Ok(stream) => stream,
                Err(UampError::UnknownStream(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        };
        if stream.origin.from != envelope.from() {
            return Ok(None);
        }
        Ok(Some(stream))
    }

    /// The stream that an envelope is about, by its `stream_id` or `reply_to`.
    async fn named_stream(
        &self,
        caller: &CallerIdentity,
        envelope: &Envelope,
    ) -> Result<Arc<UampStream>, UampError> {
        let stream = match (envelope.stream_id(), envelope.reply_to()) {
            (Some(name), _) => self.open(caller, name).await?,
            (None, Some(id)) => {
                let stream = self.replied_stream(caller, envelope, id).await?;
                let text = "names no conversation of this sender that goes on; name its stream_id";
                stream.ok_or_else(|| UampError::field("reply_to", text))?
            }
            (None, None) => {
                return Err(UampError::field(
                    "reply_to",
                    "is missing; name the envelope or the stream",
                ));
            }
        };
        if stream.origin.from != envelope.from() {
            return Err(UampError::UnknownStream(stream.id.clone()));
        }
        Ok(stream)
    }

    async fn cancel(&self, caller: &CallerIdentity, envelope: &Envelope) -> Result<(), UampError> {
        let stream = self.named_stream(caller, envelope).await?;
        let tasks = self.tasks.of_caller(Self::stream_caller(caller, &stream.id));
        for task in stream.tasks.iter().flatten() {
            match tasks.cancel(task).await {
                // One that has ended tells so by its stream.
                Ok(_) | Err(TaskRefusal::Ended(..)) => {}
                Err(refusal) => return Err(refusals::of_task(refusal)),
            }
        }
        Ok(())
    }

    /// A stream of its own over the tasks of another one.
    async fn subscribe(
        &self,
        caller: &CallerIdentity,
        envelope: &Envelope,
    ) -> Result<Arc<UampStream>, UampError> {
        let Some(id) = envelope.reply_to() else {
            return Err(UampError::field(
                "reply_to",
                "is missing; subscribe names the envelope to follow",
            ));
        };
        let Some(followed) = self.replied_stream(caller, envelope, id).await? else {
            return Err(UampError::field(
                "reply_to",
                "names no conversation of this sender",
            ));
        };
        let name = self.stream_of(envelope.from(), envelope.id(), envelope.stream_id());
        if self.streams.get(caller, &name).is_some() {
            return Err(UampError::field("stream_id", "is that of another envelope"));
        }
        let slot = self.tasks.follow_slot().map_err(refusals::of_task)?;
        let origin = StreamOrigin {
            id: envelope.id(),
            from: envelope.from().to_owned(),
            to: followed.origin.to.clone(),
            context: followed.origin.context.clone(),
        };
        let stream = Arc::new(
            UampStream::new(
                name,
                caller.clone(),
                origin,
                followed.tasks.clone(),
                StreamLog::new(envelope.delta_window()),
                vec![TaskPosition::default(); followed.tasks.len()],
            )
            .without_notes(),
        );
        let stream = self.streams.add(stream)?;
        let handles = followed.tasks.iter().enumerate().filter_map(|(at, task)| {
            let handle = self.node().task(task.as_ref()?);
            Some((at, handle, TaskPosition::default()))
        });
        self.follow(&stream, handles.collect(), slot);
        Ok(stream)
    }

    /// Takes the acknowledgement of an envelope of the intent `progress`.
    async fn acknowledge_by(&self, caller: &CallerIdentity, envelope: &Envelope) -> Result<(), UampError> {
        let body = envelope.body();
        let content = body.decode(self.max_body)?;
        let said: Option<Value> = (body.essence() == JSON)
            .then(|| agentanycast_readers::json::read(&content).ok())
            .flatten();
        let Some(through) = said.and_then(|said| said.get("ack")?.as_u64()) else {
            let text = "has to be {\"ack\": N} of the type application/json in a progress";
            return Err(UampError::field("body.content", text));
        };
        self.named_stream(caller, envelope).await?.acknowledge(through)
    }
}
