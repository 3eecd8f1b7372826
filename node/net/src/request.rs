//! Requests to a task over its queue, each with a channel for its answer.
//!
//! The one rule: whoever asks a task that ends hears of it. A request that is queued while its receiver is dropped may
//! stay in the queue as long as a sender lives, and its answer's channel with it.

use tokio::sync::{mpsc, oneshot};

/// Sends a request and waits for its answer. `None`: the receiver is gone, or has dropped the request.
pub(super) async fn ask<C, T>(
    queue: &mpsc::Sender<C>,
    request: impl FnOnce(oneshot::Sender<T>) -> C,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    queue.send(request(reply)).await.ok()?;
    answered(queue, answer).await
}

/// The answer to a request that was sent; `None` as for [`ask`].
pub(super) async fn answered<C, T>(queue: &mpsc::Sender<C>, answer: oneshot::Receiver<T>) -> Option<T> {
    tokio::select! {
        biased;
        answer = answer => answer.ok(),
        () = queue.closed() => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_stays_in_the_queue_of_a_task_that_ended_is_not_waited_for() {
        let (queue, mut requests) = mpsc::channel::<oneshot::Sender<()>>(1);
        let mut asked = std::pin::pin!(ask(&queue, |reply| reply));
        assert!(asked.as_mut().now_or_never().is_none());
        requests.close();
        let answer = tokio::time::timeout(Duration::from_mins(1), asked).await;
        assert_eq!(answer, Ok(None));
    }

    #[tokio::test]
    async fn an_answer_counts_although_its_task_has_ended_since() {
        let (queue, mut requests) = mpsc::channel::<oneshot::Sender<u8>>(1);
        let asked = ask(&queue, |reply| reply);
        let (answer, ()) = tokio::join!(asked, async {
            requests.recv().await.unwrap().send(7).unwrap();
            drop(requests);
        });
        assert_eq!(answer, Some(7));
    }
}
