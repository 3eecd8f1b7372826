//! An HTTP service that does a task by one request: the message is the body, and the answer is the result.

use std::sync::atomic::{AtomicBool, Ordering};

use agentanycast_gateway::agents::AgentTask;
use agentanycast_proto::v1::{self, part::Content};
use agentanycast_readers::gzip::{UnpackError, Unpacker};
use async_trait::async_trait;
use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde_json::Value;
use uuid::Uuid;

use super::{HttpStyle, answer_error, broken, check_encoding, encoding_of, media_type_of};
use crate::{
    Attempt, Backend, RunError, TaskResult,
    parts::{JSON, text_of},
    result_stream::{ResultStream, too_large},
    task_content::{OCTETS, essence, json_of, newest_request},
};

/// The name of an answer as a result.
const ANSWER: &str = "answer";

/// The media type of a text body.
const TEXT_BODY: &str = "text/plain; charset=utf-8";

/// A service that is posted to.
pub(super) struct PostBackend {
    pub(super) http: Client,
    pub(super) url: String,
    pub(super) token: Option<String>,
    pub(super) max_output: usize,
    pub(super) form: PostForm,
}

/// In which form text that is JSON is posted.
pub(super) enum PostForm {
    /// Everything is a JSON document.
    Json,
    /// As text; as JSON once the service has refused text and taken JSON.
    Text(AtomicBool),
}

impl PostForm {
    pub(super) fn of(style: HttpStyle) -> Self {
        match style {
            HttpStyle::Json => Self::Json,
            _ => Self::Text(AtomicBool::new(false)),
        }
    }

    /// The body for this message.
    fn body(&self, message: &v1::Message) -> Result<PostBody, RunError> {
        match (self, PostBody::json(message)) {
            (Self::Json, None) => Err(RunError::new(
                "the service takes JSON, and the message is not one JSON object or list; send it as data",
            )),
            (Self::Json, Some(json)) => Ok(json),
            (Self::Text(takes_json), Some(json)) if takes_json.load(Ordering::Relaxed) => Ok(json),
            (Self::Text(_), _) => Ok(PostBody::new(message)),
        }
    }
}

#[async_trait]
impl Backend for PostBackend {
    async fn run(&self, task: &dyn AgentTask, _: Attempt) -> Result<TaskResult, RunError> {
        let cancelled = task.cancelled();
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(RunError::new("the task was canceled")),
            done = self.post(task) => done,
        }
    }
}

/// Whether the service refused the form of a message, and did nothing.
fn refuses_form(answer: &Response) -> bool {
    matches!(
        answer.status(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE | StatusCode::UNPROCESSABLE_ENTITY
    )
}

impl PostBackend {
    async fn post(&self, task: &dyn AgentTask) -> Result<TaskResult, RunError> {
        let message = newest_request(task.task());
        let body = self.form.body(&message)?;
        let was_json = body.media_type == JSON;
        let mut answer = self.send(task.task(), body).await?;
        if let PostForm::Text(takes_json) = &self.form
            && !was_json
            && refuses_form(&answer)
            && let Some(json) = PostBody::json(&message)
        {
            answer = self.send(task.task(), json).await?;
            if !refuses_form(&answer) {
                takes_json.store(true, Ordering::Relaxed);
            }
        }
        if !answer.status().is_success() {
            return Err(answer_error(answer, self.token.as_deref()).await.error);
        }
        check_encoding(&answer)?;
        let artifact = read_result(task, answer, self.max_output).await?;
        Ok(TaskResult::Completed {
            artifacts: artifact.into_iter().collect(),
            message: None,
        })
    }

    async fn send(&self, task: &v1::Task, body: PostBody) -> Result<Response, RunError> {
        let mut request = self
            .http
            .post(&self.url)
            .header(ACCEPT, "*/*")
            .header(CONTENT_TYPE, body.media_type)
            .body(body.bytes);
        request = with_task_headers(request, task);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send().await.map_err(|error| broken(&error))
    }
}

/// Reads an answer as a result; what is left to be reported of it.
async fn read_result(
    task: &dyn AgentTask,
    mut answer: Response,
    max_output: usize,
) -> Result<Option<v1::Artifact>, RunError> {
    let media_type = media_type_of(&answer);
    let mut unpacker = may_be_packed(&answer, &media_type).then(|| Unpacker::new(max_output));
    let failed = |error| match error {
        UnpackError::TooLarge { .. } => too_large(max_output),
        error => RunError::new(error.to_string()),
    };
    let mut result = ResultStream::new(task, ANSWER, &media_type, max_output);
    while let Some(bytes) = answer.chunk().await.map_err(|error| broken(&error))? {
        match &mut unpacker {
            Some(unpacker) => result.hold(&unpacker.take(&bytes).map_err(failed)?).await?,
            None => result.hold(&bytes).await?,
        }
    }
    if let Some(unpacker) = &mut unpacker {
        result.hold(&unpacker.finish().map_err(failed)?).await?;
    }
    result.finish().await
}

/// Whether bytes of gzip are text that was packed on its way, and not a file.
fn may_be_packed(answer: &Response, media_type: &str) -> bool {
    let essence = essence(media_type);
    let is_text = essence.starts_with("text/") || essence == JSON || essence.ends_with("+json");
    is_text || matches!(encoding_of(answer).as_str(), "gzip" | "x-gzip")
}

/// Adds the headers that say which task it is.
fn with_task_headers(request: RequestBuilder, task: &v1::Task) -> RequestBuilder {
    let headers = [
        ("x-anycast-task", &task.task_id),
        ("x-anycast-context", &task.context_id),
        ("x-anycast-skill", &task.target_skill_id),
        ("x-anycast-sender", &task.originator_peer_id),
    ];
    headers.into_iter().fold(request, |request, (name, value)| {
        // A value with control characters has no place in a header.
        match HeaderValue::from_bytes(value.as_bytes()) {
            Ok(value) if !value.is_empty() => request.header(HeaderName::from_static(name), value),
            _ => request,
        }
    })
}

/// A message as the body of a request.
struct PostBody {
    bytes: Vec<u8>,
    media_type: String,
}

impl PostBody {
    /// The message as a JSON document: its only part, where that is data, or text that is an object or a list.
    fn json(message: &v1::Message) -> Option<Self> {
        let [part] = message.parts.as_slice() else {
            return None;
        };
        let bytes = match &part.content {
            Some(Content::DataPart(_)) => json_of(part)?.to_string().into_bytes(),
            Some(Content::TextPart(text)) => {
                let value: Value = serde_json::from_str(&text.text).ok()?;
                (value.is_object() || value.is_array()).then(|| text.text.clone().into_bytes())?
            }
            Some(Content::RawPart(file)) if essence(&part.media_type) == JSON => file.data.clone(),
            _ => return None,
        };
        let media_type = JSON.to_owned();
        Some(Self { bytes, media_type })
    }

    /// Text is plain text, one other part is itself, and several parts of which one is no text are form data.
    fn new(message: &v1::Message) -> Self {
        let is_text = |part: &v1::Part| matches!(part.content, Some(Content::TextPart(_)) | None);
        match message.parts.as_slice() {
            [part] => Self::of_part(part),
            parts if parts.iter().all(is_text) => Self {
                bytes: text_of(message).into_bytes(),
                media_type: TEXT_BODY.to_owned(),
            },
            parts => Self::form(parts, &Uuid::new_v4().simple().to_string()),
        }
    }

    fn of_part(part: &v1::Part) -> Self {
        let (bytes, default) = match &part.content {
            Some(Content::TextPart(text)) => (text.text.clone().into_bytes(), TEXT_BODY),
            Some(Content::DataPart(_)) => (json_of(part).unwrap_or_default().to_string().into_bytes(), JSON),
            Some(Content::UrlPart(link)) => (link.url.clone().into_bytes(), "text/uri-list"),
            Some(Content::RawPart(file)) => (file.data.clone(), OCTETS),
            None => (Vec::new(), TEXT_BODY),
        };
        let given = matches!(part.content, Some(Content::TextPart(_) | Content::RawPart(_)))
            && HeaderValue::from_str(&part.media_type).is_ok_and(|given| !given.is_empty());
        let media_type = if given {
            part.media_type.clone()
        } else {
            default.to_owned()
        };
        Self { bytes, media_type }
    }

    /// Form data: fields `text`, `data`, `url` and `file`.
    fn form(parts: &[v1::Part], boundary: &str) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            let (field, filename) = match &part.content {
                Some(Content::DataPart(_)) => ("data", String::new()),
                Some(Content::UrlPart(_)) => ("url", String::new()),
                Some(Content::RawPart(file)) => {
                    ("file", format!("; filename=\"{}\"", quoted(&file.filename)))
                }
                _ => ("text", String::new()),
            };
            let body = Self::of_part(part);
            bytes.extend_from_slice(
                format!(
                    "--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"{filename}\r\nContent-Type: {}\r\n\r\n",
                    body.media_type
                )
                .as_bytes(),
            );
            bytes.extend_from_slice(&body.bytes);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        Self {
            bytes,
            media_type: format!("multipart/form-data; boundary={boundary}"),
        }
    }
}

/// A file name within quotation marks, as browsers write it.
fn quoted(name: &str) -> String {
    let name = if name.is_empty() { "file" } else { name };
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parts::{data_part, raw_part};
    use crate::task_content::{message, typed_text};

    fn body(parts: Vec<v1::Part>) -> (String, String) {
        let body = PostBody::new(&message(parts));
        (body.media_type, String::from_utf8(body.bytes).unwrap())
    }

    fn is(body: &(String, String), media_type: &str, text: &str) -> bool {
        (body.0.as_str(), body.1.as_str()) == (media_type, text)
    }

    #[test]
    fn one_part_is_the_body_with_its_media_type() {
        assert!(is(&body(vec![typed_text("hi", "text/plain")]), TEXT_BODY, "hi"));
        assert!(is(
            &body(vec![typed_text("# hi", "text/markdown")]),
            "text/markdown",
            "# hi"
        ));
        assert!(is(&body(vec![data_part(&json!([1]))]), JSON, "[1]"));
        assert!(is(
            &body(vec![raw_part(b"x".to_vec(), "f", "image/png")]),
            "image/png",
            "x"
        ));
        assert!(is(
            &body(vec![raw_part(b"x".to_vec(), "f", "a\r\nb")]),
            OCTETS,
            "x"
        ));
        assert!(is(&body(Vec::new()), TEXT_BODY, ""));
    }

    #[test]
    fn texts_are_joined_and_other_parts_are_form_data() {
        let texts = vec![typed_text("a", "text/plain"), typed_text("b", "text/plain")];
        assert!(is(&body(texts), TEXT_BODY, "a\nb"));
        let parts = [
            typed_text("a", "text/plain"),
            raw_part(b"x".to_vec(), "f\".txt", "text/css"),
        ];
        let form = PostBody::form(&parts, "B");
        assert_eq!(form.media_type, "multipart/form-data; boundary=B");
        assert_eq!(
            String::from_utf8(form.bytes).unwrap(),
            "--B\r\nContent-Disposition: form-data; name=\"text\"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\na\r\n\
             --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f%22.txt\"\r\nContent-Type: text/css\r\n\r\nx\r\n\
             --B--\r\n"
        );
    }
}
