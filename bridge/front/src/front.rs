//! The front of a gateway over HTTP, made of its settings: what its requests come in by, and where it listens.

use std::sync::Arc;

use agentanycast_gateways::front::FrontSettings;
use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
};
use tokio_util::sync::CancellationToken;

use crate::{
    admission::{AdmittedRequest, RequestAdmission, RequestPermit},
    auth::Authenticator,
    client_connection::ClientConnection,
    connection::ConnectionConfig,
    listener::{self, RunningFront},
    origin_policy::OriginPolicy,
    refusal::Refusal,
    request_counts::RequestCounts,
    tls::Tls,
};

/// A front that does not listen yet.
pub struct Front {
    settings: FrontSettings,
    tls: Option<Tls>,
    authenticator: Authenticator,
    small_messages: bool,
    rules: Arc<FrontRules>,
    request_counts: Arc<RequestCounts>,
}

/// What a front is made of, for a gateway that serves by a router with rules of its own.
pub struct FrontParts {
    /// What it was made of.
    pub settings: FrontSettings,
    /// Its TLS, if it has some.
    pub tls: Option<Tls>,
    /// Who may call.
    pub authenticator: Authenticator,
    /// What counts the answers.
    pub request_counts: Arc<RequestCounts>,
}

/// What decides which requests come in. The router of a gateway asks it.
pub struct FrontRules {
    admission: Arc<RequestAdmission>,
    cors_origins: Vec<String>,
    /// The setting with these origins.
    origins_setting: String,
    public_url: String,
    requires_credentials: bool,
    max_body: usize,
}

impl Front {
    /// As the settings say; `request_counts` gets the status of each answer. Refusals name settings without the section that
    /// they are in.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn new(settings: FrontSettings, request_counts: Arc<RequestCounts>) -> anyhow::Result<Self> {
        Self::in_section("", settings, request_counts)
    }

    /// The same. Refusals name settings in this section, such as `gateways.uamp.`.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn in_section(
        section: &str,
        settings: FrontSettings,
        request_counts: Arc<RequestCounts>,
    ) -> anyhow::Result<Self> {
        let authenticator = Authenticator::read(&settings.auth)?;
        let tls = listener::tls(&settings)?;
        let max_body = usize::try_from(settings.max_body.0).unwrap_or(usize::MAX);
        let requires_credentials = authenticator.requires_credentials();
        let admission = RequestAdmission::new(authenticator.clone(), settings.limits.clone(), max_body)
            .with_public_url(&settings.public_url);
        Ok(Self {
            rules: Arc::new(FrontRules {
                admission: Arc::new(admission),
                cors_origins: settings.cors_origins.clone(),
                origins_setting: format!("{section}cors_origins"),
                public_url: settings.public_url.clone(),
                requires_credentials,
                max_body,
            }),
            tls,
            authenticator,
            small_messages: false,
            settings,
            request_counts,
        })
    }

    /// Clients send many small messages on a stream of HTTP/2: one that sends faster than they are taken is slowed.
    #[must_use]
    pub fn with_small_messages(mut self) -> Self {
        self.small_messages = true;
        self
    }

    /// WebSockets of this front take messages of this size, in bytes, which may be larger than bodies.
    #[must_use]
    pub fn with_messages_of(self, max_message: usize) -> Self {
        self.rules.admission.expect_messages(max_message);
        self
    }

    /// Its parts.
    pub fn into_parts(self) -> FrontParts {
        FrontParts {
            settings: self.settings,
            tls: self.tls,
            authenticator: self.authenticator,
            request_counts: self.request_counts,
        }
    }

    /// What decides which requests come in.
    pub fn rules(&self) -> Arc<FrontRules> {
        Arc::clone(&self.rules)
    }

    /// What it was made of.
    pub fn settings(&self) -> &FrontSettings {
        &self.settings
    }

    /// What counts the answers, for those that do not go through [`Front::serve`].
    pub fn request_counts(&self) -> Arc<RequestCounts> {
        Arc::clone(&self.request_counts)
    }

    /// With this TLS in place of the one of its settings, for a protocol with rules of its own.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Listens for `clients` and answers by the routes that `router` makes; their streams end at the token that it is given.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn serve(
        self,
        clients: &str,
        router: impl FnOnce(CancellationToken) -> Router,
    ) -> anyhow::Result<RunningFront> {
        let counts = self.request_counts;
        let counted = move |request: Request, next: Next| {
            let counts = Arc::clone(&counts);
            async move {
                let response = next.run(request).await;
                counts.count(&response);
                response
            }
        };
        let router = |stop| router(stop).layer(middleware::from_fn(counted));
        let connections = ConnectionConfig {
            small_messages: self.small_messages,
            ..ConnectionConfig::new(&self.settings, self.tls)
        };
        RunningFront::start(&self.settings, connections, clients, router).await
    }
}

impl FrontRules {
    /// Lets a request in that a page may send and that somebody stands for.
    ///
    /// # Errors
    /// Why it does not come in.
    pub fn admit<'a>(
        &'a self,
        request: &'a Request,
    ) -> impl Future<Output = Result<AdmittedRequest, Refusal>> + Send + use<'a> {
        let checked = self.pages().check(request);
        // Not the request itself, whose body is for one thread at a time.
        let (headers, extensions) = (request.headers(), request.extensions());
        async move {
            checked?;
            let peer = extensions.get::<ClientConnection>();
            self.admission.admit(headers, peer).await
        }
    }

    /// Lets a request in whose token the gateway checks itself: `prove` gives the caller's name, or why the token is
    /// not good.
    ///
    /// # Errors
    /// Why it does not come in.
    pub fn admit_proven(
        &self,
        request: &Request,
        prove: impl FnOnce() -> Result<String, String>,
    ) -> Result<AdmittedRequest, Refusal> {
        self.pages().check(request)?;
        let peer = request.extensions().get::<ClientConnection>();
        self.admission.admit_proven(peer, prove)
    }

    fn pages(&self) -> OriginPolicy<'_> {
        OriginPolicy {
            origins: &self.cors_origins,
            setting: &self.origins_setting,
            public_url: Some(self.public_url.as_str()).filter(|url| !url.is_empty()),
            requires_credentials: self.requires_credentials,
        }
    }

    /// How clients reach it; empty: the settings do not say.
    pub fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Lets a request in that anybody may make, and says who makes it: what it shows that is not good says nothing.
    ///
    /// # Errors
    /// When its sender has too much.
    pub fn admit_any<'a>(
        &'a self,
        request: &'a Request,
    ) -> impl Future<Output = Result<AdmittedRequest, Refusal>> + Send + use<'a> {
        let (headers, extensions) = (request.headers(), request.extensions());
        let peer = extensions.get::<ClientConnection>();
        self.admission.admit_any(headers, peer)
    }

    /// Lets a request in that anybody may make, such as for a signed manifest.
    ///
    /// # Errors
    /// Why it does not come in.
    pub fn admit_anonymous(&self, request: &Request) -> Result<RequestPermit, Refusal> {
        self.admission
            .admit_anonymous(request.extensions().get::<ClientConnection>())
    }

    /// Largest body of a request, or message of a WebSocket, in bytes.
    pub fn max_body(&self) -> usize {
        self.max_body
    }
}
