//! A gateway that runs, and how it ends.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use agentanycast_front::listener::{RunningFront, STOP_WITHIN};
use futures::future::{BoxFuture, join_all, pending, select_all};
use tokio::task::JoinHandle;

use crate::metrics::GatewayMetrics;

/// A gateway that takes requests. Dropping it leaves it running; [`RunningGateway::stop`] ends it.
pub struct RunningGateway {
    /// What of the program has ended when it has, for people.
    part: &'static str,
    /// What its start line begins with.
    line: String,
    front: Option<RunningFront>,
    /// What it does besides, until the front's stop.
    others: Vec<JoinHandle<()>>,
    stdio: Option<BoxFuture<'static, anyhow::Result<()>>>,
    metrics: Option<Arc<dyn GatewayMetrics>>,
}

impl fmt::Debug for RunningGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningGateway")
            .field("part", &self.part)
            .field("front", &self.front)
            .finish_non_exhaustive()
    }
}

impl RunningGateway {
    /// With this front, which the start line `NAME_ADDR=…` tells; `part` is what has ended when it has.
    pub fn new(part: &'static str, name: &str, front: RunningFront) -> Self {
        Self {
            line: format!("{}_ADDR", name.to_ascii_uppercase().replace('-', "_")),
            front: Some(front),
            ..Self::without_front(part)
        }
    }

    /// Without a front; `part` is what has ended when it has.
    pub fn without_front(part: &'static str) -> Self {
        Self {
            part,
            line: String::new(),
            front: None,
            others: Vec::new(),
            stdio: None,
            metrics: None,
        }
    }

    /// With a client on standard input and output, served by this; the program ends with it.
    #[must_use]
    pub fn with_stdio(mut self, served: BoxFuture<'static, anyhow::Result<()>>) -> Self {
        self.stdio = Some(served);
        self
    }

    /// With something else that it does until it is stopped.
    #[must_use]
    pub fn with_task(mut self, task: JoinHandle<()>) -> Self {
        self.others.push(task);
        self
    }

    /// With figures of its own.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<dyn GatewayMetrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// What serves a client on standard input and output, if something does; once.
    pub fn take_stdio(&mut self) -> Option<BoxFuture<'static, anyhow::Result<()>>> {
        self.stdio.take()
    }

    /// Its own figures, if it has some.
    pub fn metrics(&self) -> Option<Arc<dyn GatewayMetrics>> {
        self.metrics.clone()
    }

    /// Where it listens, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.front.as_ref().map(|front| front.address)
    }

    /// What of the program it is.
    pub fn part(&self) -> &'static str {
        self.part
    }

    /// The line that whoever started it waits for: requests are taken from here on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn announce(&self, out: impl io::Write) -> io::Result<()> {
        match &self.front {
            Some(front) => front.announce(&self.line, out),
            None => Ok(()),
        }
    }

    /// Returns when it has ended though nobody has stopped it.
    pub async fn wait_ended(&mut self) {
        let front = self.front.as_mut().map(|front| &mut front.task);
        let mut all = front.into_iter().chain(&mut self.others).peekable();
        if all.peek().is_none() {
            return pending().await;
        }
        let _ = select_all(all).await;
    }

    /// Takes no more requests, and answers those that it has, within four seconds.
    pub async fn stop(self) {
        let front = self.front.map(|front| {
            front.stop.cancel();
            front.task
        });
        let all = join_all(front.into_iter().chain(self.others));
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            tracing::warn!(part = self.part, "it stopped before everything was answered");
        }
    }
}
