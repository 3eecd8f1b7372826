//! Which calls have messages with lists in them, whose size is looked at before they are decoded.

use agentanycast_front::{admission::RequestPermit, grpc_size, refusal::Refusal};
use agentanycast_proto::decoded_size::MessageKind;
use axum::extract::Request;

/// The calls whose messages have lists in them.
const WITH_LISTS: [(&str, MessageKind); 5] = [
    ("/lf.a2a.v1.A2AService/SendMessage", MessageKind::Send),
    ("/lf.a2a.v1.A2AService/SendStreamingMessage", MessageKind::Send),
    ("/a2a.v1.A2AService/SendMessage", MessageKind::OldSend),
    ("/a2a.v1.A2AService/SendStreamingMessage", MessageKind::OldSend),
    (
        "/a2a.v1.A2AService/CreateTaskPushNotificationConfig",
        MessageKind::OldSetPush,
    ),
];

/// The request again, if its message may be decoded.
pub(super) async fn check_size(
    request: Request,
    max_body: usize,
    permit: Option<&RequestPermit>,
) -> Result<Request, Refusal> {
    let path = request.uri().path();
    let Some((_, kind)) = WITH_LISTS.into_iter().find(|(known, _)| *known == path) else {
        return Ok(request);
    };
    grpc_size::check_size(request, kind, max_body, permit).await
}

#[cfg(test)]
mod tests {
    use agentanycast_front::{grpc_size::PREFIX, json_body::MAX_VALUES};
    use agentanycast_proto::{a2a, a2a_0_3};
    use axum::body::Body;
    use prost::Message as _;

    use super::*;

    fn call(path: &str, message: &[u8]) -> Request {
        let mut frame = vec![0];
        frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend(message);
        Request::post(path).body(Body::from(frame)).unwrap()
    }

    #[tokio::test]
    async fn what_unfolds_too_far_is_refused() {
        let new = |parts| {
            let message = a2a::Message {
                parts: vec![a2a::Part::default(); parts],
                ..a2a::Message::default()
            };
            let request = a2a::SendMessageRequest {
                message: Some(message),
                ..a2a::SendMessageRequest::default()
            };
            request.encode_to_vec()
        };
        let old = |parts| {
            let message = a2a_0_3::Message {
                content: vec![a2a_0_3::Part::default(); parts],
                ..a2a_0_3::Message::default()
            };
            let request = a2a_0_3::SendMessageRequest {
                request: Some(message),
                ..a2a_0_3::SendMessageRequest::default()
            };
            request.encode_to_vec()
        };
        for (path, small, large) in [
            ("/lf.a2a.v1.A2AService/SendMessage", new(9), new(MAX_VALUES)),
            ("/a2a.v1.A2AService/SendStreamingMessage", old(9), old(MAX_VALUES)),
        ] {
            let passed = check_size(call(path, &small), 4 << 20, None).await.unwrap();
            let again = axum::body::to_bytes(passed.into_body(), usize::MAX)
                .await
                .unwrap();
            assert_eq!(again[PREFIX..], small, "{path}");
            let refused = check_size(call(path, &large), 4 << 20, None).await.unwrap_err();
            assert!(refused.to_string().contains("100000"), "{refused}");
            let refused = check_size(call(path, &large), 1 << 10, None).await.unwrap_err();
            assert!(refused.to_string().contains("larger than 1024"), "{refused}");
        }
    }
}
