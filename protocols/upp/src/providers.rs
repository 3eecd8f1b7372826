//! Adapters to model providers over HTTP. Each is a thin translation, pure and without a connection of its
//! own.
//!
//! | function | provider | key without [`ProviderConfig::api_key`](crate::ProviderConfig::api_key) |
//! |---|---|---|
//! | [`openai`] | OpenAI chat completions, and all that speak it | `OPENAI_API_KEY` |
//! | [`openai_responses`] | OpenAI responses | `OPENAI_API_KEY` |
//! | [`anthropic`] | Anthropic messages | `ANTHROPIC_API_KEY` |
//! | [`gemini`] | Google Gemini | `GEMINI_API_KEY` |
//! | [`ollama`] | Ollama | none |
//! | [`proxy`] | any server of the proxy wire | none |
//!
//! ```no_run
//! use agentanycast_upp::{llm, providers::anthropic};
//!
//! # async fn run() -> Result<(), agentanycast_upp::UppError> {
//! let model = llm(anthropic("claude-haiku-4-5")).param("max_tokens", 1024).build()?;
//! println!("{}", model.generate("Say hello.").await?.text());
//! # Ok(())
//! # }
//! ```
//!
//! Groq, xAI, OpenRouter, llama.cpp and vLLM speak OpenAI's chat completions: [`openai`] with
//! [`ProviderConfig::base_url`](crate::ProviderConfig::base_url).

mod answer_reader;
mod anthropic;
mod chat_answer;
mod dialect;
mod gemini;
mod http_provider;
mod ollama;
mod openai_chat;
mod openai_responses;
mod proxy;
mod reply_json;

pub use self::chat_answer::ChatAnswer;
use self::{dialect::Dialect, http_provider::HttpProvider};
use crate::provider::ModelReference;

fn model_of(dialect: impl Dialect, id: impl Into<String>) -> ModelReference {
    ModelReference::new(HttpProvider::new(dialect), id)
}

/// A model behind OpenAI's chat completions, at `https://api.openai.com/v1` unless the configuration has a
/// base URL.
pub fn openai(model: impl Into<String>) -> ModelReference {
    model_of(openai_chat::OpenAiChat, model)
}

/// A model behind OpenAI's responses, at `https://api.openai.com/v1` unless the configuration has a base URL.
pub fn openai_responses(model: impl Into<String>) -> ModelReference {
    model_of(openai_responses::OpenAiResponses, model)
}

/// A model of Anthropic, at `https://api.anthropic.com` unless the configuration has a base URL. The
/// parameter `max_tokens` is 4096 unless it is given, since Anthropic demands one.
pub fn anthropic(model: impl Into<String>) -> ModelReference {
    model_of(anthropic::Anthropic, model)
}

/// A model of Google, at `https://generativelanguage.googleapis.com` unless the configuration has a base URL.
pub fn gemini(model: impl Into<String>) -> ModelReference {
    model_of(gemini::Gemini, model)
}

/// A model of Ollama, at `http://127.0.0.1:11434` unless the configuration has a base URL.
pub fn ollama(model: impl Into<String>) -> ModelReference {
    model_of(ollama::Ollama, model)
}

/// A model behind a server of the proxy wire ([`crate::wire`]) at this URL.
pub fn proxy(endpoint: impl Into<String>, model: impl Into<String>) -> ModelReference {
    model_of(
        proxy::Proxy {
            endpoint: endpoint.into(),
        },
        model,
    )
}
