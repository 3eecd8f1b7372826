//! Whether the node answers, for whoever watches the bridge. Many may ask: the node is asked once a second at most.

use std::time::{Duration, Instant};

use agentanycast_front::json_response::{JSON, response};
use axum::response::Response;
use http::StatusCode;
use serde_json::json;
use tokio::sync::Mutex;

use super::set_retry_after;
use crate::{handler::A2aHandler, protocol::error::Reason};

/// How long the node may take to show that it is there.
const WITHIN: Duration = Duration::from_secs(2);

/// How long an answer stands.
const FRESH: Duration = Duration::from_secs(1);

/// What the node showed last.
#[derive(Debug, Default)]
pub(super) struct HealthCache(Mutex<Option<(Instant, bool)>>);

impl HealthCache {
    /// The answer. Those who ask while the node is being asked wait for the same one.
    pub(super) async fn answer(&self, handler: &dyn A2aHandler) -> Response {
        if self.is_good(handler).await {
            return response(StatusCode::OK, JSON, &json!({"status": "ok"}));
        }
        let body = json!({"status": "unavailable", "message": "the daemon does not answer"});
        let mut response = response(StatusCode::SERVICE_UNAVAILABLE, JSON, &body);
        set_retry_after(&mut response, Reason::Unavailable);
        response
    }

    async fn is_good(&self, handler: &dyn A2aHandler) -> bool {
        let mut last = self.0.lock().await;
        if let Some((since, good)) = *last
            && since.elapsed() < FRESH
        {
            return good;
        }
        let checked = tokio::time::timeout(WITHIN, handler.check()).await;
        let good = matches!(checked, Ok(Ok(())));
        *last = Some((Instant::now(), good));
        good
    }
}
