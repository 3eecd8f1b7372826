//! An HTTP service as an agent, in one of four styles: `post` sends the message as the body of a request, `json`
//! does so with a JSON document, `openai` speaks chat completions, `a2a` speaks A2A.
//!
//! The operator names the URL, so that it may be on this host or a private network. Redirects are not followed, and
//! every answer is bounded.

mod a2a;
mod card;
mod chat;
mod errands;
mod history;
mod openai;
mod post;

use std::time::Duration;

pub use agentanycast_gateways::run::HttpStyle;
use agentanycast_gateways::run::shown_url;
use agentanycast_readers::{
    body::{readable, words},
    excerpt::excerpt,
    json::without_bom,
};
use reqwest::{
    Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

use self::{
    a2a::A2aBackend,
    card::NoCard,
    openai::OpenAiBackend,
    post::{PostBackend, PostForm},
};
use crate::{Backend, RunError, host_want::is_passing, http_client, task_content::shortened};

/// Most of the answer that an error shows, in bytes.
const ERROR_SHOWN: usize = 4 << 10;

/// Most of the answer that is read for an error, in bytes: pages have long heads.
const ERROR_READ: usize = 64 << 10;

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
            HttpStyle::Post | HttpStyle::Json => Box::new(PostBackend {
                http,
                url: self.url,
                token: self.token,
                max_output: self.max_output,
                form: PostForm::of(style),
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

/// Refuses an answer in an encoding that was not asked for, other than gzip.
fn check_encoding(answer: &Response) -> Result<(), RunError> {
    match encoding_of(answer).as_str() {
        "" | "identity" | "gzip" | "x-gzip" => Ok(()),
        other => Err(RunError::new(format!(
            "the service packed its answer with `{}`, which was not asked for",
            excerpt(other.as_bytes())
        ))),
    }
}

/// How an answer is packed; empty: the service does not say.
fn encoding_of(answer: &Response) -> String {
    let value = answer.headers().get(CONTENT_ENCODING);
    let value = value.map(|value| {
        String::from_utf8_lossy(value.as_bytes())
            .trim()
            .to_ascii_lowercase()
    });
    value.unwrap_or_default()
}

/// An answer that is no result.
struct AnswerError {
    /// Its status, and the beginning of what it says.
    error: RunError,
    /// The beginning of what it says.
    body: String,
}

/// The error of an answer that is no result.
async fn answer_error(mut answer: Response, secret: Option<&str>) -> AnswerError {
    let status = answer.status();
    if status.is_redirection() {
        let error = RunError::new(format!(
            "the service answered {status}, and redirects are not followed"
        ));
        return AnswerError {
            error,
            body: String::new(),
        };
    }
    let (media_type, encoding) = (media_type_of(&answer), encoding_of(&answer));
    let mut packed = Vec::new();
    while packed.len() < ERROR_READ
        && let Ok(Some(piece)) = answer.chunk().await
    {
        packed.extend_from_slice(&piece[..piece.len().min(ERROR_READ - packed.len())]);
    }
    let said = readable(&packed, &media_type, &encoding);
    let said = without_bom(&said);
    let mut body = match said.trim_ascii_start().first() {
        // Of a page only its text is shown.
        Some(b'<') => words(said),
        _ => String::from_utf8_lossy(said).trim().to_owned(),
    };
    if let Some(secret) = secret.filter(|secret| !secret.is_empty()) {
        body = body.replace(secret, "***");
    }
    let body = shortened(&body, ERROR_SHOWN);
    let error = RunError::new(format!(
        "the service answered {status}{}{body}",
        if body.is_empty() { "" } else { ": " }
    ));
    AnswerError { error, body }
}

/// The error of a request that got no answer, or not all of it.
fn broken(error: &reqwest::Error) -> RunError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if !error.is_connect() {
        return RunError::new(format!("the service did not answer to the end: {cause}"));
    }
    let text = format!("the service cannot be reached: {cause}");
    match cause.downcast_ref::<std::io::Error>() {
        Some(want) if is_passing(want) => RunError::unstarted(text),
        _ => RunError::new(text),
    }
}
