//! Turns for what moves much data: artifacts of all peers, in and out, one step at a time.
//!
//! The daemon runs on one thread. A hundred streams that are all ready are a hundred steps of copying
//! between two steps of anything else, and a task has a dozen steps to go. So a stream's step needs a
//! turn, turns are given one at a time in the order in which they were asked for, and with each the
//! scheduler comes round to everybody else. The one rule: nobody keeps a turn while waiting.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

use tokio::sync::Semaphore;

/// Gives turns; cheap to clone.
#[derive(Clone, Debug)]
pub struct FairQueue(Arc<Semaphore>);

impl Default for FairQueue {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl FairQueue {
    /// Runs `work` with a turn for each of its steps (a step: until it waits for something). As cancel-safe
    /// as `work` is.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            // Never closed; if it were, everybody's turn would be now.
            let turn = self.0.acquire().await.ok();
            let step = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
            drop(turn);
            match step {
                Poll::Ready(output) => return output,
                Poll::Pending => woken().await,
            }
        }
    }
}

/// Waits until this task is woken by whatever it waits for.
async fn woken() {
    let mut asleep = true;
    poll_fn(|_| {
        if std::mem::take(&mut asleep) {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::{sync::Notify, task::yield_now};

    use super::*;

    /// Goes to the end of the line of tasks that are ready. `yield_now` waits for the next look at the
    /// sockets instead.
    async fn next_in_line() {
        let mut left = false;
        poll_fn(|context| {
            if std::mem::replace(&mut left, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    #[tokio::test]
    async fn many_movers_take_one_step_between_two_of_everybody_elses() {
        const MOVERS: usize = 50;
        let (turns, moved) = (FairQueue::default(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..MOVERS {
            let (turns, moved) = (turns.clone(), Arc::clone(&moved));
            tokio::spawn(async move {
                loop {
                    turns
                        .run(async {
                            moved.fetch_add(1, Ordering::Relaxed);
                        })
                        .await;
                }
            });
        }
        // A task of its own: the runtime comes round to the main future less often.
        let watching = tokio::spawn(async move {
            next_in_line().await;
            let before = moved.load(Ordering::Relaxed);
            for _ in 0..100 {
                next_in_line().await;
            }
            let steps = moved.load(Ordering::Relaxed) - before;
            assert!((20..=200).contains(&steps), "{steps} steps in 100 rounds");
        });
        watching.await.unwrap();
    }

    #[tokio::test]
    async fn whoever_waits_keeps_no_turn() {
        let (turns, bell) = (FairQueue::default(), Arc::new(Notify::new()));
        let waiting = tokio::spawn({
            let (turns, bell) = (turns.clone(), Arc::clone(&bell));
            async move { turns.run(bell.notified()).await }
        });
        yield_now().await;
        assert_eq!(turns.run(async { 7 }).await, 7);
        bell.notify_one();
        waiting.await.unwrap();
    }
}
