//! The middleware `logging()`: one line when a run begins, ends or fails.

use std::{fmt, str::FromStr, sync::Arc, time::Instant};

use agentanycast_upp::UppError;
use async_trait::async_trait;
use tracing::Level;

use crate::{
    middleware::{Middleware, MiddlewareContext},
    result::GenerateResult,
};

type Logger = dyn Fn(&str) + Send + Sync;

/// The middleware `logging()`: the level is `info` and lines go to `tracing`, unless it is told otherwise.
///
/// ```
/// use agentanycast_uap::{agent, logging};
/// # use agentanycast_upp::Scripted;
/// # let model = Scripted::new([]).model();
///
/// let agent = agent(model).middleware(logging().include_messages(true).logger(|line| eprintln!("{line}")));
/// # drop(agent);
/// ```
pub fn logging() -> Logging {
    Logging {
        level: Level::INFO,
        logger: None,
        include_messages: false,
        include_timing: true,
    }
}

/// The middleware `logging()`.
#[derive(Clone)]
pub struct Logging {
    level: Level,
    logger: Option<Arc<Logger>>,
    include_messages: bool,
    include_timing: bool,
}

impl Logging {
    /// Sets the level: `trace`, `debug`, `info`, `warn` or `error`. Fails with `INVALID_REQUEST` for another
    /// word.
    pub fn level(mut self, level: &str) -> Result<Self, UppError> {
        self.level = Level::from_str(level)
            .map_err(|_| UppError::invalid_request(format!("`{level}` is not a level of logs")))?;
        Ok(self)
    }

    /// Gives the lines to a function instead of `tracing`.
    #[must_use]
    pub fn logger(mut self, logger: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.logger = Some(Arc::new(logger));
        self
    }

    /// Shows the texts of input and answer; they may be confidential.
    #[must_use]
    pub fn include_messages(mut self, include: bool) -> Self {
        self.include_messages = include;
        self
    }

    /// Shows how long a run took; on unless it is switched off.
    #[must_use]
    pub fn include_timing(mut self, include: bool) -> Self {
        self.include_timing = include;
        self
    }

    fn log(&self, line: &str) {
        if let Some(logger) = &self.logger {
            return logger(line);
        }
        match self.level {
            Level::TRACE => tracing::trace!("{line}"),
            Level::DEBUG => tracing::debug!("{line}"),
            Level::INFO => tracing::info!("{line}"),
            Level::WARN => tracing::warn!("{line}"),
            Level::ERROR => tracing::error!("{line}"),
        }
    }

    fn timing(&self, context: &MiddlewareContext) -> String {
        let begun = context.metadata.get(BEGUN).and_then(serde_json::Value::as_u64);
        match begun {
            Some(begun) if self.include_timing => {
                format!(" after {} ms", uptime_millis().saturating_sub(begun))
            }
            _ => String::new(),
        }
    }
}

/// Where the beginning of a run is kept in the metadata of its context.
const BEGUN: &str = "logging.begun";

/// Milliseconds since the first call, by a clock that does not jump.
fn uptime_millis() -> u64 {
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(FIRST.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Middleware for Logging {
    fn name(&self) -> &'static str {
        "logging"
    }

    async fn before(&self, context: &mut MiddlewareContext) -> Result<(), UppError> {
        context.metadata.insert(BEGUN.to_owned(), uptime_millis().into());
        let mut line = format!(
            "agent {} begins: {} messages in its state",
            context.agent_id,
            context.state.messages().len()
        );
        if self.include_messages {
            let texts: Vec<_> = context
                .input
                .iter()
                .map(agentanycast_upp::Message::text)
                .collect();
            line = format!("{line}, input {:?}", texts.join("\n"));
        }
        self.log(&line);
        Ok(())
    }

    async fn after(
        &self,
        context: &mut MiddlewareContext,
        result: GenerateResult,
    ) -> Result<GenerateResult, UppError> {
        let (timing, turn) = (self.timing(context), &result.turn);
        let mut line = format!(
            "agent {} ended{timing}: {} inferences, {} tools, {} tokens",
            context.agent_id,
            turn.cycles,
            turn.tool_executions.len(),
            turn.usage.total_tokens,
        );
        if self.include_messages {
            line = format!("{line}, answer {:?}", turn.text());
        }
        self.log(&line);
        Ok(result)
    }

    async fn on_error(&self, context: &mut MiddlewareContext, error: &UppError) -> Option<GenerateResult> {
        let timing = self.timing(context);
        self.log(&format!("agent {} failed{timing}: {error}", context.agent_id));
        None
    }
}

impl fmt::Debug for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logging")
            .field("level", &self.level)
            .field("include_messages", &self.include_messages)
            .field("include_timing", &self.include_timing)
            .finish_non_exhaustive()
    }
}
