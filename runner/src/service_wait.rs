//! Waits for a service that is started at the same time as its runner: until it takes connections, for a while.

use std::time::Duration;

use agentanycast_gateways::run::RunWork;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout_at},
};

/// How long a service is waited for.
const WITHIN: Duration = Duration::from_secs(15);

/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits until the service that does these tasks takes connections, at most 15 s; returns at once where there is none. `waits`
/// is told what is waited for, if it is not there at first. Whether it came is known by its first answer.
pub async fn wait_for_service(work: &RunWork, waits: impl FnOnce(&str)) {
    let (RunWork::Http { url, .. } | RunWork::McpUrl { url, .. }) = work else {
        return;
    };
    let Some((host, port)) = address(url) else {
        return;
    };
    let until = Instant::now() + WITHIN;
    let mut waits = Some(waits);
    while !timeout_at(until, TcpStream::connect((host.as_str(), port)))
        .await
        .is_ok_and(|connected| connected.is_ok())
        && Instant::now() < until
    {
        if let Some(waits) = waits.take() {
            waits(&format!(
                "{host}:{port} takes no connections; waiting up to {}s for it",
                WITHIN.as_secs()
            ));
        }
        sleep(PAUSE).await;
    }
}

/// Where a URL leads, as a socket takes it.
fn address(url: &str) -> Option<(String, u16)> {
    let url = reqwest::Url::parse(url).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    Some((host, url.port_or_known_default()?))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn service(url: String) -> RunWork {
        RunWork::Http {
            url,
            style: None,
            model: None,
            api_key_env: None,
        }
    }

    #[test]
    fn addresses_are_those_of_sockets() {
        for (url, host, port) in [
            ("http://127.0.0.1:8080/v1?a=b", "127.0.0.1", 8080),
            ("https://[::1]/x", "::1", 443),
            ("http://h", "h", 80),
        ] {
            assert_eq!(address(url), Some((host.to_owned(), port)));
        }
        assert_eq!(address("x"), None);
    }

    #[tokio::test]
    async fn a_service_that_comes_late_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let work = service(format!("http://{at}/"));
        wait_for_service(&work, |_| panic!("it is there")).await;
        drop(listener);
        let (said, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let coming = async {
            // It is started when it is waited for.
            hears.recv().await.unwrap();
            TcpListener::bind(at).await.unwrap()
        };
        let waiting = wait_for_service(&work, |what| said.send(what.to_owned()).unwrap());
        let begun = Instant::now();
        let ((), _listener) = tokio::join!(waiting, coming);
        assert!(begun.elapsed() < WITHIN);
    }
}
