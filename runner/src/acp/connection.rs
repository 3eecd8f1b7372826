//! An ACP agent that is kept running: started, initialized, its requests answered, and started again with growing
//! pauses when it has ended.
//!
//! Handlers never wait: what takes time runs in a task of its own, and what is about a turn goes to that turn.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent_client_protocol::{
    Agent, Client, HandleDispatchFrom, Lines, on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            AgentCapabilities, ClientCapabilities, CreateTerminalRequest, CreateTerminalResponse,
            FileSystemCapabilities, Implementation, InitializeRequest, KillTerminalRequest,
            KillTerminalResponse, ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest,
            ReleaseTerminalResponse, SessionId, SessionNotification, TerminalOutputRequest,
            WaitForTerminalExitRequest, WaitForTerminalExitResponse, WriteTextFileRequest,
            WriteTextFileResponse,
        },
    },
};
use agentanycast_daemon_kit::json_lines;
use agentanycast_readers::lines::Piece;
use futures::{SinkExt, Stream};
use serde_json::Value;
use tokio::{
    process::{ChildStdin, ChildStdout},
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::{
    codec::{FramedWrite, LinesCodec, LinesCodecError},
    sync::CancellationToken,
};

use super::{
    files::ConfinedFiles,
    half_parts::HalfParts,
    lines::{Calls, Received, is_of_session},
    permission::PermissionRequest,
    terminals::Terminals,
    turns::Turns,
};
use crate::{
    RunError,
    log_words::said,
    piped_child::PipedChild,
    process::{ProgramCommand, Supervisor},
    program_lines::{LinesError, ProgramLines},
    read_pace::{LogRate, ReadPace},
    restart_pause::RestartPause,
    stoppable_task::StoppableTask,
};

/// How long an agent may take to answer the first request: programs such as `npx` fetch a package before they start.
const START_WITHIN: Duration = Duration::from_mins(2);

/// Room of a line besides the bytes of a result: base64 and the rest of the message.
const LINE_BESIDES: usize = 1 << 20;

/// What an update costs besides its texts, in bytes.
const UPDATE_COST: usize = 256;

/// What the runner offers to an agent.
#[derive(Clone)]
pub(super) struct AgentOffer {
    pub(super) files: ConfinedFiles,
    /// Whether commands are run for it.
    pub(super) terminal: bool,
    pub(super) turns: Arc<Turns>,
    /// Starts the agent and its commands.
    pub(super) supervisor: Arc<Supervisor>,
    /// Longest result, in bytes.
    pub(super) max_output: usize,
}

/// An agent as it is now.
#[derive(Clone)]
pub(super) enum AgentState {
    /// Nothing is known yet.
    Starting,
    /// It answers.
    Up(Arc<UpAgent>),
    /// It does not, for this reason; it is started again after a while.
    Down(RunError),
}

/// An agent that answers.
pub(super) struct UpAgent {
    pub(super) connection: ConnectionTo<Agent>,
    pub(super) capabilities: AgentCapabilities,
    /// Which start of the agent this is, from 1.
    pub(super) start: u64,
}

/// An agent that is kept running until it is stopped or dropped.
pub(super) struct KeptAgent {
    pub(super) state: watch::Receiver<AgentState>,
    keeper: StoppableTask,
}

impl KeptAgent {
    /// Starts it.
    pub(super) fn start(command: ProgramCommand, offer: AgentOffer) -> Self {
        let (sender, state) = watch::channel(AgentState::Starting);
        let stop = CancellationToken::new();
        let keeper = AgentKeeper {
            command,
            offer,
            state: sender,
            stop: stop.clone(),
        };
        Self {
            state,
            keeper: StoppableTask::spawn(stop, keeper.keep()),
        }
    }

    /// Ends it, and waits for its end.
    pub(super) async fn stop(&self) {
        self.keeper.stop().await;
    }
}

struct AgentKeeper {
    command: ProgramCommand,
    offer: AgentOffer,
    state: watch::Sender<AgentState>,
    stop: CancellationToken,
}

impl AgentKeeper {
    async fn keep(self) {
        let mut pause = RestartPause::default();
        let shown = self.command.to_string();
        let mut start = 0;
        while !self.stop.is_cancelled() {
            let began = Instant::now();
            start += 1;
            let reason = self.serve(start).await;
            if self.stop.is_cancelled() {
                break;
            }
            let pause = pause.after_error(&reason, began.elapsed());
            tracing::warn!(
                agent = shown,
                reason = reason.for_log(),
                ?pause,
                "an ACP agent has ended and is started again"
            );
            self.state.send_replace(AgentState::Down(reason));
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.state
            .send_replace(AgentState::Down(RunError::plain("the agent was stopped")));
    }

    /// Runs the agent once; the reason of its end.
    async fn serve(&self, start: u64) -> RunError {
        let (mut child, stdin, stdout) = match PipedChild::start(&self.offer.supervisor, &self.command) {
            Ok(started) => started,
            Err(reason) => return reason,
        };
        let reason = self.speak(start, stdin, stdout).await;
        child.stop_failed(&reason).await
    }

    /// Speaks with an agent that was started, until one of both ends; why.
    async fn speak(&self, start: u64, stdin: ChildStdin, stdout: ChildStdout) -> String {
        let longest = self.offer.max_output.saturating_mul(3) / 2 + LINE_BESIDES;
        let heard = Arc::new(Mutex::new(HeardLines::default()));
        let turns = Arc::clone(&self.offer.turns);
        let doubt = move |message: &Value| {
            let session = message["params"]["sessionId"].as_str().unwrap_or_default();
            if message.as_object().is_some_and(|one| is_of_session(one, session)) {
                turns.doubt(&SessionId::new(session));
            }
        };
        let incoming = ReceivedLines {
            lines: ProgramLines::new(stdout, longest).telling(doubt),
            turns: Arc::clone(&self.offer.turns),
            heard: Arc::clone(&heard),
            agent: self.command.to_string(),
            ready: VecDeque::new(),
            held: Vec::new(),
            warnings: LogRate::new(1),
            pace: ReadPace::new(),
        };
        let incoming = incoming.into_stream();
        let outgoing = SinkExt::<String>::sink_map_err(FramedWrite::new(stdin, LinesCodec::new()), io_error);
        // Some readers of lines end one at characters that JSON allows raw.
        let outgoing = outgoing.with(move |line: String| {
            heard.lock().unwrap_or_else(PoisonError::into_inner).sent(&line);
            std::future::ready(Ok::<_, std::io::Error>(json_lines::escape(&line).into_owned()))
        });
        let lines = Lines::new(outgoing, incoming);
        let terminals = Arc::new(Terminals::new(
            Arc::clone(&self.offer.supervisor),
            self.command.env.clone(),
        ));
        let (state, stop, terminal) = (self.state.clone(), self.stop.clone(), self.offer.terminal);
        let ended = builder(self.offer.clone(), &terminals)
            .connect_with(lines, async move |connection: ConnectionTo<Agent>| {
                let initialize = tokio::select! {
                    () = stop.cancelled() => return Ok(String::new()),
                    answer = timeout(START_WITHIN, initialize(&connection, terminal)) => answer,
                };
                let capabilities = match initialize {
                    Ok(Ok(capabilities)) => capabilities,
                    Ok(Err(reason)) => return Ok(reason),
                    Err(_) => return Ok(format!("the agent did not answer within {START_WITHIN:?}")),
                };
                state.send_replace(AgentState::Up(Arc::new(UpAgent {
                    connection: connection.clone(),
                    capabilities,
                    start,
                })));
                tokio::select! {
                    () = stop.cancelled() => Ok(String::new()),
                    () = connection.incoming_closed() => Ok("the agent ended".to_owned()),
                }
            })
            .await;
        ended.unwrap_or_else(|error| format!("the connection to the agent failed: {error}"))
    }
}

/// What is known of the lines of an agent that have come.
#[derive(Default)]
struct HeardLines {
    halves: HalfParts,
    calls: Calls,
}

impl HeardLines {
    fn sent(&mut self, line: &str) {
        self.halves.sent(line);
        self.calls.sent(line);
    }

    /// Takes a piece of what the agent writes; `None`: its end.
    fn received(&mut self, piece: Option<Piece>) -> Received {
        let pieces = match piece {
            Some(piece) => self.halves.take(piece),
            None => self.halves.finish(),
        };
        let mut all = Received::default();
        for piece in &pieces {
            all.add(self.calls.received(piece));
        }
        all
    }
}

/// The lines of an agent as the library reads them.
struct ReceivedLines {
    lines: ProgramLines<ChildStdout>,
    turns: Arc<Turns>,
    heard: Arc<Mutex<HeardLines>>,
    agent: String,
    ready: VecDeque<String>,
    /// Answers to prompts, with the sessions of these.
    held: Vec<(String, Piece)>,
    warnings: LogRate,
    pace: ReadPace,
}

impl ReceivedLines {
    fn into_stream(self) -> impl Stream<Item = std::io::Result<String>> {
        futures::stream::unfold(self, async |mut received| {
            let line = received.next().await.transpose()?;
            Some((line, received))
        })
    }

    /// The next piece. The answer to a prompt waits until it is known whether what the agent wrote behind other text is a
    /// part of the same turn.
    async fn next_piece(&mut self) -> Result<Option<Piece>, LinesError> {
        loop {
            let is_free = |(session, _): &(String, Piece)| !self.is_doubted(session);
            if let Some(at) = self.held.iter().position(is_free) {
                return Ok(Some(self.held.remove(at).1));
            }
            let Some(piece) = self.lines.next().await? else {
                return Ok(self.held.pop().map(|(_, piece)| piece));
            };
            let session = self.answered_session(&piece);
            let Some(session) = session.filter(|session| self.is_doubted(session)) else {
                return Ok(Some(piece));
            };
            self.held.push((session, piece));
        }
    }

    /// The session of the prompt that this piece answers, if a message behind other text waits.
    fn answered_session(&self, piece: &Piece) -> Option<String> {
        let has_doubts = self.lines.has_doubt(|_| true);
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        has_doubts.then(|| heard.calls.answered_session(piece)).flatten()
    }

    /// Whether a message behind other text waits that is of this session.
    fn is_doubted(&self, session: &str) -> bool {
        let is_of = |message: &Value| message.as_object().is_some_and(|one| is_of_session(one, session));
        self.lines.has_doubt(is_of)
    }

    async fn next(&mut self) -> std::io::Result<Option<String>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            let piece = match self.next_piece().await {
                Ok(piece) => piece,
                Err(LinesError::Io(error)) => return Err(error),
                Err(error @ LinesError::TooLong(_)) => return Err(std::io::Error::other(error)),
            };
            let length = piece.as_ref().map(|piece| piece.text().len());
            let received = {
                let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.received(piece)
            };
            self.ready.extend(received.lines);
            for (session, reason) in received.late {
                self.turns.unread(&SessionId::new(session), reason);
            }
            let Some(length) = length else {
                return Ok(self.ready.pop_front());
            };
            if let Some(warning) = received.warning {
                if let Some(left_out) = self.warnings.next() {
                    tracing::warn!(
                        agent = self.agent,
                        warning = said(&warning),
                        left_out,
                        "a line of an ACP agent is not understood"
                    );
                }
                self.pace.after(length).await;
            }
        }
    }
}

fn io_error(error: LinesCodecError) -> std::io::Error {
    match error {
        LinesCodecError::Io(error) => error,
        error @ LinesCodecError::MaxLineLengthExceeded => std::io::Error::other(error),
    }
}

/// Agrees with an agent on a version, and on what both can.
async fn initialize(connection: &ConnectionTo<Agent>, terminal: bool) -> Result<AgentCapabilities, String> {
    let files = FileSystemCapabilities::new()
        .read_text_file(true)
        .write_text_file(true);
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new().fs(files).terminal(terminal))
        .client_info(Implementation::new("agentanycast", env!("CARGO_PKG_VERSION")));
    let answer = connection.send_request(request).block_task().await;
    let answer = answer.map_err(|error| format!("the agent cannot be initialized: {error}"))?;
    if answer.protocol_version != ProtocolVersion::V1 {
        return Err(format!(
            "the agent speaks version {:?} of the Agent Client Protocol, and the runner version 1",
            answer.protocol_version
        ));
    }
    Ok(answer.agent_capabilities)
}

/// An error that the agent is told.
fn refused(reason: String) -> agent_client_protocol::Error {
    agent_client_protocol::Error::invalid_params().data(reason)
}

fn no_terminals() -> agent_client_protocol::Error {
    agent_client_protocol::Error::method_not_found().data("terminals are not offered (--terminal)".to_owned())
}

/// The answers to what an agent sends of its own accord.
fn builder(
    offer: AgentOffer,
    terminals: &Arc<Terminals>,
) -> agent_client_protocol::v1::Builder<Client, impl HandleDispatchFrom<Agent>> {
    let AgentOffer {
        files,
        terminal,
        turns,
        ..
    } = offer;
    let updates = Arc::clone(&turns);
    let (to_read, to_write) = (files.clone(), files.clone());
    let builder = Client
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _| {
                let size = update_size(&update);
                updates.update(&update.session_id, update.update, size);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: PermissionRequest, responder, _| {
                if let Some((_, responder)) = turns.permission((request, responder), UPDATE_COST) {
                    responder.respond_with_error(refused("no prompt runs in this session".to_owned()))?;
                }
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _| {
                let files = to_read.clone();
                tokio::task::spawn_blocking(move || {
                    let text = files.read(&request.path, request.line, request.limit);
                    responder.respond_with_result(text.map(ReadTextFileResponse::new).map_err(refused))
                });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WriteTextFileRequest, responder, _| {
                let files = to_write.clone();
                tokio::task::spawn_blocking(move || {
                    let written = files.write(&request.path, &request.content);
                    responder
                        .respond_with_result(written.map(|()| WriteTextFileResponse::new()).map_err(refused))
                });
                Ok(())
            },
            on_receive_request!(),
        );
    with_terminals(builder, files, terminal, terminals)
}

/// The answers to what an agent sends about commands that it runs through the runner.
fn with_terminals(
    builder: agent_client_protocol::v1::Builder<Client, impl HandleDispatchFrom<Agent>>,
    files: ConfinedFiles,
    is_offered: bool,
    terminals: &Arc<Terminals>,
) -> agent_client_protocol::v1::Builder<Client, impl HandleDispatchFrom<Agent>> {
    let [made, shown, awaited, killed, released] = std::array::from_fn(|_| Arc::clone(terminals));
    let folder = move |path: Option<&PathBuf>| files.folder(path.map(PathBuf::as_path));
    builder
        .on_receive_request(
            async move |request: CreateTerminalRequest, responder, _| {
                if !is_offered {
                    return responder.respond_with_error(no_terminals());
                }
                let made = folder(request.cwd.as_ref()).and_then(|cwd| made.create(&request, cwd));
                responder.respond_with_result(made.map(CreateTerminalResponse::new).map_err(refused))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: TerminalOutputRequest, responder, _| {
                responder.respond_with_result(shown.output(&request.terminal_id).map_err(refused))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WaitForTerminalExitRequest, responder, _| {
                let terminals = Arc::clone(&awaited);
                tokio::spawn(async move {
                    let exit = terminals.wait(&request.terminal_id).await;
                    responder.respond_with_result(exit.map(WaitForTerminalExitResponse::new).map_err(refused))
                });
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: KillTerminalRequest, responder, _| {
                let killed = killed.kill(&request.terminal_id);
                responder.respond_with_result(killed.map(|()| KillTerminalResponse::new()).map_err(refused))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReleaseTerminalRequest, responder, _| {
                let released = released.release(&request.terminal_id);
                responder
                    .respond_with_result(released.map(|()| ReleaseTerminalResponse::new()).map_err(refused))
            },
            on_receive_request!(),
        )
}

/// The bytes of an update, nearly.
fn update_size(update: &SessionNotification) -> usize {
    let mut counted = CountedBytes(UPDATE_COST);
    // Counting cannot fail, and a size that is too small is bounded by the line that it came in.
    let _ = serde_json::to_writer(&mut counted, &update.update);
    counted.0
}

/// Counts what is written.
struct CountedBytes(usize);

impl std::io::Write for CountedBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
