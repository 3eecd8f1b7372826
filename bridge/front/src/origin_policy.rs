//! Whose pages may call: the ones that are listed, and the front's own.

use axum::extract::Request;
use http::{Method, header};

use crate::{host::RequestHost, refusal::Refusal};

/// The setting with the origins of the bridge: for A2A, and for MCP over HTTP.
pub const BRIDGE_ORIGINS: &str = "the bridge's cors_origins";

/// Whose pages may call.
#[derive(Clone, Copy, Debug)]
pub struct OriginPolicy<'a> {
    /// Origins that are listed.
    pub origins: &'a [String],
    /// The setting that lists them, for refusals.
    pub setting: &'a str,
    /// Where the front is, if that is configured.
    pub public_url: Option<&'a str>,
    /// Whether callers must say who they are.
    pub requires_credentials: bool,
}

impl OriginPolicy<'_> {
    /// Checks that the page that a browser may send a request for may call.
    ///
    /// Browsers keep answers from pages of other origins, but not requests from us. Where everybody may call, the name of
    /// the host proves nothing either: a page can have a name of its own lead to this host. What only reads, and comes
    /// without an origin, may be from such a page: browsers leave it out where a page reads from its own one.
    ///
    /// # Errors
    /// When it may not.
    pub fn check(&self, request: &Request) -> Result<(), Refusal> {
        if let Some(origin) = request.headers().get(header::ORIGIN) {
            return if self.allows_origin(origin.to_str().unwrap_or_default(), request) {
                Ok(())
            } else {
                Err(Refusal::foreign_origin(self.setting))
            };
        }
        let only_reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if self.requires_credentials || !only_reads {
            return Ok(());
        }
        match RequestHost::from_request(request) {
            Ok(host) if !host.is_literal() && !host.is_unregistrable() && !self.is_public(host.as_str()) => {
                Err(Refusal::foreign_host(host.as_str()))
            }
            _ => Ok(()),
        }
    }

    /// Whether this is the host of the configured URL.
    fn is_public(&self, host: &str) -> bool {
        let authority = self.public_url.and_then(|url| url.split('/').nth(2));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    }

    /// Whether pages of this origin may call.
    fn allows_origin(&self, origin: &str, request: &Request) -> bool {
        if self
            .origins
            .iter()
            .any(|allowed| allowed == "*" || allowed == origin)
        {
            return true;
        }
        if self
            .public_url
            .is_some_and(|url| url.split('/').take(3).eq(origin.split('/')))
        {
            return true;
        }
        let Ok(host) = RequestHost::from_request(request) else {
            return false;
        };
        let is_own = origin
            .split_once("://")
            .is_some_and(|(_, authority)| authority == host.as_str());
        is_own && (self.requires_credentials || host.is_literal())
    }
}
