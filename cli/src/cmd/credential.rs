//! `anycast credential`: says by a signature what an agent can do, and checks what others say. Without a daemon.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use agentanycast_core::policy::SourceName;
use agentanycast_gateway::{composition::DocumentFetcher, settings::outbound::OutboundConfig};
use agentanycast_identity::{
    self as identity, DidWeb, Document, Keypair, MAX_DOCUMENT, PeerId,
    credential::{
        Credential, Grant, IssuerKeys, MAX_CREDENTIAL, MAX_STATUS_LIST, StatusEntry, StatusList, Suite,
        issuer_keys,
    },
    did_key_of,
};
use agentanycast_node::load_config::{self, LoadedConfig};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use crate::{
    context::Context,
    failure::{CommandFailure, FailureCode},
    message_content, output, parts,
    shared_args::PolicyFile,
};

#[derive(Debug, Subcommand)]
pub(crate) enum CredentialCommand {
    /// Say by a signature that an agent may be trusted and what it can do; prints the credential
    Issue(IssueArgs),
    /// Check a credential: signature, time, and whether it was taken back; exit code 1 if it does not count
    Verify(VerifyArgs),
    /// Sign the list of credentials that were taken back, to be served at its URL; prints the list
    StatusList(StatusListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct IssueArgs {
    /// Whom it is about: an alias, a peer id, or a DID
    #[arg(long)]
    pub(crate) subject: String,
    /// What the subject can do, such as the id of a skill; can be repeated
    #[arg(long = "capability", value_name = "TEXT")]
    pub(crate) capabilities: Vec<String>,
    /// How many days it counts; 0 for ever
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(..=MAX_DAYS))]
    pub(crate) days: u32,
    /// The issuer's key file [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The issuer's did:web, whose document has the key [default: the did:key of the key]
    #[arg(long, value_name = "DID")]
    pub(crate) issuer: Option<String>,
    /// How it is signed: Ed25519Signature2020 is what nodes of version 0.7 check
    #[arg(long, value_enum, default_value_t = SuiteName::EddsaJcs2022)]
    pub(crate) suite: SuiteName,
    /// The https URL of the list that says whether it was taken back
    #[arg(long, value_name = "URL", requires = "status_index", value_parser = https_url)]
    pub(crate) status_list: Option<String>,
    /// Its entry in that list, 0 to 131071
    #[arg(long, value_name = "N", requires = "status_list", value_parser = clap::value_parser!(u32).range(..=131_071))]
    pub(crate) status_index: Option<u32>,
}

/// A way to sign credentials.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SuiteName {
    #[value(name = "eddsa-jcs-2022")]
    EddsaJcs2022,
    #[value(name = "Ed25519Signature2020")]
    Ed25519Signature2020,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The credential; - for standard input
    pub(crate) file: PathBuf,
    /// It has to be of this issuer, a DID
    #[arg(long, value_name = "DID")]
    pub(crate) issuer: Option<String>,
    #[command(flatten)]
    pub(crate) file_of_settings: PolicyFile,
}

#[derive(Debug, Args)]
pub(crate) struct StatusListArgs {
    /// Where it will be, as the credentials name it
    #[arg(long, value_parser = https_url)]
    pub(crate) url: String,
    /// An entry that was taken back; can be repeated
    #[arg(long = "revoke", value_name = "N")]
    pub(crate) revoked: Vec<usize>,
    /// How many days it counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=MAX_DAYS))]
    pub(crate) days: u32,
    /// The issuer's key file [default: the home's]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The issuer's did:web [default: the did:key of the key]
    #[arg(long, value_name = "DID")]
    pub(crate) issuer: Option<String>,
}

/// A hundred years.
const MAX_DAYS: i64 = 36_500;

/// Lists are asked for over https, and nobody checks another one.
fn https_url(given: &str) -> Result<String, String> {
    match given.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() => Ok(given.to_owned()),
        _ => Err("a status list has an URL that begins with https://".to_owned()),
    }
}

/// How long a document may take.
const WITHIN: Duration = Duration::from_secs(15);

const DAY_MS: u64 = 24 * 3600 * 1000;

pub(crate) async fn run(context: &Context, command: CredentialCommand) -> Result<(), CommandFailure> {
    match command {
        CredentialCommand::Issue(args) => issue(context, args),
        CredentialCommand::Verify(args) => verify(context, args).await,
        CredentialCommand::StatusList(args) => status_list(context, args),
    }
}

fn failed(error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::new(FailureCode::General, "Credential", error.to_string())
}

/// Signs a credential and prints it.
fn issue(context: &Context, args: IssueArgs) -> Result<(), CommandFailure> {
    let key = context.key(args.key.as_deref())?;
    let status = args.status_list.map(|list| StatusEntry {
        list,
        index: args.status_index.unwrap_or_default() as usize,
        purpose: "revocation".to_owned(),
    });
    let now = now();
    let grant = Grant {
        id: format!("urn:uuid:{}", uuid::Uuid::new_v4()),
        issuer: issuer(args.issuer, &key)?,
        subject: subject(&context.alias(&args.subject)?.unwrap_or(args.subject))?,
        capabilities: args.capabilities,
        from_ms: now,
        until_ms: (args.days > 0).then(|| now + u64::from(args.days) * DAY_MS),
        status,
    };
    let signed = grant.sign(&key, args.suite.into(), now).map_err(failed)?;
    Ok(output::raw_json(&signed)?)
}

/// Signs the list that says which credentials were taken back, and prints it.
fn status_list(context: &Context, args: StatusListArgs) -> Result<(), CommandFailure> {
    let key = context.key(args.key.as_deref())?;
    let mut list = StatusList::new("revocation");
    if let Some(beyond) = args.revoked.into_iter().find(|index| !list.set(*index)) {
        return Err(CommandFailure::usage(format!(
            "--revoke {beyond}: a list has entries 0 to 131071"
        )));
    }
    let for_ms = u64::from(args.days) * DAY_MS;
    let signed = list.sign(&args.url, &issuer(args.issuer, &key)?, &key, now(), for_ms);
    Ok(output::raw_json(&signed.map_err(failed)?)?)
}

/// Says whether a credential counts. It is an error if it does not.
async fn verify(context: &Context, args: VerifyArgs) -> Result<(), CommandFailure> {
    let bytes = message_content::read_limited(&args.file, MAX_CREDENTIAL as u64)?;
    let credential = Credential::read(&bytes).map_err(failed)?;
    let grant = credential.grant();
    if let Some(wanted) = args.issuer.filter(|wanted| *wanted != grant.issuer) {
        return Err(failed(format!(
            "it is issued by {}, not by {wanted}",
            grant.issuer
        )));
    }
    let parts =
        parts::get().ok_or_else(|| CommandFailure::usage("this program has no client for documents"))?;
    let outside = parts.composition.outside;
    let fetcher = outside
        .fetcher(&outbound(context, &args.file_of_settings)?)
        .map_err(failed)?;
    let keys = keys(&*fetcher, &grant.issuer).await?;
    credential.check(&keys, now()).map_err(failed)?;
    if let Some(entry) = &grant.status {
        let list = fetcher
            .get(&entry.list, MAX_STATUS_LIST, WITHIN)
            .await
            .map_err(failed)?;
        let list = StatusList::read(&list, &grant.issuer, &keys, now()).map_err(failed)?;
        list.check(entry).map_err(failed)?;
    }
    let until = grant.until_ms.and_then(shown);
    if context.json {
        return Ok(output::json(&json!({
            "valid": true,
            "issuer": grant.issuer,
            "subject": grant.subject,
            "capabilities": grant.capabilities,
            "valid_until": until,
            "status_checked": grant.status.is_some(),
            "suite": credential.suite().to_string(),
        }))?);
    }
    Ok(output::fields(&[
        ("issuer", grant.issuer.clone()),
        ("subject", grant.subject.clone()),
        ("can", grant.capabilities.join(", ")),
        ("until", until.unwrap_or_else(|| "for ever".to_owned())),
        (
            "status",
            if grant.status.is_some() {
                "not taken back"
            } else {
                "cannot be taken back"
            }
            .to_owned(),
        ),
        ("signed by", credential.suite().to_string()),
    ])?)
}

/// The keys of an issuer: its name, or its document's.
async fn keys(fetcher: &dyn DocumentFetcher, issuer: &str) -> Result<IssuerKeys, CommandFailure> {
    let Ok(did) = issuer.parse::<DidWeb>() else {
        return Ok(issuer_keys(issuer, None));
    };
    let document = fetcher
        .get(&did.url(), MAX_DOCUMENT, WITHIN)
        .await
        .map_err(failed)?;
    let document = Document::read(issuer, &document).map_err(failed)?;
    Ok(issuer_keys(issuer, Some(&document)))
}

/// Who is called: as given, or by the key.
fn issuer(given: Option<String>, key: &Keypair) -> Result<String, CommandFailure> {
    let by_key = did_key_of(identity::peer_id(key)).ok_or_else(|| failed("the key is not an Ed25519 key"))?;
    given.map_or(Ok(by_key), |given| as_compared("--issuer", given))
}

/// A peer id stands for its did:key.
fn subject(given: &str) -> Result<String, CommandFailure> {
    if given.starts_with("did:") || is_of_a_domain(given) {
        return as_compared("--subject", given.to_owned());
    }
    let peer: Option<PeerId> = given.parse().ok();
    peer.and_then(did_key_of)
        .ok_or_else(|| CommandFailure::usage(format!("{given:?} is no subject; give a DID or a peer id")))
}

/// A DID, which has to be written as it is compared if it is of a domain: nobody would be found by another spelling.
fn as_compared(option: &str, given: String) -> Result<String, CommandFailure> {
    if is_of_a_domain(&given) {
        let name = given.parse::<SourceName>();
        name.map_err(|error| CommandFailure::usage(format!("{option}: {error}")))?;
    }
    Ok(given)
}

fn is_of_a_domain(given: &str) -> bool {
    let is_of = |scheme: &&str| {
        let begin = given.get(..scheme.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    ["did:web:", "did:dns:"].iter().any(is_of)
}

/// What the daemon's settings know of other hosts.
fn outbound(context: &Context, file: &PolicyFile) -> Result<OutboundConfig, CommandFailure> {
    let mut args = vec!["agentanycastd".into()];
    if let Some(path) = context.settings(file)? {
        args.extend(["--config".into(), path.into()]);
    }
    match load_config::reload(&args).1 {
        Ok(LoadedConfig::Run { config, .. }) => Ok(config.outbound),
        Ok(_) => Err(CommandFailure::usage("these are no settings of a daemon")),
        Err(error) => Err(CommandFailure::usage(error.to_string())),
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as u64
}

fn shown(ms: u64) -> Option<String> {
    let at = jiff::Timestamp::from_second(i64::try_from(ms / 1000).ok()?).ok()?;
    Some(at.to_string())
}

impl From<SuiteName> for Suite {
    fn from(name: SuiteName) -> Self {
        match name {
            SuiteName::EddsaJcs2022 => Self::EddsaJcs2022,
            SuiteName::Ed25519Signature2020 => Self::Ed25519Signature2020,
        }
    }
}
