//! Trial certificates of other gateways, pinned by their keys: the first one that a private host shows counts, and
//! from then on no other. Used by the tasks that go out.
//!
//! Invariant: a key is kept only after the server has proven that it has it; only certificates count that a gateway
//! made for its DID and signed itself, all others have to lead to a root.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agentanycast_egress::client::CertificatePins;
use agentanycast_uamp::canonical::hex;
use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

use super::private_file;

/// The file in the home: a line for each agent, with its host and the hash of its key.
const FILE: &str = "uamp-known-agents";

/// Largest file, in bytes, and most agents in it.
const MAX_FILE: u64 = 1 << 20;
const MOST: usize = 4096;

/// The keys of agents by their hosts.
#[derive(Debug)]
pub(super) struct KnownAgents {
    /// `None`: they are kept for this process.
    file: Option<PathBuf>,
    keys: Mutex<BTreeMap<String, String>>,
}

impl KnownAgents {
    /// Those of a home.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn of(home: Option<&Path>) -> anyhow::Result<Arc<Self>> {
        let file = home.map(|home| home.join(FILE));
        let text = file.as_deref().map(|file| private_file::read(file, MAX_FILE));
        let text = text
            .transpose()
            .with_context(|| format!("the keys of agents of UAMP in {}", shown(file.as_deref())))?;
        let text = text.flatten().unwrap_or_default();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let keys = lines.filter_map(|line| line.split_once(' '));
        let keys = keys.map(|(host, key)| (host.to_owned(), key.trim().to_owned()));
        Ok(Arc::new(Self {
            keys: Mutex::new(keys.take(MOST).collect()),
            file,
        }))
    }

    /// The pins of one host. `may_learn`: the first trial certificate that it shows is taken.
    pub(super) fn pins(self: &Arc<Self>, host: &str, may_learn: bool) -> Arc<dyn CertificatePins> {
        Arc::new(HostPins {
            known: Arc::clone(self),
            host: host.to_owned(),
            may_learn,
        })
    }

    fn keys(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, host: &str, key: &str) {
        let mut keys = self.keys();
        if keys.contains_key(host) {
            return;
        }
        if keys.len() >= MOST {
            tracing::warn!(host, "the key of an agent of UAMP is not kept: {MOST} are known");
            return;
        }
        keys.insert(host.to_owned(), key.to_owned());
        let mut text =
            "# Agents of UAMP whose trial certificates this node has taken: host, hash of the key.\n"
                .to_owned();
        for (host, key) in &*keys {
            let _ = writeln!(text, "{host} {key}");
        }
        let written = self
            .file
            .as_deref()
            .map_or(Ok(()), |file| private_file::write(file, &text));
        match written {
            Ok(()) => tracing::warn!(
                host,
                key,
                "the trial certificate of an agent of UAMP is taken from now on"
            ),
            Err(error) => tracing::warn!(host, %error, "the key of an agent of UAMP could not be kept"),
        }
    }
}

fn shown(file: Option<&Path>) -> String {
    file.map_or_else(|| FILE.to_owned(), |file| file.display().to_string())
}

/// The hash of the key of a trial certificate; `None`: it is another certificate.
fn trial_key(certificate: &[u8]) -> Option<String> {
    let (_, read) = X509Certificate::from_der(certificate).ok()?;
    let names = read.subject_alternative_name().ok().flatten()?;
    let is_of_did =
        |name: &GeneralName<'_>| matches!(name, GeneralName::URI(uri) if uri.starts_with("did:key:"));
    let is_trial = read.issuer() == read.subject() && names.value.general_names.iter().any(is_of_did);
    let hash = || format!("sha256:{}", hex(&Sha256::digest(read.public_key().raw)));
    is_trial.then(hash)
}

#[derive(Debug)]
struct HostPins {
    known: Arc<KnownAgents>,
    host: String,
    may_learn: bool,
}

impl CertificatePins for HostPins {
    fn check(&self, certificate: &[u8]) -> Result<bool, String> {
        let Some(shown_key) = trial_key(certificate) else {
            return Ok(false);
        };
        match self.known.keys().get(&self.host) {
            Some(known) if *known == shown_key => Ok(true),
            Some(known) => Err(format!(
                "its trial certificate has the key {shown_key}, and this node knows it by {known}; if it made a new \
                 one, remove the line of {} in {} and restart",
                self.host,
                shown(self.known.file.as_deref())
            )),
            None if self.may_learn => Ok(true),
            None => Err(
                "its certificate is one that it made itself, for trials; to private hosts such a one is taken at \
                 the first contact (set gateways.uamp.outbound_private = true), else set its file in \
                 gateways.uamp.outbound_ca"
                    .to_owned(),
            ),
        }
    }

    fn proven(&self, certificate: &[u8]) {
        if let Some(key) = trial_key(certificate).filter(|_| self.may_learn) {
            self.known.learn(&self.host, &key);
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(uri: Option<&str>) -> Vec<u8> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let names = uri.map(|uri| SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(names);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        made.der().to_vec()
    }

    #[test]
    fn the_first_trial_certificate_of_a_host_counts_also_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let known = || KnownAgents::of(Some(home.path())).unwrap();
        let (first, second) = (certificate(Some("did:key:zA")), certificate(Some("did:key:zA")));
        let pins = known().pins("h:1", true);
        assert_eq!(pins.check(&first), Ok(true));
        assert_eq!(pins.check(&second), Ok(true), "none is proven yet");
        pins.proven(&first);
        for known in [pins, known().pins("h:1", true), known().pins("h:1", false)] {
            assert_eq!(known.check(&first), Ok(true));
            let refused = known.check(&second).unwrap_err();
            assert!(
                refused.contains("uamp-known-agents") && refused.contains("h:1"),
                "{refused}"
            );
            known.proven(&second);
        }
        assert_eq!(known().pins("h:2", true).check(&second), Ok(true), "another host");
        let refused = known().pins("h:2", false).check(&second).unwrap_err();
        assert!(refused.contains("outbound_ca"), "{refused}");
    }

    #[test]
    fn other_certificates_have_to_lead_to_a_root() {
        let pins = KnownAgents::of(None).unwrap().pins("h:1", true);
        for other in [
            certificate(None),
            certificate(Some("spiffe://x")),
            b"nonsense".to_vec(),
        ] {
            assert_eq!(pins.check(&other), Ok(false));
            pins.proven(&other);
        }
        assert_eq!(
            pins.check(&certificate(Some("did:key:zA"))),
            Ok(true),
            "nothing was kept"
        );
    }
}
