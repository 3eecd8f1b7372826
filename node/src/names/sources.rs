//! Asks: the web for documents and status lists, the DNS for records. Every question is bounded in time and size.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use agentanycast_identity::{DidDns, Document, MAX_DOCUMENT, MAX_TXT, credential::MAX_STATUS_LIST};
use agentanycast_program::resolver;
use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::RData,
};

use super::{
    claims::Source,
    roll::{Failure, Said},
};
use crate::bridge::{FetchError, Fetcher};

/// How long a document may take, from the name of its host to its end.
pub(super) const WEB_WITHIN: Duration = Duration::from_secs(8);

/// How long the DNS may take, and one of its servers.
const DNS_WITHIN: Duration = Duration::from_secs(8);
const SERVER_WITHIN: Duration = Duration::from_secs(3);

/// A name server that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address of a name server, such as 192.0.2.53 or 192.0.2.53:5353")]
pub struct BadNameServer;

/// The DNS as it is asked. The settings of the system are read for each question, since they change while a daemon runs.
#[derive(Clone)]
pub struct Dns {
    /// None: those of the system.
    server: Option<ResolverConfig>,
}

impl Dns {
    /// By this server (`IP` or `IP:PORT`), or by those of the system if that is empty.
    ///
    /// # Errors
    /// [`BadNameServer`]. That the system has no servers is an error of each question.
    pub fn new(server: &str) -> Result<Self, BadNameServer> {
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
    /// [`BadNameServer`].
    pub fn check(server: &str) -> Result<(), BadNameServer> {
        if server.is_empty() {
            return Ok(());
        }
        name_server(server).map(drop)
    }

    async fn peers(&self, name: &DidDns) -> Result<Said, Failure> {
        let failure = |why: String, is_passing| Failure { why, is_passing };
        let resolver = self
            .resolver()
            .map_err(|error| failure(error.to_string(), true))?;
        let asked = tokio::time::timeout(DNS_WITHIN, resolver.txt_lookup(name.record_name())).await;
        let found = match asked {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let says_no = error.is_no_records_found() || error.is_nx_domain();
                return Err(failure(error.to_string(), !says_no));
            }
            Err(_) => return Err(failure(format!("no answer within {DNS_WITHIN:?}"), true)),
        };
        let records = found.answers().iter().filter_map(|record| match &record.data {
            RData::TXT(text) => Some(text.txt_data.concat()),
            _ => None,
        });
        let records: Vec<Vec<u8>> = records.take(MAX_TXT).collect();
        Ok(Said::Peers(DidDns::peers_named(
            records.iter().map(Vec::as_slice),
        )))
    }
}

/// Answers are kept by the roll, which knows who needs them.
fn set(options: &mut ResolverOpts) {
    options.cache_size = 0;
    options.timeout = SERVER_WITHIN;
    options.attempts = 2;
}

/// The address of a name server.
///
/// # Errors
/// [`BadNameServer`].
fn name_server(text: &str) -> Result<SocketAddr, BadNameServer> {
    let alone = || Some(SocketAddr::from((text.parse::<IpAddr>().ok()?, 53)));
    let address = text.parse().ok().or_else(alone);
    address.ok_or(BadNameServer)
}

/// All that can be asked.
pub(super) struct Sources {
    web: Fetcher,
    dns: Dns,
}

impl Sources {
    pub(super) fn new(web: Fetcher, dns: Dns) -> Self {
        Self { web, dns }
    }

    /// What a source says.
    pub(super) async fn ask(&self, source: &Source) -> Result<Said, Failure> {
        let failed = |error: FetchError| Failure {
            is_passing: error.is_passing,
            why: error.to_string(),
        };
        match source {
            Source::Web(did) => {
                let bytes = self
                    .web
                    .get(&did.url(), MAX_DOCUMENT, WEB_WITHIN)
                    .await
                    .map_err(failed)?;
                let read = Document::read(&did.to_string(), &bytes);
                let document = read.map_err(|error| Failure {
                    why: error.to_string(),
                    is_passing: false,
                })?;
                Ok(Said::Document(document))
            }
            Source::Dns(did) => self.dns.peers(did).await,
            Source::List(url) => {
                let list = self
                    .web
                    .get(url, MAX_STATUS_LIST, WEB_WITHIN)
                    .await
                    .map_err(failed)?;
                Ok(Said::List(list))
            }
        }
    }
}
