//! Large contents are read and written aside: one thread serves everybody, here and in the daemon, and 24 MiB of JSON
//! would hold it for a tenth of a second.

use std::panic;

use tokio::task;

/// Contents of this many bytes and more, which take about a millisecond, or some when they are nothing but brackets.
const LARGE: usize = 64 << 10;

/// What `work` makes of contents of `bytes` bytes.
pub async fn offload<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if bytes < LARGE {
        return work();
    }
    match run_aside(work).await {
        Some(made) => made,
        // Whoever waits for it ends with the runtime too.
        None => std::future::pending().await,
    }
}

/// What `work` makes on a thread of its own, and its panic if it panics; `None`: the runtime is ending.
pub async fn run_aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match task::spawn_blocking(work).await {
        Ok(made) => Some(made),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_large_contents_leave_the_thread() {
        let here = thread::current().id();
        let on = || thread::current().id();
        assert_eq!(offload(LARGE - 1, on).await, here);
        assert_ne!(offload(LARGE, on).await, here);
    }

    #[tokio::test]
    #[should_panic(expected = "as it would here")]
    async fn a_panic_comes_back() {
        offload(LARGE, || panic!("as it would here")).await;
    }
}
