//! The client: one ask, and its answer to the end, in the forms of UAMP and of A2A.

use agentanycast_uamp::{
    body::EnvelopeBody,
    envelope::{EnvelopeDraft, Intent},
    jws::{SignatureForm, SigningIdentity},
};
use futures::{StreamExt as _, stream};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::{TOKEN, server};

/// How an ask is made.
#[derive(Clone, Copy)]
pub(crate) enum AskForm {
    /// A signed envelope; then its stream to `done`: two requests.
    Uamp,
    /// `message:stream`: one request, whose answer is the stream.
    A2aStream,
    /// `message:send`, which waits for the end; then `GET /tasks/ID`: two requests.
    A2aSendAndGet,
}

/// Asks one server over one connection.
pub(crate) struct AskClient {
    base: String,
    form: AskForm,
    http: Client,
    identity: SigningIdentity,
}

/// The envelope of an ask, signed.
pub(crate) fn envelope(identity: &SigningIdentity) -> Vec<u8> {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let to = vec![server::identity().did().to_owned()];
    let body = EnvelopeBody::text("text/plain", "2+2");
    let draft = EnvelopeDraft::new(Intent::Ask, to, body, now.as_millis() as i64);
    draft.sign_to_bytes(identity, SignatureForm::Detached).unwrap()
}

impl AskClient {
    pub(crate) fn new(base: String, form: AskForm) -> Self {
        let http = Client::builder().danger_accept_invalid_certs(true);
        Self {
            base,
            form,
            http: http.build().unwrap(),
            identity: SigningIdentity::from_ed25519(&[2; 32]),
        }
    }

    pub(crate) async fn run(&self, asks: usize, at_once: usize) {
        stream::iter(0..asks)
            .map(|_| self.ask())
            .buffer_unordered(at_once)
            .collect::<Vec<()>>()
            .await;
    }

    async fn ask(&self) {
        match self.form {
            AskForm::Uamp => {
                let request = self.request(Method::POST, "/v1/messages");
                let response = request.body(envelope(&self.identity)).send().await.unwrap();
                assert_eq!(response.status(), 202);
                let place = response.headers()["location"].to_str().unwrap().to_owned();
                let events = self.request(Method::GET, &place).send().await.unwrap();
                assert!(events.text().await.unwrap().contains("\"done\""));
            }
            AskForm::A2aStream => {
                let events = self.message("/message:stream").await;
                assert!(events.text().await.unwrap().contains("TASK_STATE_COMPLETED"));
            }
            AskForm::A2aSendAndGet => {
                let sent = self.message("/message:send").await.bytes().await.unwrap();
                let sent: Value = serde_json::from_slice(&sent).unwrap();
                let place = format!("/tasks/{}", sent["task"]["id"].as_str().unwrap());
                let task = self.request(Method::GET, &place).send().await.unwrap();
                assert!(task.text().await.unwrap().contains("TASK_STATE_COMPLETED"));
            }
        }
    }

    async fn message(&self, path: &str) -> Response {
        let id = uuid::Uuid::new_v4().to_string();
        let message =
            json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "2+2" }] } });
        let request = self
            .request(Method::POST, path)
            .header("content-type", "application/json");
        let response = request.body(message.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        // UAMP does not know the header.
        request.bearer_auth(TOKEN).header("a2a-version", "1.0")
    }
}
