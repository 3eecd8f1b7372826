//! Whether an envelope is of whom it says: by a `did:key`, a trust anchor, the client certificate of its connection,
//! or the document of a `did:web`.
//!
//! Invariant: a document is fetched only for an envelope that none of the other keys verifies.

use std::sync::Arc;

use agentanycast_daemon_kit::hot_reload::HotReload;
use agentanycast_front::{
    admission::AdmittedRequest, auth::ClientCertificate, client_connection::ClientConnection,
};
use agentanycast_gateway::caller::CallerIdentity;
use agentanycast_uamp::{envelope::Envelope, error::UampError, key::VerificationKey, trust::TrustAnchors};
use http::Extensions;

use super::UampHandler;
use crate::{certified_keys::CertifiedKeys, did_web::DidWebKeys};

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct UampSender {
    /// Who it is to the front.
    pub(crate) caller: CallerIdentity,
    /// The certificate that its TLS has shown.
    certificate: Option<ClientCertificate>,
}

impl UampSender {
    /// Of a request that was let in; `extensions` are those of the request.
    pub(crate) fn new(admitted: &AdmittedRequest, extensions: &Extensions) -> Self {
        let connection = extensions.get::<ClientConnection>();
        Self {
            caller: (&admitted.caller).into(),
            certificate: connection.and_then(|connection| connection.certificate.clone()),
        }
    }
}

/// What a good signature says.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoodSignature {
    /// It covers the body.
    pub(super) covers_body: bool,
    /// It is of a sender that the operator has named, by its key among the trust anchors. Anybody can make other DIDs.
    pub(super) is_of_known: bool,
}

/// Where keys of senders come from that are not `did:key`.
pub(crate) struct KeySources {
    /// The file of the settings.
    pub(crate) anchors: Option<HotReload<Arc<TrustAnchors>>>,
    /// Certificates of clients.
    pub(crate) certified: Arc<CertifiedKeys>,
    /// Documents; `None`: the setting is off.
    pub(crate) did_web: Option<DidWebKeys>,
}

impl UampHandler {
    /// Checks the signature.
    pub(super) async fn verify(
        &self,
        sender: &UampSender,
        envelope: &Envelope,
        now_ms: i64,
    ) -> Result<GoodSignature, UampError> {
        Ok(GoodSignature {
            covers_body: self.covers_body(sender, envelope, now_ms).await?,
            is_of_known: self.anchors().knows(envelope.from()),
        })
    }

    async fn covers_body(
        &self,
        sender: &UampSender,
        envelope: &Envelope,
        now_ms: i64,
    ) -> Result<bool, UampError> {
        let (anchors, from) = (self.anchors(), envelope.from());
        let mut more: Vec<(String, VerificationKey)> = Vec::new();
        if let Some(certificate) = &sender.certificate
            && !from.starts_with("did:key:")
        {
            let keys = self.keys.certified.keys_for(certificate, from, now_ms);
            more.extend(keys.into_iter().map(|key| (from.to_owned(), key)));
        }
        let verified = self.verify_by(&anchors, envelope, &more);
        let Some(documents) = &self.keys.did_web else {
            return verified;
        };
        if verified.is_ok() || !from.starts_with("did:web:") || anchors.knows(from) {
            return verified;
        }
        let document = documents.keys(from).await?;
        self.verify_by(&anchors, envelope, &document)
    }

    /// By the trust anchors and these keys.
    fn verify_by(
        &self,
        anchors: &TrustAnchors,
        envelope: &Envelope,
        more: &[(String, VerificationKey)],
    ) -> Result<bool, UampError> {
        let keys = anchors.keys_with(envelope.from(), &envelope.signature()?, more)?;
        let mut last = Ok(());
        for key in &keys {
            last = envelope.verify(key);
            if last.is_ok() {
                return Ok(true);
            }
        }
        let compat = &self.settings.compat_uamp_js_hash;
        if compat.iter().any(|from| from == envelope.from())
            && keys.iter().any(|key| envelope.verify_allow_list(key).is_ok())
        {
            return Ok(false);
        }
        last.map(|()| true)
    }
}
