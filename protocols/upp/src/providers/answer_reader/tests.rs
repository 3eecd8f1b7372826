//! Answers of chat completions in the forms in which servers send them.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::providers::openai_chat::ChatDecoder;

fn read_cut(answer: &[u8], cut: usize) -> (Vec<StreamEvent>, Result<Response, UppError>) {
    let limits = AnswerLimits {
        piece: 1000,
        all: 4000,
    };
    let mut reader = AnswerReader::new(ChatDecoder::default(), Framing::Events, limits);
    let mut events = Vec::new();
    for piece in answer.chunks(cut) {
        if let Err(error) = reader.take(piece, &mut events) {
            return (events, Err(error));
        }
    }
    let response = reader.finish(&mut events);
    (events, response)
}

fn read(answer: impl AsRef<[u8]>) -> Result<Response, UppError> {
    read_cut(answer.as_ref(), usize::MAX).1
}

fn text(answer: impl AsRef<[u8]>) -> String {
    read(answer).map_or_else(
        |error| format!("error: {}", error.message()),
        |response| response.message.text(),
    )
}

fn chunk(text: &str, reason: &Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"delta": {"content": text}, "finish_reason": reason}]})
    )
}

fn whole(text: &str, reason: &Value) -> String {
    json!({"choices": [{"message": {"content": text}, "finish_reason": reason}]}).to_string()
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn pieces_beside_the_answer_do_not_harm_it() {
    for beside in [
        "data: {\"choices\": null, \"usage\": {\"prompt_tokens\": 3}}\n\n",
        "data: {\"usage\": {\"prompt_tokens\": 3}}\n\n",
        "data: {\"choices\": [], \"usage\": null}\n\n",
        "data: {\"type\": \"ping\"}\n\n",
        "event: ping\ndata: {}\n\n",
        "event: ping\ndata: 2026-01-01 10:00:00\n\n",
        "data: ping\n\n",
        "data:\n\n",
        "data: \n\n",
        "data\n\n",
        ": a comment\n\n",
        "\r\n\r\n",
        "id: 7\nretry: 3\n\n",
        "data: {\"error\": null, \"choices\": []}\n\n",
        "data: {\"choices\": [{\"index\": 1, \"delta\": {\"content\": \"other\"}}]}\n\n",
    ] {
        let stop = chunk("lo", &json!("stop"));
        for answer in [
            format!(
                "{beside}{}{beside}{stop}{beside}data: [DONE]\n\n",
                chunk("hel", &json!(null))
            ),
            format!("{}{beside}{stop}{beside}", chunk("hel", &json!(""))),
            format!("\u{feff}{}{stop}data: [DONE] ", chunk("hel", &json!(null))),
        ] {
            assert_eq!(text(&answer), "hello", "{answer}");
        }
    }
}

#[test]
fn the_bytes_decide_what_an_answer_is() {
    let stop = json!("stop");
    for answer in [
        whole("hello", &stop),
        format!("\u{feff}\r\n {}\n", whole("hello", &stop)),
        format!("[{}]", whole("hello", &stop)),
        whole("hello", &json!(null)),
        chunk("hello", &stop),
        chunk("hello", &stop).trim_end().to_owned(),
        format!("event: message\n{}", chunk("hello", &stop)),
        // A server that says that it is done may give no reason.
        format!("{}data: [DONE]", chunk("hello", &json!(""))),
        format!("data: {}\n\n", whole("hello", &stop)),
    ] {
        assert_eq!(text(&answer), "hello", "{answer}");
        assert_eq!(text(packed(&answer)), "hello");
        assert!(text(&packed(&answer)[..40]).starts_with("error: "));
    }
    assert_eq!(
        text(br#"{"choices": [{"message": {"content": "\ud83d!"}}]}"#),
        "\u{fffd}!"
    );
}

#[test]
fn events_without_an_empty_line_between_are_read() {
    let answer = [chunk("hel", &json!(null)), chunk("lo", &json!("stop"))].concat();
    let answer = answer.replace("\n\n", "\n") + "data: [DONE]\n\n";
    assert_eq!(text(&answer), "hello");
    let (events, _) = read_cut(answer.as_bytes(), 5);
    let texts = events.iter().filter_map(|event| event.delta.text.as_deref());
    assert_eq!(texts.collect::<Vec<_>>(), ["hel", "lo"]);
}

#[test]
fn halves_of_a_character_in_two_pieces_are_one() {
    let raw = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let stop = chunk("", &json!("stop"));
    let (first, second) = (raw("a\\ud83d"), raw("\\ude00b"));
    for (answer, said) in [
        (format!("{first}{second}{stop}"), "a\u{1f600}b"),
        (format!("{first}: ping\n\n{second}{stop}"), "a\u{1f600}b"),
        (format!("{first}{}{stop}", raw("x")), "a\u{fffd}x"),
        (format!("{first}{stop}"), "a\u{fffd}"),
        (format!("{first}data: [DONE]\n\n"), "a\u{fffd}"),
        (format!("{second}{stop}"), "\u{fffd}b"),
    ] {
        assert_eq!(text(&answer), said, "{answer}");
    }
}

#[test]
fn what_stands_between_halves_of_a_character_does_not_matter() {
    let piece = |delta: &str| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    let raw = |text: &str| piece(&format!("{{\"content\":\"{text}\"}}"));
    let (first, second, stop) = (raw("a\\ud83d"), raw("\\ude00b"), chunk("", &json!("stop")));
    for between in [
        raw(""),
        piece("{}"),
        piece(r#"{"reasoning":"hm"}"#),
        piece(r#"{"reasoning":"hm\ud83d"}"#),
        piece(r#"{"role":"assistant","content":null}"#),
        piece(r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#),
        piece(r#"{"tool_calls":[]}"#),
        "data: {\"choices\":[],\"usage\":null}\n\n".to_owned(),
        "data: {\"usage\":{\"prompt_tokens\":3}}\n\n".to_owned(),
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other\"}}]}\n\n".to_owned(),
    ] {
        for between in [between.clone(), between.repeat(5)] {
            let answer = format!("{first}{between}{second}{stop}data: [DONE]\n\n");
            assert_eq!(text(&answer), "a\u{1f600}b", "{answer}");
            let answer = format!("{first}{between}{stop}");
            assert_eq!(text(&answer), "a\u{fffd}", "{answer}");
        }
    }
    let thought = |text: &str| piece(&format!("{{\"reasoning\":\"{text}\"}}"));
    let (thought, more) = (thought("c\\ud83d"), thought("\\ude01d"));
    let answer = [&*first, &thought, &second, &more, &stop].concat();
    let (events, response) = read_cut(answer.as_bytes(), 7);
    assert_eq!(response.unwrap().message.text(), "a\u{1f600}b");
    let texts: String = events
        .iter()
        .filter_map(|event| event.delta.text.as_deref())
        .collect();
    assert_eq!(texts, "a\u{1f600}c\u{1f601}bd");
    // The end of the answer is seen though half a character waits.
    let mut reader = AnswerReader::new(ChatDecoder::default(), Framing::Events, AnswerLimits::default());
    let mut events = Vec::new();
    reader
        .take(format!("{first}{stop}").as_bytes(), &mut events)
        .unwrap();
    assert!(reader.is_whole());
}

#[test]
fn content_has_the_forms_in_which_servers_write_it() {
    let part = |text: &str| json!({"type": "text", "text": text});
    let thought = |thinking: &Value| json!([{"type": "thinking", "thinking": thinking}, part("hi")]);
    for content in [
        json!("hi"),
        json!(["h", "i"]),
        json!(["h", part("i")]),
        part("hi"),
        json!({"text": "hi"}),
        thought(&json!("hm")),
        thought(&json!(["h", "m"])),
        thought(&json!([part("hm")])),
        thought(&part("hm")),
        thought(&json!(null)),
    ] {
        for field in ["message", "delta"] {
            let answer = json!({"choices": [{field: {"content": content}, "finish_reason": "stop"}]});
            let answer = if field == "delta" {
                format!("data: {answer}\n\n")
            } else {
                answer.to_string()
            };
            assert_eq!(text(&answer), "hi", "{answer}");
        }
    }
    for name in ["reasoning_content", "reasoning", "thinking"] {
        for thought in [json!("hm"), json!(["h", {"text": "m"}]), part("hm")] {
            let answer =
                json!({"choices": [{"message": {"content": "hi", name: thought}, "finish_reason": "stop"}]});
            let (events, response) = read_cut(answer.to_string().as_bytes(), usize::MAX);
            assert_eq!(response.unwrap().message.text(), "hi");
            let texts = events.iter().filter_map(|event| event.delta.text.as_deref());
            assert_eq!(texts.collect::<Vec<_>>(), ["hm", "hi"], "{answer}");
        }
    }
}

#[test]
fn an_answer_that_broke_off_is_an_error() {
    let half = chunk("half", &json!(""));
    let done = "data: [DONE]\n\n";
    for answer in [
        half.clone(),
        format!("{half}data: {{\"choices\": [{{\"del"),
        done.to_owned(),
        format!("data: {{}}\n\n{done}"),
        format!("{half}data: {{\"strange\": 1}}\n\n{done}"),
        format!("data: {{\"message\": \"queued\"}}\n\n{half}"),
        format!("{half}Internal error"),
    ] {
        let said = text(&answer);
        assert!(
            said.starts_with("error: the answer broke off before its end"),
            "{answer}: {said}"
        );
    }
    assert!(text(format!("{half}Internal error\n")).ends_with("Internal error"));
    assert!(text(format!("{half}data: Internal error\n\n")).ends_with("Internal error"));
    // The end of the stream alone says nothing.
    for end in ["data: [DONE]\n\n", "data:[DONE]\r\n\r\n", "data: [DONE]"] {
        let said = text(format!("{half}data: {{\"strange\": \"it broke\"}}\n\n{end}"));
        assert!(said.ends_with("{\"strange\": \"it broke\"}"), "{said}");
    }
}

#[test]
fn only_a_known_end_is_a_good_one() {
    for (reason, code) in [
        (json!("stop"), None),
        (json!("STOP"), None),
        (json!("eos"), None),
        (json!("length"), None),
        (json!("max_tokens"), None),
        (json!("error"), Some(ErrorCode::ProviderError)),
        (json!("abort"), Some(ErrorCode::ProviderError)),
        (json!("SAFETY"), Some(ErrorCode::ContentFiltered)),
        (json!("content_filter"), Some(ErrorCode::ContentFiltered)),
        (json!("tool_calls"), Some(ErrorCode::InvalidResponse)),
        (json!("a_new_reason"), Some(ErrorCode::InvalidResponse)),
        (json!(7), Some(ErrorCode::InvalidResponse)),
        (json!({}), Some(ErrorCode::InvalidResponse)),
    ] {
        let stream = chunk("half", &reason);
        // A good reason behind it does not make it better.
        let twice = format!("{stream}{}", chunk("", &json!("stop")));
        for answer in [whole("half", &reason), stream, twice] {
            let read = read(&answer);
            assert_eq!(read.as_ref().err().map(UppError::code), code, "{answer}");
            if let Err(error) = read {
                let shown = reason.as_str().map_or_else(|| reason.to_string(), str::to_owned);
                assert!(error.message().contains(&shown), "{error}");
            }
        }
    }
}

#[test]
fn the_words_of_the_server_are_in_the_error() {
    for (answer, words) in [
        (
            "<html><style>p {}</style><body>Bad gateway</body></html>",
            "Bad gateway",
        ),
        ("upstream is away", "upstream is away"),
        ("error: upstream is away", "upstream is away"),
        ("{\"detail\": \"no such model\"}", "no such model"),
        ("{\"error\": \"no such model\"}", "no such model"),
        ("{\"error\": {\"code\": 7}}", "7"),
        (
            "{\"object\": \"error\", \"message\": \"no such model\"}",
            "no such model",
        ),
        (
            "data: {\"error\": {\"message\": \"no such model\"}}\n\n",
            "no such model",
        ),
        ("{\"choices\": [{\"message\": {\"content\": \"half", "half"),
        ("", "the answer is empty"),
    ] {
        for answer in [answer.as_bytes().to_vec(), packed(answer)] {
            let said = text(&answer);
            assert!(said.starts_with("error: ") && said.contains(words), "{said}");
        }
    }
    let half = chunk("half", &json!(null));
    for (fault, words) in [
        (r#"{"detail": "it broke"}"#, "it broke"),
        (r#"{"message": "it broke"}"#, "it broke"),
        (r#"{"detail": [{"msg": "it broke"}]}"#, "it broke"),
    ] {
        for end in ["data: [DONE]\n\n", ""] {
            let said = text(format!("{half}event: error\ndata: {fault}\n\n{end}"));
            assert!(
                said.starts_with("error: ") && said.contains(words) && !said.contains("broke off"),
                "{said}"
            );
        }
    }
    let limited = read(r#"{"error": {"message": "slow down", "code": 429}}"#).unwrap_err();
    assert_eq!(limited.code(), ErrorCode::RateLimited);
}

#[test]
fn an_answer_has_a_bound() {
    let is_too_large = |answer: &[u8]| {
        let error = read_cut(answer, 100).1.unwrap_err();
        std::error::Error::source(&error).is_some_and(<dyn std::error::Error>::is::<EventTooLarge>)
    };
    assert!(is_too_large(whole(&"x".repeat(1000), &json!("stop")).as_bytes()));
    assert!(is_too_large(chunk(&"x".repeat(1000), &json!("stop")).as_bytes()));
    assert!(is_too_large(chunk("x", &json!(null)).repeat(100).as_bytes()));
    assert!(is_too_large(&packed(&" ".repeat(1 << 20))));
    assert!(is_too_large(&b"data".repeat(1000)));
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        texts in prop::collection::vec("[a-zé]{0,5}", 0..6),
        crlf: bool,
        is_packed: bool,
        cut in 1_usize..40,
    ) {
        let mut answer: String = texts.iter().map(|text| chunk(text, &json!(null))).collect();
        answer += &chunk("", &json!("stop"));
        if crlf {
            answer = answer.replace('\n', "\r\n");
        }
        let answer = if is_packed { packed(&answer) } else { answer.into_bytes() };
        let (events, response) = read_cut(&answer, cut);
        prop_assert_eq!(response.unwrap().message.text(), texts.concat());
        prop_assert_eq!(events, read_cut(&answer, usize::MAX).0);
    }

    #[test]
    fn hostile_bytes_do_no_harm(answer in prop::collection::vec(any::<u8>(), 0..100), cut in 1_usize..40) {
        let _ = read_cut(&answer, cut);
    }
}
