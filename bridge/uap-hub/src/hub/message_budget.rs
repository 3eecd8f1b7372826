//! The body of a call while its messages arrive: each has a bound in size and time, and all large ones together in memory, so that
//! clients that send slowly or much take nothing from others. Used by the hub's service.
//!
//! Invariant: of messages over 64 KiB, no more than [`ALL`] bytes are being read or handled at a time.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use agentanycast_uap_hub::codec::MAX_MESSAGE;
use axum::body::{Body, Bytes, HttpBody};
use http_body::Frame;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Sleep,
};
use tokio_util::sync::PollSemaphore;
use tonic::Status;

/// What all large messages may take at a time, in bytes.
const ALL: usize = 4 * MAX_MESSAGE;

/// A message that needs no room of its own, in bytes.
const SMALL: usize = 64 << 10;

/// How long a message may take to arrive, from its first byte on: 64 MiB at 1 MiB a second, and half as much again.
const ARRIVES_WITHIN: Duration = Duration::from_secs(96);

/// The unit of room, in bytes.
const UNIT: usize = 1 << 10;

/// What is before a message of gRPC: a flag, and its length.
const PREFIX: usize = 5;

/// Room for large messages. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct MessageBudget(Arc<Semaphore>);

impl Default for MessageBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ALL / UNIT)))
    }
}

impl MessageBudget {
    /// A body whose messages take their room here.
    pub(crate) fn body(&self, body: Body) -> Body {
        Body::new(BudgetedBody {
            body,
            prefix: [0; PREFIX],
            known: 0,
            left: 0,
            budget: PollSemaphore::new(Arc::clone(&self.0)),
            room: None,
            wanted: 0,
            held: None,
            deadline: None,
        })
    }
}

struct BudgetedBody {
    body: Body,
    /// Of the next message, as much as has come.
    prefix: [u8; PREFIX],
    known: usize,
    /// Bytes of the message that have not come.
    left: usize,
    budget: PollSemaphore,
    /// That of the last large message: it is handled when the next one is asked for.
    room: Option<OwnedSemaphorePermit>,
    /// Room that the message needs and does not have yet, and the bytes that wait for it.
    wanted: u32,
    held: Option<Bytes>,
    /// Runs while a message arrives.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl BudgetedBody {
    /// Reads what comes next.
    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                bytes = &bytes[taken..];
                if self.left == 0 {
                    self.deadline = None;
                }
                continue;
            }
            let taken = (PREFIX - self.known).min(bytes.len());
            self.prefix[self.known..self.known + taken].copy_from_slice(&bytes[..taken]);
            self.known += taken;
            bytes = &bytes[taken..];
            if self.known == PREFIX {
                self.known = 0;
                let [_, length @ ..] = self.prefix;
                self.begin(u32::from_be_bytes(length) as usize)?;
            }
        }
        Ok(())
    }

    /// A message of this length begins.
    fn begin(&mut self, length: usize) -> Result<(), Status> {
        if length > MAX_MESSAGE {
            let text = format!("a message of {length} bytes, the most are {MAX_MESSAGE} (64 MiB)");
            return Err(Status::resource_exhausted(text));
        }
        self.left = length;
        self.room = None;
        self.wanted = 0;
        if length > SMALL {
            self.wanted = u32::try_from(length / UNIT).unwrap_or(u32::MAX);
        }
        if length > 0 {
            self.deadline = Some(Box::pin(tokio::time::sleep(ARRIVES_WITHIN)));
        }
        Ok(())
    }
}

impl HttpBody for BudgetedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        loop {
            if this.wanted > 0 {
                this.room = ready!(this.budget.poll_acquire_many(cx, this.wanted));
                this.wanted = 0;
            }
            if let Some(bytes) = this.held.take() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => {
                        if let Err(refused) = this.read(&bytes) {
                            return Poll::Ready(Some(Err(refused)));
                        }
                        this.held = Some(bytes);
                    }
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(Status::unavailable(error.to_string()))));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    let late = this
                        .deadline
                        .as_mut()
                        .is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready());
                    if !late {
                        return Poll::Pending;
                    }
                    let text = format!(
                        "a message took longer than {} s to arrive",
                        ARRIVES_WITHIN.as_secs()
                    );
                    return Poll::Ready(Some(Err(Status::deadline_exceeded(text))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::BodyExt as _;

    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
        bytes.resize(PREFIX + length, 7);
        bytes
    }

    /// A body that comes in pieces, and then nothing more, open or at its end.
    fn body(pieces: Vec<Vec<u8>>, ends: bool) -> Body {
        let pieces = stream::iter(
            pieces
                .into_iter()
                .map(|piece| Ok::<_, Status>(Bytes::from(piece))),
        );
        if ends {
            return Body::from_stream(pieces);
        }
        Body::from_stream(futures::StreamExt::chain(pieces, stream::pending()))
    }

    async fn refused(mut body: Body) -> String {
        loop {
            match body.frame().await.unwrap() {
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
        }
    }

    #[tokio::test]
    async fn messages_come_through_whole_however_they_are_cut() {
        let all = [message(3), message(0), message(SMALL * 2), message(1)].concat();
        for size in [1, 4, 5, 6, 1000, 1 << 20] {
            let pieces = all.chunks(size).map(<[u8]>::to_vec).collect();
            let budget = MessageBudget::default();
            let read = budget
                .body(body(pieces, true))
                .collect()
                .await
                .unwrap()
                .to_bytes();
            assert_eq!(read, all);
            assert_eq!(budget.0.available_permits(), ALL / UNIT, "all room is given back");
        }
    }

    #[tokio::test]
    async fn a_message_of_more_than_64_mib_is_refused_by_its_length() {
        let mut begun = message(0);
        begun[1..].copy_from_slice(&((64 << 20) + 1_u32).to_be_bytes());
        let text = refused(MessageBudget::default().body(body(vec![begun], false))).await;
        assert!(text.contains("67108865 bytes, the most are 67108864"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_arrive_in_time_is_given_up() {
        let budget = MessageBudget::default();
        let half = message(1 << 20)[..1000].to_vec();
        let text = refused(budget.body(body(vec![half], false))).await;
        assert!(text.contains("longer than 96 s"), "{text}");
        assert_eq!(budget.0.available_permits(), ALL / UNIT);
        // Between messages there is no limit.
        let idle = budget.body(body(vec![message(10)], false));
        let waited = tokio::time::timeout(Duration::from_hours(1), refused(idle)).await;
        assert!(waited.is_err());
    }

    #[tokio::test]
    async fn a_large_message_waits_for_room() {
        let budget = MessageBudget::default();
        let taken = Arc::clone(&budget.0)
            .acquire_many_owned(u32::try_from(ALL / UNIT).unwrap())
            .await
            .unwrap();
        let mut waits = budget.body(body(vec![message(SMALL * 2)], true));
        let mut small = budget.body(body(vec![message(SMALL)], true));
        assert!(small.frame().await.unwrap().is_ok(), "a small one needs none");
        let first = tokio::time::timeout(Duration::from_millis(50), waits.frame()).await;
        assert!(first.is_err());
        drop(taken);
        assert!(waits.frame().await.unwrap().is_ok());
    }
}
