//! SessionService without the SDK around it: one stream of calls whose requests and answers a test handles itself.

use agentanycast_proto::{
    MAX_GRPC_MESSAGE,
    v1::{
        CancelCall, CompleteTaskRequest, GetTaskRequest, SessionRequest, SessionResponse, TaskStatus,
        UpdateTaskStatusRequest, session_request::Call, session_response::Answer,
        session_service_client::SessionServiceClient,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Request, Status, Streaming, metadata::AsciiMetadataValue, transport::Channel};

use crate::{rpc, wait::within};

/// An open session.
#[derive(Debug)]
pub struct RawSession {
    requests: mpsc::UnboundedSender<SessionRequest>,
    answers: Streaming<SessionResponse>,
    last: u64,
}

impl RawSession {
    /// Opens one, for a client that takes messages of `most` bytes; without a number, the usual ones.
    pub async fn open(channel: Channel, most: Option<usize>) -> Self {
        let (requests, stream) = mpsc::unbounded_channel();
        let mut request = Request::new(UnboundedReceiverStream::new(stream));
        let mut client = SessionServiceClient::new(channel);
        if let Some(most) = most {
            client = client.max_decoding_message_size(MAX_GRPC_MESSAGE);
            let most = AsciiMetadataValue::from(most);
            request.metadata_mut().insert("agentanycast-max-message", most);
        }
        let answers = within("the session opens", client.session(request)).await;
        Self {
            requests,
            answers: answers.unwrap().into_inner(),
            last: 0,
        }
    }

    /// Sends a call; its number.
    pub fn send(&mut self, call: Call) -> u64 {
        self.last += 1;
        self.send_as(self.last, Some(call));
        self.last
    }

    /// Sends what no client should.
    pub fn send_as(&mut self, call_id: u64, call: Option<Call>) {
        self.last = self.last.max(call_id);
        // The session may be over; its end is read then.
        let _ = self.requests.send(SessionRequest { call_id, call });
    }

    /// Gives up a wait.
    pub fn cancel(&mut self, call_id: u64) {
        self.send_as(call_id, Some(Call::CancelCall(CancelCall {})));
    }

    /// The next answer, whichever call it is for.
    pub async fn next(&mut self) -> (u64, Result<Answer, Status>) {
        let response = within("an answer comes", self.answers.message()).await;
        let response = response.unwrap().expect("the session goes on");
        let outcome = match Code::from_i32(response.code) {
            Code::Ok => Ok(response.answer.expect("an answer")),
            code => Err(Status::new(code, response.message)),
        };
        (response.call_id, outcome)
    }

    /// Makes one call; no other is open.
    pub async fn call(&mut self, call: Call) -> Result<Answer, Status> {
        let id = self.send(call);
        let (answered, outcome) = self.next().await;
        assert_eq!(answered, id);
        outcome
    }

    /// How the session ended.
    pub async fn end(&mut self) -> Option<Status> {
        loop {
            match within("the session ends", self.answers.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    }

    /// Closes this side.
    pub fn close(&mut self) {
        (self.requests, _) = mpsc::unbounded_channel();
    }
}

/// GetTask.
pub fn get(id: &str) -> Call {
    Call::GetTask(GetTaskRequest {
        task_id: id.to_owned(),
        ..Default::default()
    })
}

/// Waits for the end of a task.
pub fn wait(id: &str) -> Call {
    Call::WaitTask(GetTaskRequest {
        task_id: id.to_owned(),
        ..Default::default()
    })
}

/// UpdateTaskStatus, with a text if there is one.
pub fn update(id: &str, status: TaskStatus, text: Option<&str>) -> Call {
    Call::UpdateTaskStatus(UpdateTaskStatusRequest {
        task_id: id.to_owned(),
        status: status.into(),
        message: text.map(rpc::text),
        ..Default::default()
    })
}

/// CompleteTask with one text.
pub fn complete(id: &str, text: &str) -> Call {
    Call::CompleteTask(CompleteTaskRequest {
        task_id: id.to_owned(),
        artifacts: vec![rpc::artifact("result", text)],
        ..CompleteTaskRequest::default()
    })
}

/// Bytes in place of a message.
#[derive(Clone, Debug, Default)]
pub struct RawMessage(pub Vec<u8>);

impl prost::Message for RawMessage {
    fn encode_raw(&self, buffer: &mut impl prost::bytes::BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: prost::encoding::WireType,
        _: &mut impl prost::bytes::Buf,
        _: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
