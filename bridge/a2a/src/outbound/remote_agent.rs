//! An agent outside as it is spoken to, whichever way: questions in, what it says out.

mod grpc;

use std::{sync::Arc, time::Duration};

use agentanycast_egress::client::{HostClient, HostClients, HttpCall, MAX_ANSWER, from_error, in_utf8, read};
use agentanycast_gateway::is_terminal;
use agentanycast_proto::v1;
use agentanycast_readers::sse::SseReader;
use async_stream::try_stream;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderName, HeaderValue, Uri, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::{
    decode::{self, AgentUpdate, UpdateContent},
    encode::{self, FILES, RemoteCall, without_bom},
    error::{Kind, OutboundError, excerpt},
    interface::{Binding, RemoteInterface},
};
use crate::protocol::{JsonScan, task::write_state, v0_3_protojson, version::Version};

/// How long an agent may take to begin an answer, except to a message.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How long a stream may be silent, in bytes: servers say every 15 s or so that they are there, and some say nothing.
const SILENCE: Duration = Duration::from_mins(5);

/// Most elements of one answer: each takes some hundred bytes in memory.
const MAX_ELEMENTS: usize = 1 << 20;

/// Most errors' text that is read, in bytes.
const MAX_ERROR: usize = 64 << 10;

/// What an agent says, as it says it.
pub(crate) type UpdateStream = BoxStream<'static, Result<AgentUpdate, OutboundError>>;

/// An agent outside.
#[derive(Clone)]
pub(crate) struct RemoteAgent {
    clients: Arc<HostClients>,
    interface: RemoteInterface,
    uri: Uri,
    /// How long it may take to begin an answer to a message.
    within: Duration,
}

impl RemoteAgent {
    /// The one behind this interface.
    pub(crate) fn new(
        clients: Arc<HostClients>,
        interface: RemoteInterface,
        within: Duration,
    ) -> Result<Self, OutboundError> {
        let uri = interface.url.parse();
        let uri =
            uri.map_err(|error| OutboundError::permanent(format!("{:?} is no URL: {error}", interface.url)))?;
        Ok(Self {
            clients,
            interface,
            uri,
            within,
        })
    }

    /// Where it is.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn version(&self) -> Version {
        self.interface.version
    }

    /// Gives it a message; what it answers at once.
    pub(crate) async fn send(&self, ask: RemoteCall) -> Result<AgentUpdate, OutboundError> {
        let answer = self.ask(ask).await?;
        let said = decode::describe(&answer);
        decode::read(self.version(), answer)?.ok_or_else(|| {
            OutboundError::permanent(format!("it answered with neither task nor message, but {said}"))
        })
    }

    /// Shows a task.
    pub(crate) async fn get(&self, id: &str) -> Result<AgentUpdate, OutboundError> {
        let answer = self.ask(RemoteCall::Get { id: id.to_owned() }).await?;
        decode::read_bare_task(self.version(), answer)
    }

    /// Ends a task. Whoever answers that it goes on has not taken that.
    pub(crate) async fn cancel(&self, id: &str) -> Result<(), OutboundError> {
        let answer = self.ask(RemoteCall::Cancel { id: id.to_owned() }).await?;
        match decode::read_bare_task(self.version(), answer) {
            Ok(AgentUpdate {
                content: UpdateContent::Task(task),
                ..
            }) if !is_terminal(task.status()) => {
                let state = write_state(Version::V10, task.status());
                let said = format!("it answered that its task is {state}");
                Err(OutboundError::new(Kind::Refused, said))
            }
            _ => Ok(()),
        }
    }

    /// The newest tasks of a conversation.
    pub(crate) async fn list(&self, context: &str) -> Result<Vec<v1::Task>, OutboundError> {
        if self.version() == Version::V03 {
            return Err(OutboundError::new(
                Kind::Unsupported,
                "agents of 0.3 list no tasks",
            ));
        }
        let mut answer = self
            .ask(RemoteCall::List {
                context: context.to_owned(),
            })
            .await?;
        let Some(Value::Array(tasks)) = answer.get_mut("tasks").map(Value::take) else {
            return Err(OutboundError::permanent("its list of tasks has no tasks"));
        };
        let mut read = Vec::new();
        for task in tasks {
            if let UpdateContent::Task(task) = decode::read_bare_task(self.version(), task)?.content {
                read.push(*task);
            }
        }
        Ok(read)
    }

    /// What it says about a message that it is given, or about a task that it has.
    pub(crate) async fn events(&self, ask: RemoteCall) -> Result<UpdateStream, OutboundError> {
        let version = self.version();
        let answers = if self.interface.binding == Binding::Grpc {
            self.grpc_events(ask).await
        } else {
            self.http_events(ask).await
        };
        // What it is told with this question, it knows by now.
        let mask = self.http().redactor();
        let mut answers = answers.map_err(|fault| mask.error(fault))?;
        let events = try_stream! {
            while let Some(answer) = answers.next().await {
                let mut answer = answer.map_err(|fault| mask.error(fault))?;
                mask.value(&mut answer);
                if let Some(heard) = decode::read(version, answer)? {
                    yield heard;
                }
            }
        };
        Ok(events.boxed())
    }

    fn http(&self) -> &HostClient {
        self.clients.for_uri(&self.uri)
    }

    async fn ask(&self, ask: RemoteCall) -> Result<Value, OutboundError> {
        let answer = if self.interface.binding == Binding::Grpc {
            self.grpc_ask(ask).await
        } else {
            self.http_ask(ask).await
        };
        let mask = self.http().redactor();
        let mut answer = answer.map_err(|fault| mask.error(fault))?;
        mask.value(&mut answer);
        Ok(answer)
    }

    async fn http_ask(&self, ask: RemoteCall) -> Result<Value, OutboundError> {
        let about_task = ask.is_about_a_task();
        let call = self.call(ask)?;
        let (status, body) = self.http().fetch(call, MAX_ANSWER).await?;
        if !status.is_success() {
            return Err(self.fault(status.as_u16(), &body, about_task));
        }
        let answer = encode::unwrap_result(self.interface.binding, parse(&body)?)?;
        Ok(match (self.interface.is_rest_v0_3(), about_task) {
            (false, _) => answer,
            (true, true) => v0_3_protojson::from_task(answer, FILES),
            (true, false) => v0_3_protojson::from_event(answer, FILES),
        })
    }

    /// The failure that an answer with such a status says. REST of 0.3 has no word for a task that is not there.
    fn fault(&self, status: u16, body: &[u8], about_task: bool) -> OutboundError {
        let fault = encode::error_from_status(status, body);
        if self.interface.is_rest_v0_3() && about_task && status == 404 {
            return OutboundError::new(Kind::TaskGone, fault.to_string());
        }
        fault
    }

    async fn http_events(
        &self,
        ask: RemoteCall,
    ) -> Result<BoxStream<'static, Result<Value, OutboundError>>, OutboundError> {
        let binding = self.interface.binding;
        let is_old_rest = self.interface.is_rest_v0_3();
        let about_task = ask.is_about_a_task();
        let response = self.http().open(self.call(ask)?).await?;
        let status = response.status();
        if !status.is_success() {
            let after = retry_after(response.headers().get(header::RETRY_AFTER));
            let (head, body) = response.into_parts();
            let body = in_utf8(&head.headers, read(body, MAX_ERROR).await.unwrap_or_default());
            return Err(self
                .fault(status.as_u16(), &body, about_task)
                .with_retry_after(after));
        }
        let media_type = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        if !media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream")) {
            // What fails before the first event, and what has ended at once, is said whole.
            let body = read(response.into_body(), MAX_ANSWER).await?;
            let answer = encode::unwrap_result(binding, parse(&body)?)?;
            let answer = if is_old_rest {
                v0_3_protojson::from_event(answer, FILES)
            } else {
                answer
            };
            return Ok(futures::stream::once(async { Ok(answer) }).boxed());
        }
        let mut body = response.into_body();
        let events = try_stream! {
            let mut reader = SseReader::new(MAX_ANSWER);
            // An event that nothing is known of does not end a task. It is told if nothing else comes.
            let mut strange = None;
            let mut has_begun = false;
            let mut is_over = false;
            while !is_over {
                let events = if let Some(frame) = unless_silent(body.frame()).await {
                    let frame = frame.map_err(|error| from_error(&*error, false))?;
                    let Ok(data) = frame.into_data() else { continue };
                    reader.take(&data)
                } else {
                    // The last event may lack the empty line behind it; half an event is none.
                    is_over = true;
                    let mut last = reader.finish();
                    last.retain(|event| parse(event).is_ok());
                    Ok(last)
                };
                for event in events.map_err(|error| OutboundError::permanent(error.to_string()))? {
                    if event.is_empty() {
                        continue;
                    }
                    let event = match parse(&event) {
                        Ok(event) => encode::unwrap_event(binding, event),
                        Err(fault) => Err(Ok(fault)),
                    };
                    match event {
                        Ok(event) => {
                            has_begun = true;
                            yield if is_old_rest { v0_3_protojson::from_event(event, FILES) } else { event };
                        }
                        Err(Ok(fault)) => strange = Some(fault),
                        Err(Err(fault)) => Err(fault)?,
                    }
                }
            }
            if let (Some(fault), false) = (strange, has_begun) {
                Err(fault)?;
            }
        };
        Ok(events.boxed())
    }

    fn call(&self, ask: RemoteCall) -> Result<HttpCall, OutboundError> {
        let streams = ask.streams();
        let within = self.patience(&ask);
        let request = ask.request(&self.interface);
        let accept = if streams {
            "text/event-stream, application/json"
        } else {
            "application/json"
        };
        let mut headers = vec![
            (header::ACCEPT, HeaderValue::from_static(accept)),
            (
                HeaderName::from_static("a2a-version"),
                HeaderValue::from_static(self.version().as_str()),
            ),
        ];
        let body = match request.body {
            Some(body) => {
                headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
                serde_json::to_vec(&body)
                    .map_err(|error| OutboundError::permanent(format!("it cannot be asked: {error}")))?
            }
            None => Vec::new(),
        };
        Ok(HttpCall {
            method: request.method,
            url: request.url,
            headers,
            body: Bytes::from(body),
            within,
        })
    }

    /// How long the answer may take to begin.
    fn patience(&self, ask: &RemoteCall) -> Duration {
        match ask {
            RemoteCall::Send { .. } | RemoteCall::Stream { .. } => self.within,
            _ => self.within.min(ANSWER_WITHIN),
        }
    }
}

/// What comes next of a stream. One that is silent for too long is over: whoever heard it looks at the task.
async fn unless_silent<T>(next: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(SILENCE, next).await.unwrap_or_default()
}

/// JSON that is not made to fill the memory.
fn parse(bytes: &[u8]) -> Result<Value, OutboundError> {
    let bytes = without_bom(bytes);
    let scan = JsonScan::new(bytes);
    if scan.values > MAX_ELEMENTS {
        return Err(OutboundError::permanent(format!(
            "its answer has more than {MAX_ELEMENTS} elements"
        )));
    }
    if bytes.is_empty() {
        return Err(OutboundError::permanent("its answer is empty"));
    }
    scan.check_numbers()
        .map_err(|error| OutboundError::permanent(format!("its answer cannot be read: {error}")))?;
    serde_json::from_slice(bytes).map_err(|error| {
        OutboundError::permanent(format!("its answer is no JSON: {error}: {}", excerpt(bytes)))
    })
}

fn retry_after(value: Option<&HeaderValue>) -> Option<Duration> {
    let seconds: u64 = value?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(600)))
}
