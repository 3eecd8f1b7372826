//! An agent outside as it is spoken to, whichever way: questions in, what it says out.

mod grpc;
mod grpc_old;

use std::{sync::Arc, time::Duration};

use agentanycast_proto::v1;
use async_stream::try_stream;
use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderName, HeaderValue, Uri, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::{
    binding::{self, Ask, FILES, without_bom},
    choice::{Binding, Interface},
    fault::{Fault, Kind, excerpt},
    heard::{self, Heard, What},
    http::{Call, Clients, Http, MAX_ANSWER, of_error, read},
    sse,
};
use crate::{
    a2a::{Scan, old, task::write_state, version::Version},
    gateway::is_terminal,
};

/// How long an agent may take to begin an answer, except to a message.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How long a stream may be silent, in bytes: servers say every 15 s or so that they are there, and some say nothing.
const SILENCE: Duration = Duration::from_mins(5);

/// Most elements of one answer: each takes some hundred bytes in memory.
const MAX_ELEMENTS: usize = 1 << 20;

/// Most errors' text that is read, in bytes.
const MAX_ERROR: usize = 64 << 10;

/// What an agent says, as it says it.
pub(crate) type Events = BoxStream<'static, Result<Heard, Fault>>;

/// An agent outside.
#[derive(Clone)]
pub(crate) struct Remote {
    clients: Arc<Clients>,
    interface: Interface,
    uri: Uri,
    /// How long it may take to begin an answer to a message.
    within: Duration,
}

impl Remote {
    /// The one behind this interface.
    pub(crate) fn new(clients: Arc<Clients>, interface: Interface, within: Duration) -> Result<Self, Fault> {
        let uri = interface.url.parse();
        let uri = uri.map_err(|error| Fault::last(format!("{:?} is no URL: {error}", interface.url)))?;
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
    pub(crate) async fn send(&self, ask: Ask) -> Result<Heard, Fault> {
        let answer = self.ask(ask).await?;
        let said = heard::described(&answer);
        heard::read(self.version(), answer)?
            .ok_or_else(|| Fault::last(format!("it answered with neither task nor message, but {said}")))
    }

    /// Shows a task.
    pub(crate) async fn get(&self, id: &str) -> Result<Heard, Fault> {
        let answer = self.ask(Ask::Get { id: id.to_owned() }).await?;
        heard::read_bare_task(self.version(), answer)
    }

    /// Ends a task. Whoever answers that it goes on has not taken that.
    pub(crate) async fn cancel(&self, id: &str) -> Result<(), Fault> {
        let answer = self.ask(Ask::Cancel { id: id.to_owned() }).await?;
        match heard::read_bare_task(self.version(), answer) {
            Ok(Heard {
                what: What::Task(task),
                ..
            }) if !is_terminal(task.status()) => {
                let state = write_state(Version::V10, task.status());
                let said = format!("it answered that its task is {state}");
                Err(Fault::new(Kind::Refused, said))
            }
            _ => Ok(()),
        }
    }

    /// The newest tasks of a conversation.
    pub(crate) async fn list(&self, context: &str) -> Result<Vec<v1::Task>, Fault> {
        if self.version() == Version::V03 {
            return Err(Fault::new(Kind::Unsupported, "agents of 0.3 list no tasks"));
        }
        let mut answer = self
            .ask(Ask::List {
                context: context.to_owned(),
            })
            .await?;
        let Some(Value::Array(tasks)) = answer.get_mut("tasks").map(Value::take) else {
            return Err(Fault::last("its list of tasks has no tasks"));
        };
        let mut read = Vec::new();
        for task in tasks {
            if let What::Task(task) = heard::read_bare_task(self.version(), task)?.what {
                read.push(*task);
            }
        }
        Ok(read)
    }

    /// What it says about a message that it is given, or about a task that it has.
    pub(crate) async fn events(&self, ask: Ask) -> Result<Events, Fault> {
        let version = self.version();
        let answers = if self.interface.binding == Binding::Grpc {
            self.grpc_events(ask).await
        } else {
            self.http_events(ask).await
        };
        // What it is told with this question, it knows by now.
        let mask = self.http().mask();
        let mut answers = answers.map_err(|fault| mask.fault(fault))?;
        let events = try_stream! {
            while let Some(answer) = answers.next().await {
                let mut answer = answer.map_err(|fault| mask.fault(fault))?;
                mask.value(&mut answer);
                if let Some(heard) = heard::read(version, answer)? {
                    yield heard;
                }
            }
        };
        Ok(events.boxed())
    }

    fn http(&self) -> &Http {
        self.clients.of(&self.uri)
    }

    async fn ask(&self, ask: Ask) -> Result<Value, Fault> {
        let answer = if self.interface.binding == Binding::Grpc {
            self.grpc_ask(ask).await
        } else {
            self.http_ask(ask).await
        };
        let mask = self.http().mask();
        let mut answer = answer.map_err(|fault| mask.fault(fault))?;
        mask.value(&mut answer);
        Ok(answer)
    }

    async fn http_ask(&self, ask: Ask) -> Result<Value, Fault> {
        let about_task = ask.is_about_a_task();
        let call = self.call(ask)?;
        let (status, body) = self.http().whole(call, MAX_ANSWER).await?;
        if !status.is_success() {
            return Err(self.fault(status.as_u16(), &body, about_task));
        }
        let answer = binding::open(self.interface.binding, parse(&body)?)?;
        Ok(match (self.interface.is_old_rest(), about_task) {
            (false, _) => answer,
            (true, true) => old::from_task(answer, FILES),
            (true, false) => old::from_event(answer, FILES),
        })
    }

    /// The failure that an answer with such a status says. REST of 0.3 has no word for a task that is not there.
    fn fault(&self, status: u16, body: &[u8], about_task: bool) -> Fault {
        let fault = binding::fault_of_status(status, body);
        if self.interface.is_old_rest() && about_task && status == 404 {
            return Fault::new(Kind::TaskGone, fault.to_string());
        }
        fault
    }

    async fn http_events(&self, ask: Ask) -> Result<BoxStream<'static, Result<Value, Fault>>, Fault> {
        let binding = self.interface.binding;
        let is_old_rest = self.interface.is_old_rest();
        let about_task = ask.is_about_a_task();
        let response = self.http().open(self.call(ask)?).await?;
        let status = response.status();
        if !status.is_success() {
            let after = retry_after(response.headers().get(header::RETRY_AFTER));
            let body = read(response.into_body(), MAX_ERROR).await.unwrap_or_default();
            return Err(self.fault(status.as_u16(), &body, about_task).asking_for(after));
        }
        let media_type = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        if !media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream")) {
            // What fails before the first event, and what has ended at once, is said whole.
            let body = read(response.into_body(), MAX_ANSWER).await?;
            let answer = binding::open(binding, parse(&body)?)?;
            let answer = if is_old_rest {
                old::from_event(answer, FILES)
            } else {
                answer
            };
            return Ok(futures::stream::once(async { Ok(answer) }).boxed());
        }
        let mut body = response.into_body();
        let events = try_stream! {
            let mut reader = sse::Reader::default();
            // An event that nothing is known of does not end a task. It is told if nothing else comes.
            let mut strange = None;
            let mut has_begun = false;
            while let Some(frame) = unless_silent(body.frame()).await {
                let frame = frame.map_err(|error| of_error(&*error, false))?;
                let Ok(data) = frame.into_data() else { continue };
                for event in reader.take(&data)? {
                    if event.is_empty() {
                        continue;
                    }
                    let event = match parse(&event) {
                        Ok(event) => binding::event(binding, event),
                        Err(fault) => Err(Ok(fault)),
                    };
                    match event {
                        Ok(event) => {
                            has_begun = true;
                            yield if is_old_rest { old::from_event(event, FILES) } else { event };
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

    fn call(&self, ask: Ask) -> Result<Call, Fault> {
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
                    .map_err(|error| Fault::last(format!("it cannot be asked: {error}")))?
            }
            None => Vec::new(),
        };
        Ok(Call {
            method: request.method,
            url: request.url,
            headers,
            body: Bytes::from(body),
            within,
        })
    }

    /// How long the answer may take to begin.
    fn patience(&self, ask: &Ask) -> Duration {
        match ask {
            Ask::Send { .. } | Ask::Stream { .. } => self.within,
            _ => self.within.min(ANSWER_WITHIN),
        }
    }
}

/// What comes next of a stream. One that is silent for too long is over: whoever heard it looks at the task.
async fn unless_silent<T>(next: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(SILENCE, next).await.unwrap_or_default()
}

/// JSON that is not made to fill the memory.
fn parse(bytes: &[u8]) -> Result<Value, Fault> {
    let bytes = without_bom(bytes);
    let scan = Scan::of(bytes);
    if scan.values > MAX_ELEMENTS {
        return Err(Fault::last(format!(
            "its answer has more than {MAX_ELEMENTS} elements"
        )));
    }
    if bytes.is_empty() {
        return Err(Fault::last("its answer is empty"));
    }
    scan.check_numbers()
        .map_err(|error| Fault::last(format!("its answer cannot be read: {error}")))?;
    serde_json::from_slice(bytes)
        .map_err(|error| Fault::last(format!("its answer is no JSON: {error}: {}", excerpt(bytes))))
}

fn retry_after(value: Option<&HeaderValue>) -> Option<Duration> {
    let seconds: u64 = value?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(600)))
}
