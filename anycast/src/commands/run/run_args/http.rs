//! The options of `anycast run --http`.

use clap::{Args as ClapArgs, ValueEnum};

/// How an HTTP service is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// The message is the body of a request, and the answer is the result
    Post,
    /// As post, for a service that takes JSON documents alone
    Json,
    /// A2A 1.0 or 0.3, as the service's card says
    A2a,
    /// Chat completions of OpenAI, below the URL
    Openai,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "HTTP services")]
pub(crate) struct HttpArgs {
    /// Do the tasks by this HTTP service, instead of a program; it may be on this host or a private network
    #[arg(long, value_name = "URL", group = "kind")]
    pub(crate) http: Option<String>,
    /// How the service is spoken to [default: a2a if the service has a card, else post]
    #[arg(long, value_enum, value_name = "STYLE", requires = "http")]
    pub(crate) style: Option<Style>,
    /// The model that is asked for, with --style openai
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) model: Option<String>,
    /// The variable with the key that the service wants as a bearer token; also for --mcp URL
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
}
