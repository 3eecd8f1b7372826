//! Two nodes, one of them with the gateway behind a certificate of its own, and a client that signs envelopes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use agentanycast_tests::{daemon::DaemonBuilder, eventually, within};
use agentanycast_uamp::{
    body::EnvelopeBody,
    delta::{Delta, DeltaType},
    envelope::{EnvelopeDraft, EnvelopeId, Intent},
    jws::{SignatureForm, SigningIdentity},
};
use agentanycast_uamp_gateway::client::{UampClient, UampClientSettings};
use serde_json::Value;
use tempfile::TempDir;

use agentanycast_tests::gateway_pair::GatewayPair;

/// When something that was refused or broke off is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// The scene.
pub(crate) struct UampScene {
    pub(crate) nodes: GatewayPair,
    files: TempDir,
}

/// Certificate and key for `localhost`, in a directory.
pub(crate) fn certify(files: &Path) -> [PathBuf; 2] {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| files.join(name));
    std::fs::write(&cert, pair.cert.pem()).unwrap();
    std::fs::write(&key, pair.key_pair.serialize_pem()).unwrap();
    [cert, key]
}

/// The URI of a skill as a receiver.
pub(crate) fn of_skill(skill: &str) -> String {
    format!("urn:agentanycast:skill:{skill}")
}

impl UampScene {
    pub(crate) async fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let [cert, key] = certify(files.path());
        let settings = format!(
            "[gateways.uamp]\ntls_cert = \"{}\"\ntls_key = \"{}\"\nlimits.rate = 0\n",
            cert.display(),
            key.display()
        );
        Self {
            nodes: GatewayPair::start("uamp", |daemon: DaemonBuilder| daemon.config(&settings)).await,
            files,
        }
    }

    /// The file with the certificate.
    pub(crate) fn cert(&self) -> PathBuf {
        self.files.path().join("cert.pem")
    }

    /// Where the gateway is.
    pub(crate) fn authority(&self) -> String {
        format!("localhost:{}", self.nodes.gateway.gateway("uamp").port())
    }

    /// A client with a new key.
    pub(crate) fn client(&self) -> SigningClient {
        SigningClient::new(&self.authority(), self.cert())
    }
}

/// A client that signs what it sends.
pub(crate) struct SigningClient {
    pub(crate) client: UampClient,
    identity: SigningIdentity,
}

/// What an envelope was answered by.
pub(crate) struct Conversation {
    pub(crate) id: EnvelopeId,
    pub(crate) location: Option<String>,
}

impl SigningClient {
    /// With a new key, of the gateway there, whose certificate is this one.
    pub(crate) fn new(authority: &str, cert: PathBuf) -> Self {
        let settings = UampClientSettings {
            allow_private: true,
            ca: Some(cert),
            ..UampClientSettings::default()
        };
        Self {
            client: UampClient::new(&format!("https://{authority}"), &settings).unwrap(),
            identity: SigningIdentity::from_ed25519(&rand::random()),
        }
    }

    pub(crate) fn draft(intent: Intent, to: &str, text: &str) -> EnvelopeDraft {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let body = EnvelopeBody::text("text/plain", text);
        EnvelopeDraft::new(intent, vec![to.to_owned()], body, now.as_millis() as i64)
    }

    /// Signs an envelope and sends it.
    pub(crate) async fn send(&self, draft: &EnvelopeDraft) -> Conversation {
        let location = within("the envelope is accepted", self.client.send(self.sign(draft)));
        Conversation {
            id: draft.id,
            location: location.await.unwrap(),
        }
    }

    pub(crate) async fn ask(&self, skill: &str, text: &str) -> Conversation {
        self.send(&Self::draft(Intent::Ask, &of_skill(skill), text)).await
    }

    fn sign(&self, draft: &EnvelopeDraft) -> Vec<u8> {
        draft
            .sign_to_bytes(&self.identity, SignatureForm::Detached)
            .unwrap()
    }

    /// All deltas of a stream, until `is_last`.
    pub(crate) async fn follow(&self, location: &str, is_last: impl Fn(&Delta) -> bool) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let followed = async {
            let mut reader = self.client.follow(location, None).await.unwrap();
            while let Some(delta) = reader.next().await.unwrap() {
                let last = is_last(&delta);
                deltas.push(delta);
                if last {
                    return;
                }
            }
        };
        within("the stream ends", followed).await;
        deltas
    }

    /// The last delta of a stream.
    pub(crate) async fn end_of(&self, conversation: &Conversation) -> Delta {
        let location = conversation.location.as_deref().unwrap();
        self.follow(location, |_| false).await.pop().unwrap()
    }

    /// Asks, and follows to the end, whatever breaks off: the envelope is sent again as the same one, the stream is gone on
    /// with behind the last frame.
    pub(crate) async fn insist(&self, skill: &str, text: &str) -> Vec<Delta> {
        let signed = self.sign(&Self::draft(Intent::Ask, &of_skill(skill), text));
        let location = eventually("the envelope is accepted", || async {
            self.client.send(signed.clone()).await.ok().flatten()
        })
        .await;
        let mut deltas = Vec::<Delta>::new();
        let followed = async {
            loop {
                let last = deltas.last().map(|delta| delta.seq);
                if let Ok(mut reader) = self.client.follow(&location, last).await {
                    while let Ok(Some(delta)) = reader.next().await {
                        deltas.push(delta);
                    }
                }
                if deltas.last().is_some_and(is_end) {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        within("the conversation ends", followed).await;
        deltas
    }
}

/// Whether nothing follows.
pub(crate) fn is_end(delta: &Delta) -> bool {
    matches!(delta.kind, DeltaType::Done | DeltaType::Cancel | DeltaType::Error)
}

/// The text of the first result of a `done`.
pub(crate) fn result_of(delta: &Delta) -> String {
    let payload = Value::Object(delta.payload.clone());
    let content = &payload["artifacts"][0]["parts"][0]["content"];
    content.as_str().unwrap_or_else(|| panic!("{payload}")).to_owned()
}
