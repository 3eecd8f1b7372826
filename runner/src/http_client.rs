//! The HTTP client of the backends: the operator names the host, so that private addresses are allowed, and redirects
//! are not followed.

use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A client that goes where the operator says, and nowhere else.
pub(crate) fn new() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_WITHIN)
        .user_agent(concat!("agentanycast/", env!("CARGO_PKG_VERSION")))
        .build()
}
