//! Answers leave in portions: a client begins to read the first ones while the next ones are made.
//!
//! A thread makes answers faster than it is asked to write them: all requests that have come with one read would be answered
//! before the first answer is on its way, and then the thread would wait until all are read. So whoever finds that a portion
//! has been answered since the thread wrote last lets it write first.
//!
//! The one rule: nobody waits for anything but a turn of the thread.

use std::cell::Cell;

/// Bytes of answers that are written together: as many as the largest frame that each client of HTTP/2 takes (RFC 9113, 4.2).
const PORTION: usize = 16 << 10;

/// What a thread has answered since it wrote last.
#[derive(Clone, Copy, Default)]
struct Unwritten {
    bytes: usize,
    /// Counts the times that it has written.
    turn: u64,
}

thread_local! {
    static UNWRITTEN: Cell<Unwritten> = const { Cell::new(Unwritten { bytes: 0, turn: 0 }) };
}

/// Returns once there is room in this thread's portion.
pub(super) async fn turn() {
    loop {
        let before = UNWRITTEN.get();
        if before.bytes < PORTION {
            return;
        }
        // Connections that have something to write are polled before this goes on.
        tokio::task::yield_now().await;
        if UNWRITTEN.get().turn == before.turn {
            UNWRITTEN.set(Unwritten {
                bytes: 0,
                turn: before.turn + 1,
            });
        }
    }
}

/// Counts an answer of so many bytes.
pub(super) fn answered(bytes: usize) {
    let unwritten = UNWRITTEN.get();
    UNWRITTEN.set(Unwritten {
        bytes: unwritten.bytes + bytes,
        ..unwritten
    });
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
                    turn().await;
                    *so_far.borrow_mut() += 1;
                    answered(bytes);
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
        let written = on_one_thread(PORTION / 2).await;
        assert_eq!(written.iter().sum::<usize>(), 16);
        assert!(written.iter().all(|count| *count <= 2), "{written:?}");
    }

    #[tokio::test]
    async fn small_answers_are_written_together() {
        assert_eq!(on_one_thread(16).await, [16]);
    }

    #[tokio::test]
    async fn one_larger_than_a_portion_goes_alone() {
        assert_eq!(on_one_thread(10 * PORTION).await, [1; 16]);
    }
}
