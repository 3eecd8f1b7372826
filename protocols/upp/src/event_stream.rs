//! A stream of events with a result at its end: UPP's `StreamResult`.
//!
//! The reader drives the work: polling the stream polls the work, and dropping the stream drops it. The
//! events wait in a bounded channel, so a slow reader slows the work.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{error::UppError, event::StreamEvent, turn::Turn};

/// How many events wait for the reader. A few let the work run ahead within one poll; more would only add
/// latency.
const EVENT_CAPACITY: usize = 64;

/// Where the work of an [`EventStream`] puts its events.
pub struct EventSender<E>(Sink<E>);

enum Sink<E> {
    Channel(mpsc::Sender<E>),
    Function(Arc<dyn Fn(E) -> BoxFuture<'static, ()> + Send + Sync>),
}

impl<E> Clone for EventSender<E> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Sink::Channel(sender) => Sink::Channel(sender.clone()),
            Sink::Function(function) => Sink::Function(function.clone()),
        })
    }
}

impl<E> fmt::Debug for EventSender<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventSender(..)")
    }
}

impl<E> EventSender<E> {
    /// Gives each event to a function, for example one that wraps it for another stream.
    ///
    /// ```
    /// use agentanycast_upp::{EventSender, StreamEvent};
    ///
    /// let sender = EventSender::from_fn(|event: StreamEvent| async move { println!("{event:?}") });
    /// # drop(sender);
    /// ```
    pub fn from_fn<F, Fut>(function: F) -> Self
    where
        F: Fn(E) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self(Sink::Function(Arc::new(move |event| function(event).boxed())))
    }

    /// Hands out an event, and waits while too many are waiting. An event after the end of the stream is
    /// dropped.
    pub async fn send(&self, event: E) {
        match &self.0 {
            // The receiver is gone only if the stream is, and then the work is about to be dropped too.
            Sink::Channel(sender) => drop(sender.send(event).await),
            Sink::Function(function) => function(event).await,
        }
    }

    /// Hands out an event from where nothing can wait, such as a destructor: at once if there is room, else
    /// from a task of its own. Outside of a runtime an event that has no room is dropped.
    pub fn send_detached(&self, event: E)
    where
        E: Send + 'static,
    {
        let sender = self.clone();
        let event = match &self.0 {
            Sink::Channel(channel) => match channel.try_send(event) {
                Err(mpsc::error::TrySendError::Full(event)) => event,
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => return,
            },
            Sink::Function(_) => event,
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { sender.send(event).await });
        }
    }
}

/// Events, and a result at their end.
///
/// The stream ends with one error if the work fails. [`EventStream::result`] returns the same error.
///
/// ```
/// use agentanycast_upp::{EventStream, UppError};
/// use futures::StreamExt as _;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), agentanycast_upp::UppError> {
/// let mut numbers = EventStream::<u32, &str>::new(Default::default(), |events| async move {
///     events.send(1).await;
///     events.send(2).await;
///     Ok("done")
/// });
/// assert_eq!(numbers.next().await, Some(Ok(1)));
/// assert_eq!(numbers.result().await, Ok("done"));
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream does nothing until it is read"]
pub struct EventStream<E, T, X = UppError> {
    events: mpsc::Receiver<E>,
    work: Option<BoxFuture<'static, Result<T, X>>>,
    outcome: Option<Result<T, X>>,
    error_seen: bool,
    cancel: CancellationToken,
}

/// The stream of a turn of `llm()`.
pub type StreamResult = EventStream<StreamEvent, Turn>;

impl<E, T, X> EventStream<E, T, X> {
    /// A stream that is fed by `work`. The work has to watch `cancel` itself.
    pub fn new<F, Fut>(cancel: CancellationToken, work: F) -> Self
    where
        F: FnOnce(EventSender<E>) -> Fut,
        Fut: Future<Output = Result<T, X>> + Send + 'static,
    {
        let (sender, events) = mpsc::channel(EVENT_CAPACITY);
        Self {
            events,
            work: Some(work(EventSender(Sink::Channel(sender))).boxed()),
            outcome: None,
            error_seen: false,
            cancel,
        }
    }

    /// Cancels the work; the stream ends with `CANCELLED`.
    pub fn abort(&self) {
        self.cancel.cancel();
    }

    /// Cancels the work from elsewhere.
    pub fn abort_token(&self) -> &CancellationToken {
        &self.cancel
    }
}

impl<E: Send, T: Unpin, X: Clone + Unpin> EventStream<E, T, X> {
    /// Runs the work to its end and returns its result. Events that are not read yet are dropped.
    pub async fn result(mut self) -> Result<T, X> {
        loop {
            while self.next().await.is_some() {}
            if let Some(outcome) = self.outcome.take() {
                return outcome;
            }
        }
    }
}

impl<E, T: Unpin, X: Clone + Unpin> Stream for EventStream<E, T, X> {
    type Item = Result<E, X>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.events.poll_recv(context) {
                Poll::Ready(Some(event)) => return Poll::Ready(Some(Ok(event))),
                Poll::Ready(None) if self.work.is_none() => break,
                // The work may drop its sender early, or has events to come.
                Poll::Ready(None) | Poll::Pending => {}
            }
            let Some(work) = self.work.as_mut() else {
                return Poll::Pending;
            };
            match work.poll_unpin(context) {
                Poll::Ready(outcome) => {
                    self.work = None;
                    // What was sent before is still read. A task that keeps a sender does not keep the stream
                    // open.
                    self.events.close();
                    self.outcome = Some(outcome);
                }
                Poll::Pending => {
                    return match self.events.poll_recv(context) {
                        Poll::Ready(Some(event)) => Poll::Ready(Some(Ok(event))),
                        Poll::Ready(None) | Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
        if self.error_seen {
            return Poll::Ready(None);
        }
        self.error_seen = true;
        Poll::Ready(match &self.outcome {
            Some(Err(error)) => Some(Err(error.clone())),
            _ => None,
        })
    }
}

impl<E, T, X> fmt::Debug for EventStream<E, T, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("running", &self.work.is_some())
            .finish_non_exhaustive()
    }
}
