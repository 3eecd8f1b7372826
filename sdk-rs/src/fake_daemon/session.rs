//! The fake's SessionService: each call on a stream is the fake's unary call.

use std::{collections::HashMap, time::Duration};

use agentanycast_proto::v1::{
    self, node_service_server::NodeService, session_request::Call, session_response::Answer,
    session_service_server::SessionService,
};
use futures::StreamExt;
use tokio::{sync::mpsc, task::AbortHandle};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap};

use super::{EventStream, FakeService};

/// How long it waits for the end of a task that is run.
const SOON: Duration = Duration::from_millis(100);

#[tonic::async_trait]
impl SessionService for FakeService {
    type SessionStream = EventStream<v1::SessionResponse>;

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.state.lock().unwrap().sessions += 1;
        let (metadata, _, mut requests) = request.into_parts();
        let (answers, stream) = mpsc::channel(64);
        let service = self.clone();
        tokio::spawn(async move {
            let mut waits: HashMap<u64, AbortHandle> = HashMap::new();
            let mut last = 0;
            while let Ok(Some(request)) = requests.message().await {
                let call_id = request.call_id;
                let call = request.call.expect("a call that is known");
                if let Call::CancelCall(_) = call {
                    service.state.lock().unwrap().canceled_waits += 1;
                    waits.remove(&call_id).expect("a wait that is open").abort();
                    continue;
                }
                assert!(call_id > last, "{call_id} after {last}");
                last = call_id;
                let is_wait = matches!(call, Call::WaitTask(_) | Call::RunTask(_));
                let (service, answers, metadata) = (service.clone(), answers.clone(), metadata.clone());
                let answering = tokio::spawn(async move {
                    let answer = service.answer(call, metadata).await;
                    let _ = answers.send(Ok(response(call_id, answer))).await;
                });
                if is_wait {
                    waits.insert(call_id, answering.abort_handle());
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

impl FakeService {
    async fn answer(&self, call: Call, metadata: MetadataMap) -> Result<Answer, Status> {
        Ok(match call {
            Call::SendTask(request) => {
                let request = Request::from_parts(metadata, tonic::Extensions::default(), request);
                Answer::SendTask(self.send_task(request).await?.into_inner())
            }
            Call::GetTask(request) => {
                Answer::GetTask(self.get_task(Request::new(request)).await?.into_inner())
            }
            Call::CancelTask(request) => {
                Answer::CancelTask(self.cancel_task(Request::new(request)).await?.into_inner())
            }
            Call::UpdateTaskStatus(request) => {
                let answer = self.update_task_status(Request::new(request)).await?;
                Answer::UpdateTaskStatus(answer.into_inner())
            }
            Call::CompleteTask(request) => {
                Answer::CompleteTask(self.complete_task(Request::new(request)).await?.into_inner())
            }
            Call::FailTask(request) => {
                Answer::FailTask(self.fail_task(Request::new(request)).await?.into_inner())
            }
            Call::WaitTask(request) => Answer::WaitTask(self.wait(request).await?),
            Call::RunTask(request) => {
                self.state.lock().unwrap().runs += 1;
                if self.state.lock().unwrap().refuses_runs {
                    return Err(Status::unimplemented(
                        "a session of this daemon does not carry this call",
                    ));
                }
                let request = Request::from_parts(metadata, tonic::Extensions::default(), request);
                let sent = self.send_task(request).await?.into_inner().task;
                let task_id = sent.expect("a task").task_id;
                let request = v1::GetTaskRequest {
                    task_id: task_id.clone(),
                    ..v1::GetTaskRequest::default()
                };
                let end = tokio::time::timeout(SOON, self.wait(request)).await;
                let id_alone = || v1::Task {
                    task_id,
                    ..v1::Task::default()
                };
                Answer::RunTask(match end {
                    Ok(end) => end?,
                    Err(_) => v1::GetTaskResponse {
                        task: Some(id_alone()),
                    },
                })
            }
            Call::CancelCall(_) => unreachable!("not a call"),
        })
    }

    async fn wait(&self, request: v1::GetTaskRequest) -> Result<v1::GetTaskResponse, Status> {
        let subscribe = v1::SubscribeTaskUpdatesRequest {
            task_id: request.task_id.clone(),
            end_only: true,
            or_input: request.or_input,
        };
        let mut events = self
            .subscribe_task_updates(Request::new(subscribe))
            .await?
            .into_inner();
        while let Some(event) = events.next().await {
            event?;
        }
        Ok(self.get_task(Request::new(request)).await?.into_inner())
    }
}

fn response(call_id: u64, answer: Result<Answer, Status>) -> v1::SessionResponse {
    let (code, message, answer) = match answer {
        Ok(answer) => (0, String::new(), Some(answer)),
        Err(status) => (status.code() as i32, status.message().to_owned(), None),
    };
    v1::SessionResponse {
        call_id,
        code,
        message,
        answer,
    }
}
