//! Asks: the web for documents and status lists, the DNS for records. Every question is bounded in time and size.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use agentanycast_daemon_kit::resolver;
use agentanycast_identity::{DidDns, Document, MAX_DOCUMENT, MAX_TXT, credential::MAX_STATUS_LIST};
use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::RData,
};

use super::{
    cache::{LookupFailure, SourceAnswer},
    claims::ClaimSource,
};
use agentanycast_gateway::composition::{DocumentFetcher, FetchError};

/// How long a document may take, from the name of its host to its end.
pub(super) const WEB_TIMEOUT: Duration = Duration::from_secs(8);

/// How long the DNS may take, and one of its servers.
const DNS_TIMEOUT: Duration = Duration::from_secs(8);
const DNS_SERVER_TIMEOUT: Duration = Duration::from_secs(3);

/// A name server that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address of a name server, such as 192.0.2.53 or 192.0.2.53:5353")]
pub struct InvalidNameServer;

/// The DNS as it is asked. The settings of the system are read for each question, since they change while a daemon runs.
#[derive(Clone)]
pub struct DnsResolver {
    /// None: those of the system.
    server: Option<ResolverConfig>,
}

impl DnsResolver {
    /// By this server (`IP` or `IP:PORT`), or by those of the system if that is empty.
    ///
    /// # Errors
    /// [`InvalidNameServer`]. That the system has no servers is an error of each question.
    pub fn new(server: &str) -> Result<Self, InvalidNameServer> {
        if server.is_empty() {
            return Ok(Self { server: None });
        }
        let address = name_server(server)?;
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = address.port();
            connection
        });
        let server = NameServerConfig::new(address.ip(), true, connections.to_vec());
        Ok(Self {
            server: Some(ResolverConfig::from_parts(None, Vec::new(), vec![server])),
        })
    }

    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let Some(server) = self.server.clone() else {
            return resolver::of_system(set);
        };
        let mut builder = TokioResolver::builder_with_config(server, TokioRuntimeProvider::default());
        set(builder.options_mut());
        builder.build()
    }

    /// Whether this can be a server.
    ///
    /// # Errors
    /// [`InvalidNameServer`].
    pub fn check(server: &str) -> Result<(), InvalidNameServer> {
        if server.is_empty() {
            return Ok(());
        }
        name_server(server).map(drop)
    }

    async fn peers(&self, name: &DidDns) -> Result<SourceAnswer, LookupFailure> {
        let failure = |why: String, is_passing| LookupFailure {
            why,
            is_temporary: is_passing,
        };
        let resolver = self
            .resolver()
            .map_err(|error| failure(error.to_string(), true))?;
        let asked = tokio::time::timeout(DNS_TIMEOUT, resolver.txt_lookup(name.record_name())).await;
        let found = match asked {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let says_no = error.is_no_records_found() || error.is_nx_domain();
                return Err(failure(error.to_string(), !says_no));
            }
            Err(_) => return Err(failure(format!("no answer within {DNS_TIMEOUT:?}"), true)),
        };
        let records = found.answers().iter().filter_map(|record| match &record.data {
            RData::TXT(text) => Some(text.txt_data.concat()),
            _ => None,
        });
        let records: Vec<Vec<u8>> = records.take(MAX_TXT).collect();
        Ok(SourceAnswer::Peers(DidDns::peers_named(
            records.iter().map(Vec::as_slice),
        )))
    }
}

/// Answers are kept by the roll, which knows who needs them.
fn set(options: &mut ResolverOpts) {
    options.cache_size = 0;
    options.timeout = DNS_SERVER_TIMEOUT;
    options.attempts = 2;
}

/// The address of a name server.
///
/// # Errors
/// [`InvalidNameServer`].
fn name_server(text: &str) -> Result<SocketAddr, InvalidNameServer> {
    let alone = || Some(SocketAddr::from((text.parse::<IpAddr>().ok()?, 53)));
    let address = text.parse().ok().or_else(alone);
    address.ok_or(InvalidNameServer)
}

/// All that can be asked.
pub(super) struct Resolvers {
    web: Arc<dyn DocumentFetcher>,
    dns: DnsResolver,
}

impl Resolvers {
    pub(super) fn new(web: Arc<dyn DocumentFetcher>, dns: DnsResolver) -> Self {
        Self { web, dns }
    }

    /// What a source says.
    pub(super) async fn ask(&self, source: &ClaimSource) -> Result<SourceAnswer, LookupFailure> {
        let failed = |error: FetchError| LookupFailure {
            is_temporary: error.is_transient,
            why: error.to_string(),
        };
        match source {
            ClaimSource::Web(did) => {
                let bytes = self
                    .web
                    .get(&did.url(), MAX_DOCUMENT, WEB_TIMEOUT)
                    .await
                    .map_err(failed)?;
                let read = Document::read(&did.to_string(), &bytes);
                let document = read.map_err(|error| LookupFailure {
                    why: error.to_string(),
                    is_temporary: false,
                })?;
                Ok(SourceAnswer::Document(document))
            }
            ClaimSource::Dns(did) => self.dns.peers(did).await,
            ClaimSource::StatusList(url) => {
                let list = self
                    .web
                    .get(url, MAX_STATUS_LIST, WEB_TIMEOUT)
                    .await
                    .map_err(failed)?;
                Ok(SourceAnswer::List(list))
            }
        }
    }
}
