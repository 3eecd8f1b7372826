//! An HTTP service as an agent, in one of three styles: `post` sends the message as the body of a request, `openai`
//! speaks chat completions, `a2a` speaks A2A.
//!
//! The operator names the URL, so that it may be on this host or a private network. Redirects are not followed, and
//! every answer is bounded.

mod a2a;
mod card;
mod chat;
mod errands;
mod event_lines;
mod history;
mod openai;
mod post;

use std::time::Duration;

pub use agentanycast_gateways::run::HttpStyle;
use agentanycast_gateways::run::shown_url;
use reqwest::{Response, header::CONTENT_TYPE};

use self::{a2a::A2aBackend, card::NoCard, openai::OpenAiBackend, post::PostBackend};
use crate::{Backend, RunError, http_client, task_content::shortened};

/// Most of the answer that an error shows, in bytes.
const ERROR_SHOWN: usize = 4 << 10;

/// A service.
#[derive(Clone)]
pub struct HttpConfig {
    /// Where it is.
    pub url: String,
    /// How it is spoken to; `None`: in A2A if there is a card, else by requests.
    pub style: Option<HttpStyle>,
    /// The model that is asked for, in the style `openai`.
    pub model: Option<String>,
    /// The bearer token that it wants; `None`: none.
    pub token: Option<String>,
    /// Longest result, in bytes.
    pub max_output: usize,
    /// How long the answer to a message may take to begin, in the style `a2a`.
    pub answer_within: Duration,
}

impl HttpConfig {
    /// The backend of this service. Asks the service for its card where the style is not given.
    ///
    /// # Errors
    /// When the URL cannot be called.
    pub async fn backend(self) -> Result<Box<dyn Backend>, RunError> {
        let http = http_client::new().map_err(|error| RunError::new(error.to_string()))?;
        let style = match self.style {
            Some(style) => style,
            None => match card::find(&http, &self.url, self.token.as_deref()).await {
                Ok(_) => HttpStyle::A2a,
                Err(NoCard::None(_)) => {
                    let url = shown_url(&self.url);
                    tracing::info!(url, "the style is post: no A2A card was found");
                    HttpStyle::Post
                }
                Err(NoCard::Unknown(reason)) => {
                    return Err(RunError::new(format!(
                        "whether the service has an A2A card is not known, since it does not answer: {reason}; start it first, or give its style"
                    )));
                }
            },
        };
        Ok(match style {
            HttpStyle::Post => Box::new(PostBackend {
                http,
                url: self.url,
                token: self.token,
                max_output: self.max_output,
            }),
            HttpStyle::OpenAi => Box::new(OpenAiBackend::new(
                http,
                &self.url,
                self.model,
                self.token,
                self.max_output,
            )),
            HttpStyle::A2a => Box::new(A2aBackend::new(http, self)?),
        })
    }
}

/// The media type of an answer; empty: none.
fn media_type_of(answer: &Response) -> String {
    let value = answer.headers().get(CONTENT_TYPE);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

/// The error of an answer that is no result: its status, and the beginning of what it says.
async fn answer_error(mut answer: Response, secret: Option<&str>) -> RunError {
    let status = answer.status();
    if status.is_redirection() {
        return RunError::new(format!(
            "the service answered {status}, and redirects are not followed"
        ));
    }
    let mut said = Vec::new();
    while said.len() < ERROR_SHOWN
        && let Ok(Some(piece)) = answer.chunk().await
    {
        said.extend_from_slice(&piece[..piece.len().min(ERROR_SHOWN - said.len())]);
    }
    let mut said = String::from_utf8_lossy(&said).trim().to_owned();
    if let Some(secret) = secret.filter(|secret| !secret.is_empty()) {
        said = said.replace(secret, "***");
    }
    let said = shortened(&said, ERROR_SHOWN);
    RunError::new(format!(
        "the service answered {status}{}{said}",
        if said.is_empty() { "" } else { ": " }
    ))
}

/// The error of a request that got no answer, or not all of it.
fn broken(error: &reqwest::Error) -> RunError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    RunError::new(if error.is_connect() {
        format!("the service cannot be reached: {cause}")
    } else {
        format!("the service did not answer to the end: {cause}")
    })
}
