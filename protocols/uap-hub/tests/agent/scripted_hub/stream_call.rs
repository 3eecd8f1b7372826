//! A streaming call of an agent, in the hands of the test.

use agentanycast_uap_hub::v1::{TestInit, TestResponse, TestState, TestStatus, test_response};
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Status, Streaming, metadata::MetadataMap};

use super::within;

/// What a hub sends on a call.
pub(super) type Responses<O> = mpsc::Receiver<Result<O, Status>>;

/// A streaming call.
#[derive(Debug)]
pub(crate) struct StreamCall<I, O> {
    pub(crate) metadata: MetadataMap,
    incoming: Streaming<I>,
    /// Takes the responses, or how the call is refused.
    answer: Option<oneshot::Sender<Result<Responses<O>, Status>>>,
    responses: Option<mpsc::Sender<Result<O, Status>>>,
}

impl<I, O> StreamCall<I, O> {
    /// The call of `request`, and where its response comes from.
    pub(super) fn new(
        request: Request<Streaming<I>>,
    ) -> (Self, oneshot::Receiver<Result<Responses<O>, Status>>) {
        let (answer, answered) = oneshot::channel();
        let (metadata, _, incoming) = request.into_parts();
        let call = Self {
            metadata,
            incoming,
            answer: Some(answer),
            responses: None,
        };
        (call, answered)
    }

    /// Sends the response headers.
    pub(crate) fn accept(&mut self) {
        let (responses, receiver) = mpsc::channel(16);
        self.responses = Some(responses);
        self.answer.take().unwrap().send(Ok(receiver)).unwrap();
    }

    /// Ends the call, with an error before or after its headers.
    pub(crate) async fn fail(mut self, status: Status) {
        match self.answer.take() {
            Some(answer) => answer.send(Err(status)).unwrap(),
            None => within(self.responses.take().unwrap().send(Err(status)))
                .await
                .unwrap(),
        }
    }

    /// Sends `message`, with the response headers if they are not sent.
    pub(crate) async fn send(&mut self, message: O) {
        if self.answer.is_some() {
            self.accept();
        }
        within(self.responses.as_ref().unwrap().send(Ok(message)))
            .await
            .unwrap();
    }

    /// The agent's next message; `None` once it has closed its side.
    pub(crate) async fn next(&mut self) -> Option<I> {
        within(self.incoming.message()).await.unwrap()
    }

    /// Waits until the agent has closed its side, or broken the call off.
    pub(crate) async fn over(&mut self) {
        while let Ok(Some(_)) = within(self.incoming.message()).await {}
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.metadata.get(name).unwrap().to_str().unwrap()
    }
}

impl StreamCall<TestResponse, TestInit> {
    /// The agent's next message, which is a status.
    pub(crate) async fn status(&mut self) -> (TestState, String) {
        match self.next().await.unwrap().event {
            Some(test_response::Event::Status(status)) => of_status(&status),
            other => panic!("{other:?}"),
        }
    }

    /// The agent's next message of a state that ends a test; what comes before is passed over.
    pub(crate) async fn end(&mut self) -> (TestState, String) {
        loop {
            if let Some(test_response::Event::Status(status)) = self.next().await.unwrap().event
                && !matches!(status.state(), TestState::Acknowledged | TestState::Running)
            {
                return of_status(&status);
            }
        }
    }
}

fn of_status(status: &TestStatus) -> (TestState, String) {
    (status.state(), status.message.clone())
}
