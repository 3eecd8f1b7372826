//! Waiting for a condition, with a deadline and a panic that names what was waited for; and saying aloud
//! that a test had to be skipped.

use std::{future::Future, io::Write as _, time::Duration};

/// How long a condition may take: far more than it needs, since machines that run tests are busy.
pub const LIMIT: Duration = Duration::from_mins(1);

/// How often a condition is looked at. Nothing depends on it but the time that a test takes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Waits until `condition` gives a value, at most [`LIMIT`].
///
/// # Panics
/// When it has not by then.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, condition: impl FnMut() -> F) -> T {
    eventually_within(LIMIT, what, condition).await
}

/// As [`eventually`], with a limit of its own.
pub async fn eventually_within<T, F: Future<Output = Option<T>>>(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) -> T {
    let holds = async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let outcome = tokio::time::timeout(limit, holds).await;
    outcome.unwrap_or_else(|_| panic!("within {limit:?} this did not come about: {what}"))
}

/// Waits for `future`, at most [`LIMIT`].
///
/// # Panics
/// When it takes longer.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(LIMIT, future).await;
    outcome.unwrap_or_else(|_| panic!("within {LIMIT:?} this did not end: {what}"))
}

/// Says that the test at hand proves nothing here, and why; also when the output of tests is captured.
pub fn report_skip(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not by a macro: those of a test that passes are not shown.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// Set to 1 where all that tests need must be there, so that none can pass by being skipped.
const REQUIRED: &str = "AGENTANYCAST_REQUIRE_LAB";

/// Says that a test is skipped since something is not there.
///
/// # Panics
/// When `AGENTANYCAST_REQUIRE_LAB=1` says that it has to be.
pub fn skip_unless_required(why: &str) {
    assert!(
        std::env::var_os(REQUIRED).is_none_or(|value| value != "1"),
        "{why}, and {REQUIRED}=1"
    );
    report_skip(why);
}
