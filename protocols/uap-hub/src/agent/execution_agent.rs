//! The library for execution agents: a handler for each type of test and each format that is translated to,
//! and all else done. Programs use it; it is a [`SessionRunner`] on a [`HubConnection`].
//!
//! Handlers need not look at types: a proposal without a handler is refused before.

use std::{
    collections::BTreeMap, error::Error as StdError, fmt, num::NonZeroUsize, sync::Arc, time::Duration,
};

use async_trait::async_trait;

use super::{
    connection::{HubConnection, SessionRunner},
    endpoint::HubEndpoint,
    error::{HubError, chain},
    proposal::{Domain, Proposal},
    session::AgentSession,
    session_end::SessionEnd,
};
use crate::v1::{
    AgentRegistration, Capability, PayloadRequirement, TestCapability, TranslationCapability, capability,
};

/// Any error. A handler that gives one ends its session as FAILED, with the error's text and what it comes
/// from.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Carries out the sessions of one type. A function `async fn(AgentSession) -> Result<SessionEnd, BoxError>`
/// is one.
#[async_trait]
pub trait SessionHandler: Send + Sync + 'static {
    /// Carries `session` out. It may return early, with anything, once `session.cancelled` fires. Must not
    /// block its thread: `tokio::task::spawn_blocking` is for what does.
    ///
    /// # Errors
    /// When it failed, which the hub is told as FAILED. What cannot be carried out with its payloads is
    /// [`SessionEnd::invalid`].
    async fn carry_out(&self, session: AgentSession) -> Result<SessionEnd, BoxError>;
}

#[async_trait]
impl<F, R> SessionHandler for F
where
    F: Fn(AgentSession) -> R + Send + Sync + 'static,
    R: Future<Output = Result<SessionEnd, BoxError>> + Send,
{
    async fn carry_out(&self, session: AgentSession) -> Result<SessionEnd, BoxError> {
        self(session).await
    }
}

/// An execution agent.
///
/// ```no_run
/// use agentanycast_uap_hub::{
///     agent::{AgentSession, BoxError, ExecutionAgent, SessionEnd},
///     v1::{PayloadRequirement, Severity, StepReport},
/// };
/// use tokio_util::sync::CancellationToken;
///
/// async fn count_lines(session: AgentSession) -> Result<SessionEnd, BoxError> {
///     let mut end = SessionEnd::completed();
///     for payload in &session.payloads {
///         let Some(file) = &payload.attachment else {
///             return Ok(SessionEnd::invalid("a payload has no attachment"));
///         };
///         session.progress.running(format!("reads {}", file.name)).await?;
///         let lines = std::str::from_utf8(&file.data)?.lines().count();
///         session.progress.log(Severity::Info, format!("{lines} lines")).await?;
///         end = end.with_report(StepReport::passed(&file.name));
///     }
///     Ok(end)
/// }
///
/// # async fn run() -> Result<(), BoxError> {
/// let stop = CancellationToken::new();
/// ExecutionAgent::new("line counter")
///     .test("count-lines", [PayloadRequirement::required("file").repeatable()], count_lines)
///     .run("http://hub:50061", stop.cancelled())
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct ExecutionAgent {
    name: String,
    slots: NonZeroUsize,
    drain: Option<Duration>,
    processors: BTreeMap<(Domain, String), Processor>,
}

struct Processor {
    capability: Capability,
    handler: Arc<dyn SessionHandler>,
}

impl ExecutionAgent {
    /// An agent that people know as `name`. It can do nothing yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            slots: NonZeroUsize::MIN,
            drain: None,
            processors: BTreeMap::new(),
        }
    }

    /// The agent runs tests of the type `kind`, which take `payloads`. An earlier handler of the type is
    /// replaced.
    #[must_use]
    pub fn test(
        self,
        kind: impl Into<String>,
        payloads: impl IntoIterator<Item = PayloadRequirement>,
        handler: impl SessionHandler,
    ) -> Self {
        let kind = kind.into();
        let format = capability::Format::Test(TestCapability {
            r#type: kind.clone(),
            payloads: payloads.into_iter().collect(),
        });
        self.with(Domain::Test, kind, format, handler)
    }

    /// The agent translates `sources` to the format `target`, as `targets`. An earlier handler of the format
    /// is replaced.
    #[must_use]
    pub fn translation(
        self,
        target: impl Into<String>,
        sources: impl IntoIterator<Item = PayloadRequirement>,
        targets: impl IntoIterator<Item = PayloadRequirement>,
        handler: impl SessionHandler,
    ) -> Self {
        let target = target.into();
        let format = capability::Format::Translation(TranslationCapability {
            r#type: target.clone(),
            source_payloads: sources.into_iter().collect(),
            target_payloads: targets.into_iter().collect(),
        });
        self.with(Domain::Translation, target, format, handler)
    }

    /// The agent carries out up to `slots` sessions at a time; without this, one.
    #[must_use]
    pub fn slots(mut self, slots: NonZeroUsize) -> Self {
        self.slots = slots;
        self
    }

    /// Sessions may go on for `drain` once the agent stops; without this, 10 s. Those that are left are
    /// cancelled.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = Some(drain);
        self
    }

    /// Works for the hub at `hub`, a URL or a [`HubEndpoint`], until `stop` resolves. A hub that cannot be
    /// reached is tried again, after 1 s, 2 s, 4 s and so on up to 60 s.
    ///
    /// # Errors
    /// When the URL or the certificates cannot be used. Nothing was tried then.
    pub async fn run<E>(self, hub: E, stop: impl Future<Output = ()>) -> Result<(), HubError>
    where
        E: TryInto<HubEndpoint>,
        HubError: From<E::Error>,
    {
        let mut connection = HubConnection::new(hub.try_into()?).with_slots(self.slots);
        if let Some(drain) = self.drain {
            connection = connection.with_drain(drain);
        }
        connection.run(Arc::new(self), stop).await
    }

    fn with(
        mut self,
        domain: Domain,
        kind: String,
        format: capability::Format,
        handler: impl SessionHandler,
    ) -> Self {
        let processor = Processor {
            capability: Capability { format: Some(format) },
            handler: Arc::new(handler),
        };
        self.processors.insert((domain, kind), processor);
        self
    }
}

#[async_trait]
impl SessionRunner for ExecutionAgent {
    fn registration(&self) -> AgentRegistration {
        AgentRegistration {
            display_name: self.name.clone(),
            capabilities: self
                .processors
                .values()
                .map(|processor| processor.capability.clone())
                .collect(),
        }
    }

    fn accepts(&self, proposal: &Proposal) -> Result<(), String> {
        let wanted = (proposal.domain, proposal.kind.clone());
        if self.processors.contains_key(&wanted) {
            return Ok(());
        }
        Err(format!(
            "the agent has no processor for the {} {:?}",
            wanted.0, wanted.1
        ))
    }

    async fn carry_out(&self, session: AgentSession) -> SessionEnd {
        let wanted = (session.domain, session.kind.clone());
        let Some(processor) = self.processors.get(&wanted) else {
            // The hub proposed something else than it asks for.
            return SessionEnd::invalid(format!(
                "the agent has no processor for the {} {:?}",
                wanted.0, wanted.1
            ));
        };
        match processor.handler.carry_out(session).await {
            Ok(end) => end,
            Err(error) => SessionEnd::failed(chain(error.as_ref())),
        }
    }
}

impl fmt::Debug for ExecutionAgent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExecutionAgent")
            .field("name", &self.name)
            .field("slots", &self.slots)
            .field("drain", &self.drain)
            .field("processors", &self.processors.keys())
            .finish()
    }
}
