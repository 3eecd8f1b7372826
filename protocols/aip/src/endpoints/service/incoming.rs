//! What a registered client sends, and what is done with it.

use std::sync::Arc;

use tokio::{sync::Semaphore, task::JoinHandle};

use super::{
    DeviceService,
    entry::ClientEntry,
    sessions::{EndCause, SessionPart},
};
use crate::{
    messages::{ClientMessage, ClientMessageType, ServerMessage, timestamp_now},
    protocol::{
        AnyMessage, FileProgress, FileReceiver, Received, ReplyMatch, TransferError, heartbeat_ok, is_wire_id,
    },
};

/// Questions about devices that are answered for one client at a time; its next frames wait for more.
const MOST_QUESTIONS: usize = 16;

/// An error frame. A long text is cut, and a session id that cannot be one is left out.
pub(super) fn error_message(text: String, session_id: Option<String>) -> ServerMessage {
    ServerMessage {
        session_id: session_id.filter(|id| is_wire_id(id)),
        timestamp: Some(timestamp_now()),
        ..ServerMessage::error(text)
    }
}

/// Handles the frames of one client, in their order.
pub(super) struct Incoming {
    service: DeviceService,
    entry: Arc<ClientEntry>,
    files: FileReceiver,
    /// Questions about devices that are being answered.
    questions: Arc<Semaphore>,
}

impl Incoming {
    pub(super) fn new(service: DeviceService, entry: Arc<ClientEntry>) -> Self {
        let files = FileReceiver::new(service.0.settings.max_file);
        Self {
            service,
            entry,
            files,
            questions: Arc::new(Semaphore::new(MOST_QUESTIONS)),
        }
    }

    /// Learns the tools of a device, apart from its frames, which bring them.
    pub(super) fn learn_tools(&self) -> Option<JoinHandle<()>> {
        let names = self.service.0.settings.agent_names.clone();
        if !self.entry.is_device() || names.is_empty() {
            return None;
        }
        let (service, entry) = (self.service.clone(), Arc::clone(&self.entry));
        Some(tokio::spawn(async move {
            let mut tools = Vec::new();
            for name in names {
                match service.list_tools(entry.id(), &name).await {
                    Ok(found) => tools.extend(found),
                    Err(error) => {
                        tracing::info!(agent_name = name, %error, "tools of a device are not known");
                    }
                }
            }
            service.0.hooks.tools(entry.id(), &tools).await;
        }))
    }

    /// Handles one frame. The error is the text of a refusal, for a frame that is not this client's to send.
    pub(super) async fn handle(&mut self, received: Received) -> Result<(), String> {
        let protocol = Arc::clone(&self.service.0.protocol);
        match received {
            Received::Message(AnyMessage::Client(message)) => {
                self.entry.registration.check(&message)?;
                let message = AnyMessage::Client(message);
                protocol
                    .handle_message(self.entry.id(), &message, &self.entry.outbox)
                    .await;
                let AnyMessage::Client(message) = message else {
                    return Ok(());
                };
                self.message(message).await
            }
            Received::Message(AnyMessage::Server(_)) => Ok(()),
            Received::Custom(message) => {
                protocol
                    .handle(self.entry.id(), &message, &self.entry.outbox)
                    .await;
                Ok(())
            }
            Received::Transfer(frame) => {
                let progress = self.files.frame(frame);
                self.file(progress).await
            }
            Received::Binary(header, bytes) => {
                let progress = self.files.binary(header, bytes);
                self.file(progress).await
            }
        }
    }

    async fn message(&mut self, message: ClientMessage) -> Result<(), String> {
        match message.kind {
            ClientMessageType::Heartbeat => self.answer(heartbeat_ok()).await,
            ClientMessageType::Register => {
                return Err(format!(
                    "this connection is registered as '{}' already",
                    self.entry.id()
                ));
            }
            ClientMessageType::Error => {
                let error = message.error.as_deref().unwrap_or_default();
                tracing::info!(
                    client_id = self.entry.id(),
                    error,
                    "a client of AIP reports an error"
                );
            }
            ClientMessageType::CommandResults => self.results(message).await?,
            ClientMessageType::Task => self.task(message).await,
            ClientMessageType::TaskEnd => self.task_end(&message).await?,
            ClientMessageType::DeviceInfoRequest => self.info_request(message).await,
            ClientMessageType::DeviceInfoResponse => DeviceService::take_info(&self.entry, &message)?,
        }
        Ok(())
    }

    async fn answer(&self, message: ServerMessage) {
        // A connection that has ended is seen by the reader.
        let _ = self.entry.outbox.send(message).await;
    }

    async fn results(&mut self, message: ClientMessage) -> Result<(), String> {
        if !self.entry.is_device() {
            return Err("COMMAND_RESULTS is permitted only for device clients".to_owned());
        }
        // The file was for the command that ends here; the next command's files begin anew.
        self.abort_file("the results came before the file was complete")
            .await;
        let id = message.prev_response_id.clone().unwrap_or_default();
        match self.entry.commands.resolve(&id, message) {
            ReplyMatch::Delivered => Ok(()),
            ReplyMatch::Late => {
                tracing::info!(client_id = self.entry.id(), "results of a device come too late");
                Ok(())
            }
            ReplyMatch::Unknown => {
                let id: String = id.chars().take(100).collect();
                Err(format!(
                    "no command of this connection waits for prev_response_id '{id}'"
                ))
            }
        }
    }

    async fn task(&self, message: ClientMessage) {
        match self.service.open_task(&self.entry, &message).await {
            Err(text) => self.answer(error_message(text, message.session_id)).await,
            Ok(open) => {
                let session_id = Some(open.session_id().to_owned());
                self.answer(ServerMessage {
                    session_id,
                    ..heartbeat_ok()
                })
                .await;
                let (service, entry) = (self.service.clone(), Arc::clone(&self.entry));
                self.service.0.tracker.spawn(service.carry_out(entry, open));
            }
        }
    }

    async fn task_end(&self, message: &ClientMessage) -> Result<(), String> {
        let session_id = message.session_id.as_deref().unwrap_or_default();
        match self.service.0.sessions.part_of(session_id, &self.entry) {
            // It has ended already.
            None => {}
            Some(SessionPart::Foreign) => {
                let id: String = session_id.chars().take(100).collect();
                return Err(format!("session_id '{id}' belongs to another client"));
            }
            Some(SessionPart::Executor) => {
                let error = message.error.as_deref();
                self.service
                    .0
                    .hooks
                    .task_note(session_id, message.status, error)
                    .await;
            }
            Some(SessionPart::Owner) => self.service.0.sessions.end(session_id, EndCause::OwnerEnded),
        }
        Ok(())
    }

    /// A device may take its time: the client's other frames do not wait.
    async fn info_request(&self, message: ClientMessage) {
        let permit = Arc::clone(&self.questions).acquire_owned().await;
        let (service, entry) = (self.service.clone(), Arc::clone(&self.entry));
        self.service.0.tracker.spawn(async move {
            let _permit = permit;
            let answered = tokio::select! {
                () = entry.gone.cancelled() => return,
                answered = service.answer_info_request(&entry, &message) => answered,
            };
            let answer = answered.unwrap_or_else(|text| ServerMessage {
                response_id: message.request_id.clone().filter(|id| is_wire_id(id)),
                ..error_message(text, None)
            });
            let _ = entry.outbox.send(answer).await;
        });
    }

    async fn file(&mut self, progress: Result<FileProgress, TransferError>) -> Result<(), String> {
        let hooks = &self.service.0.hooks;
        match progress {
            Ok(progress) => {
                let taken = hooks.file(self.entry.id(), progress).await;
                if taken.is_err() {
                    self.files = FileReceiver::new(self.service.0.settings.max_file);
                }
                taken
            }
            Err(error) => {
                let _ = hooks
                    .file(self.entry.id(), FileProgress::Aborted(error.to_string()))
                    .await;
                Err(error.to_string())
            }
        }
    }

    /// Ends a file that is not complete.
    pub(super) async fn abort_file(&mut self, reason: &str) {
        if self.files.is_open() {
            self.files = FileReceiver::new(self.service.0.settings.max_file);
            let aborted = FileProgress::Aborted(reason.to_owned());
            let _ = self.service.0.hooks.file(self.entry.id(), aborted).await;
        }
    }
}
