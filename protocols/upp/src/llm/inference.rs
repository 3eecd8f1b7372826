//! One question to the provider: key, time-out, retries, and the events of a stream.

use std::{future::Future, time::Duration};

use futures::StreamExt as _;

use crate::{
    error::{ErrorCode, UppError},
    event::StreamEvent,
    provider::{Provider, ProviderEvent, ProviderStream, Request, Response},
};

/// Asks for a whole answer.
pub(super) async fn complete(provider: &dyn Provider, request: &Request) -> Result<Response, UppError> {
    let timeout = request.config.effective_timeout();
    retried(provider, request, |attempt| {
        within(timeout, provider.complete(attempt))
    })
    .await
}

/// Asks for a stream, and hands its events to `sink`. A stream that breaks off is not asked for again.
pub(super) async fn stream<S, F>(
    provider: &dyn Provider,
    request: &Request,
    mut sink: S,
) -> Result<Response, UppError>
where
    S: FnMut(StreamEvent) -> F,
    F: Future<Output = ()>,
{
    let timeout = request.config.effective_timeout();
    let mut pieces: ProviderStream = retried(provider, request, |attempt| {
        within(timeout, provider.stream(attempt))
    })
    .await?;
    loop {
        let next = async { pieces.next().await.transpose() };
        match within(timeout, next)
            .await
            .map_err(|error| named(provider, error))?
        {
            Some(ProviderEvent::Event(event)) => sink(event).await,
            Some(ProviderEvent::Done(response)) => return Ok(*response),
            None => {
                let error = UppError::invalid_response("the stream ended before the answer was whole");
                return Err(named(provider, error));
            }
        }
    }
}

async fn retried<T, F, Fut>(provider: &dyn Provider, request: &Request, attempt: F) -> Result<T, UppError>
where
    F: Fn(Request) -> Fut,
    Fut: Future<Output = Result<T, UppError>>,
{
    let config = &request.config;
    let mut tries = 0_u32;
    loop {
        tries = tries.saturating_add(1);
        let mut this = request.clone();
        if let Some(keys) = &config.keys {
            this.api_key = Some(keys.next_key().await?);
        }
        let error = match attempt(this).await {
            Ok(answer) => return Ok(answer),
            Err(error) => named(provider, error),
        };
        let retry = config.retry.as_ref();
        let Some(delay) = retry.and_then(|retry| retry.delay(&error, tries, rand::random())) else {
            return Err(error);
        };
        tracing::debug!(%error, tries, ?delay, "the request to the provider is tried again");
        tokio::time::sleep(delay).await;
    }
}

async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, UppError>>,
) -> Result<T, UppError> {
    let Some(limit) = limit else {
        return work.await;
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("the provider sent nothing for {limit:?}");
        Err(UppError::new(ErrorCode::Timeout, message))
    })
}

fn named(provider: &dyn Provider, error: UppError) -> UppError {
    error.with_provider(provider.name())
}
