//! The calls that the life of a task is made of, each with its two ways to the daemon: a unary call, and a message
//! on a call stream. Nothing else differs between the ways.

use agentanycast_proto::v1::{
    self, session_request::Call as Packed, session_response::Answer as PackedAnswer,
};
use tonic::Status;

use super::NodeClient;

/// The request of such a call.
pub(crate) trait TaskCall: prost::Message + Clone {
    /// What it is answered with.
    type Answer: Send;

    /// As it travels on a call stream.
    fn pack(self) -> Packed;

    /// Its answer, as it travels there; none if it is the answer of another call.
    fn unpack(answer: PackedAnswer) -> Option<Self::Answer>;

    /// Makes it as a call of its own.
    fn unary(self, client: NodeClient) -> impl Future<Output = Result<Self::Answer, Status>> + Send;
}

macro_rules! calls {
    ($($method:ident: $name:ident($request:ident) -> $answer:ident;)*) => {$(
        impl TaskCall for v1::$request {
            type Answer = v1::$answer;

            fn pack(self) -> Packed {
                Packed::$name(self)
            }

            fn unpack(answer: PackedAnswer) -> Option<Self::Answer> {
                match answer {
                    PackedAnswer::$name(answer) => Some(answer),
                    _ => None,
                }
            }

            async fn unary(self, mut client: NodeClient) -> Result<Self::Answer, Status> {
                client.$method(self).await.map(tonic::Response::into_inner)
            }
        }
    )*};
}

calls! {
    send_task: SendTask(SendTaskRequest) -> SendTaskResponse;
    get_task: GetTask(GetTaskRequest) -> GetTaskResponse;
    cancel_task: CancelTask(CancelTaskRequest) -> CancelTaskResponse;
    update_task_status: UpdateTaskStatus(UpdateTaskStatusRequest) -> UpdateTaskStatusResponse;
    complete_task: CompleteTask(CompleteTaskRequest) -> CompleteTaskResponse;
    fail_task: FailTask(FailTaskRequest) -> FailTaskResponse;
}
