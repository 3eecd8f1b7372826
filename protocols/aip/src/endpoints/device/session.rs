//! One connection of a device: from its registration until it is lost.

use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{ClientError, DeviceClient, DeviceState, info_message};
use crate::{
    endpoints::error::register,
    messages::{
        ClientMessage, ClientMessageType, CommandResult, CommandStatus, JsonObject, MessageStatus,
        ServerMessage, ServerMessageType, timestamp_now,
    },
    protocol::{
        AnyMessage, BatchContext, Connection, FileProgress, FileReceiver, MOST_PENDING, Outbox,
        ProtocolError, Received, run_batch,
    },
    resilience::ReconnectSchedule,
};

impl DeviceClient {
    /// Connects, registers and executes commands until the connection is lost.
    pub(super) async fn one_connection(&self, schedule: &mut ReconnectSchedule) -> Result<(), ClientError> {
        self.state.send_replace(DeviceState::Connecting);
        let transport = self.connector.connect().await?;
        self.state.send_replace(DeviceState::Registering);
        let mut connection = Connection::new(self.protocol.clone(), transport);
        register(&mut connection, &self.settings.registration()).await?;
        schedule.connected(tokio::time::Instant::now());
        let outbox = connection.outbox().clone();
        self.outbox.send_replace(Some(outbox.clone()));
        self.state.send_replace(DeviceState::Idle);
        tracing::info!(client_id = self.settings.client_id, "a device is registered");
        let (batches, waiting) = mpsc::channel(MOST_PENDING);
        // Either ends both: what a lost connection asked for is not executed any further.
        tokio::select! {
            ended = self.receive(&mut connection, &batches) => ended,
            () = self.execute(waiting, &outbox) => Ok(()),
            () = self.beat(&outbox) => Ok(()),
        }
    }

    async fn beat(&self, outbox: &Outbox) {
        let mut ticks = interval(self.settings.heartbeat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let mut metadata = JsonObject::new();
            metadata.insert("device_id".to_owned(), self.settings.client_id.clone().into());
            let message = ClientMessage {
                metadata: Some(metadata),
                ..self.message(ClientMessageType::Heartbeat, MessageStatus::Ok)
            };
            if outbox.send(message).await.is_err() {
                return;
            }
        }
    }

    fn message(&self, kind: ClientMessageType, status: MessageStatus) -> ClientMessage {
        ClientMessage {
            client_id: Some(self.settings.client_id.clone()),
            timestamp: Some(timestamp_now()),
            ..ClientMessage::new(kind, status)
        }
    }

    async fn receive(
        &self,
        connection: &mut Connection,
        batches: &mpsc::Sender<ServerMessage>,
    ) -> Result<(), ClientError> {
        let outbox = connection.outbox().clone();
        let mut files = FileReceiver::new(self.settings.max_file);
        let ended = loop {
            let Some(frame) = connection.next().await else {
                break Ok(());
            };
            let progress = match frame {
                Ok(Received::Message(message)) => {
                    self.protocol
                        .handle_message(&self.settings.client_id, &message, &outbox)
                        .await;
                    if let AnyMessage::Server(message) = message {
                        self.server_message(message, batches, &outbox).await;
                    }
                    continue;
                }
                Ok(Received::Custom(message)) => {
                    self.protocol
                        .handle(&self.settings.client_id, &message, &outbox)
                        .await;
                    continue;
                }
                Ok(Received::Transfer(frame)) => files.frame(frame),
                Ok(Received::Binary(header, bytes)) => files.binary(header, bytes),
                Err(error @ ProtocolError::Transport(_)) => break Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "a frame of the service is not understood");
                    self.say(&outbox, error.to_string()).await;
                    continue;
                }
            };
            let refused = match progress {
                Ok(progress) => self.file(progress).await.err(),
                Err(error) => {
                    let _ = self.file(FileProgress::Aborted(error.to_string())).await;
                    Some(error.to_string())
                }
            };
            if let Some(text) = refused {
                files = FileReceiver::new(self.settings.max_file);
                self.say(&outbox, text).await;
            }
        };
        if files.is_open() {
            let _ = self
                .file(FileProgress::Aborted("the connection has ended".to_owned()))
                .await;
        }
        ended
    }

    async fn file(&self, progress: FileProgress) -> Result<(), String> {
        match &self.files {
            Some(sink) => sink.file(progress).await,
            None => Err("files are not taken here".to_owned()),
        }
    }

    /// Tells the service about an error.
    async fn say(&self, outbox: &Outbox, error: String) {
        let message = ClientMessage {
            error: Some(error),
            ..self.message(ClientMessageType::Error, MessageStatus::Error)
        };
        let _ = outbox.send(message).await;
    }

    async fn server_message(
        &self,
        message: ServerMessage,
        batches: &mpsc::Sender<ServerMessage>,
        outbox: &Outbox,
    ) {
        match message.kind {
            // One that could not be read.
            ServerMessageType::Command if message.actions.is_none() && message.error.is_some() => {
                let error = message.error.clone();
                let _ = outbox.send(self.results(&message, None, error)).await;
            }
            ServerMessageType::Command => {
                if let Err(refused) = batches.try_send(message) {
                    let refused = refused.into_inner();
                    let error = format!("{MOST_PENDING} batches wait already; send this one later");
                    let _ = outbox.send(self.results(&refused, None, Some(error))).await;
                }
            }
            ServerMessageType::Task => {
                // The service plans: the device asks it to.
                let message = ClientMessage {
                    request: message.user_request,
                    task_name: message.task_name,
                    request_id: Some(uuid::Uuid::new_v4().to_string()),
                    ..self.message(ClientMessageType::Task, MessageStatus::Continue)
                };
                let _ = outbox.send(message).await;
            }
            ServerMessageType::DeviceInfoRequest => {
                let (id, info) = (&self.settings.client_id, &self.settings.system_info);
                let _ = outbox.send(info_message(id, info, message.response_id)).await;
            }
            ServerMessageType::Error => {
                let error = message.error.unwrap_or_default();
                tracing::warn!(
                    client_id = self.settings.client_id,
                    error,
                    "the service reports an error"
                );
            }
            ServerMessageType::Heartbeat
            | ServerMessageType::TaskEnd
            | ServerMessageType::DeviceInfoResponse => {}
        }
    }

    async fn execute(&self, mut waiting: mpsc::Receiver<ServerMessage>, outbox: &Outbox) {
        while let Some(mut message) = waiting.recv().await {
            self.state.send_replace(DeviceState::Busy);
            let actions = message.actions.take().unwrap_or_default();
            let context = BatchContext {
                session_id: message.session_id.clone(),
                agent_name: message.agent_name.clone(),
                process_name: message.process_name.clone(),
                root_name: message.root_name.clone(),
            };
            let results = run_batch(&*self.executor, &context, &actions).await;
            self.state.send_replace(DeviceState::Idle);
            let answer = self.results(&message, Some(results), None);
            match outbox.send(answer).await {
                Ok(()) => {}
                Err(ProtocolError::Transport(_)) => return,
                Err(error) => {
                    // Results that are too large for a message are failures that say so.
                    let failed = |command| CommandResult {
                        error: Some(format!("the results cannot be sent: {error}")),
                        ..CommandResult::of(command, CommandStatus::Failure)
                    };
                    let results = actions.iter().map(failed).collect();
                    if outbox
                        .send(self.results(&message, Some(results), None))
                        .await
                        .is_err()
                    {
                        return;
                    }
                }
            }
        }
    }

    /// The answer to a COMMAND.
    fn results(
        &self,
        command: &ServerMessage,
        results: Option<Vec<CommandResult>>,
        error: Option<String>,
    ) -> ClientMessage {
        let status = if error.is_some() {
            MessageStatus::Error
        } else {
            MessageStatus::Continue
        };
        ClientMessage {
            session_id: command.session_id.clone(),
            task_name: command.task_name.clone(),
            prev_response_id: command.response_id.clone(),
            request_id: Some(uuid::Uuid::new_v4().to_string()),
            action_results: results,
            error,
            ..self.message(ClientMessageType::CommandResults, status)
        }
    }
}
