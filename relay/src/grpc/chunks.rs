//! Answers leave in portions: a client begins to read the first ones while the next ones are made.
//!
//! A thread makes answers faster than it is asked to write them: all requests that have come with one read would be answered
//! before the first answer is on its way, and then the thread would wait until all are read. So whoever finds that a portion
//! has been answered since the thread wrote last lets it write first.
//!
//! The one rule: nobody waits for anything but turns of the thread, and in the order in which they came.

use std::{cell::Cell, sync::Arc};

use tokio::sync::Semaphore;

/// Bytes of answers that are written together: as many as the largest frame that each client of HTTP/2 takes (RFC 9113, 4.2).
const CHUNK_BYTES: usize = 16 << 10;

thread_local! {
    /// Bytes that a thread has answered since it wrote last.
    static UNWRITTEN: Cell<usize> = const { Cell::new(0) };

    /// Held by whoever is the next to answer. Of several that give way to others the last one would go on first.
    static NEXT: Arc<Semaphore> = Arc::new(Semaphore::new(1));
}

/// Returns once there is room in this thread's portion.
pub(super) async fn wait_turn() {
    let next = NEXT.with(Arc::clone);
    // It fails when it is closed, which it never is.
    let _next = next.acquire().await;
    if UNWRITTEN.get() >= CHUNK_BYTES {
        // Connections that have something to write are polled before this goes on.
        tokio::task::yield_now().await;
        UNWRITTEN.set(0);
    }
}

/// Counts an answer of so many bytes.
pub(super) fn count_answer(bytes: usize) {
    UNWRITTEN.set(UNWRITTEN.get() + bytes);
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use tokio::{
        sync::Notify,
        task::{LocalSet, spawn_local},
    };

    use super::*;

    /// What a connection does: sixteen requests have come with one read; what is answered is written when it is polled.
    async fn written_together(bytes: usize) -> Vec<usize> {
        let (answered_so_far, written) = (Rc::new(RefCell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let bell = Rc::new(Notify::new());
        let calls: Vec<_> = (0..16)
            .map(|_| {
                let (so_far, bell) = (Rc::clone(&answered_so_far), Rc::clone(&bell));
                spawn_local(async move {
                    wait_turn().await;
                    *so_far.borrow_mut() += 1;
                    count_answer(bytes);
                    bell.notify_one();
                })
            })
            .collect();
        let writes = Rc::clone(&written);
        let writer = spawn_local(async move {
            loop {
                bell.notified().await;
                let count = answered_so_far.replace(0);
                writes.borrow_mut().push(count);
            }
        });
        for call in calls {
            call.await.unwrap();
        }
        tokio::task::yield_now().await;
        writer.abort();
        let written = written.borrow();
        written.iter().copied().filter(|count| *count > 0).collect()
    }

    async fn on_one_thread(bytes: usize) -> Vec<usize> {
        LocalSet::new().run_until(written_together(bytes)).await
    }

    #[tokio::test]
    async fn what_makes_a_portion_is_written_before_the_next_is_made() {
        let written = on_one_thread(CHUNK_BYTES / 2).await;
        assert_eq!(written.iter().sum::<usize>(), 16);
        assert!(written.iter().all(|count| *count <= 2), "{written:?}");
    }

    #[tokio::test]
    async fn answers_are_made_in_the_order_of_their_calls() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let of = Rc::clone(&order);
        let all = async move {
            let calls: Vec<_> = (0..16)
                .map(|number| {
                    let order = Rc::clone(&of);
                    spawn_local(async move {
                        wait_turn().await;
                        order.borrow_mut().push(number);
                        count_answer(CHUNK_BYTES);
                    })
                })
                .collect();
            for call in calls {
                call.await.unwrap();
            }
        };
        LocalSet::new().run_until(all).await;
        assert_eq!(*order.borrow(), (0..16).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn small_answers_are_written_together() {
        assert_eq!(on_one_thread(16).await, [16]);
    }

    #[tokio::test]
    async fn one_larger_than_a_portion_goes_alone() {
        assert_eq!(on_one_thread(10 * CHUNK_BYTES).await, [1; 16]);
    }
}
