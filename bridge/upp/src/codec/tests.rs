//! Requests go into tasks and results come out of them.

use agentanycast_gateway::REFERENCE;
use agentanycast_upp::{AssistantMessage, Response, ToolSchema, UserMessage, wire};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn request(parameters: Value) -> WireRequest {
    WireRequest {
        model: "default".into(),
        messages: vec![
            UserMessage::text("first").into(),
            UserMessage::text("hi").into(),
            AssistantMessage::new([ContentBlock::text("yes?")]).into(),
        ],
        tools: Some(vec![ToolSchema {
            name: "t".into(),
            description: String::new(),
            parameters,
            metadata: None,
        }]),
        ..WireRequest::default()
    }
}

fn raw(data: impl Into<Vec<u8>>, media_type: &str) -> v1::Part {
    v1::Part {
        content: Some(Content::RawPart(v1::RawPart {
            data: data.into(),
            filename: String::new(),
        })),
        media_type: media_type.to_owned(),
        ..v1::Part::default()
    }
}

fn artifact(part: v1::Part) -> v1::Artifact {
    v1::Artifact {
        parts: vec![part],
        ..v1::Artifact::default()
    }
}

#[test]
fn a_request_is_whole_on_the_other_side() {
    let mut deep = json!(1);
    for _ in 0..80 {
        deep = json!([deep]);
    }
    for parameters in [json!({"type": "object"}), json!({"maximum": u64::MAX}), deep] {
        let request = request(parameters);
        let message = message_of_request(&request).unwrap();
        let json = match &message.parts[0].content {
            Some(Content::RawPart(raw)) => serde_json::from_slice(&raw.data).unwrap(),
            _ => json_of_part(&message.parts[0]).unwrap(),
        };
        assert_eq!(json["upp"], "1.3");
        let read = wire::parse_request(json["request"].to_string().as_bytes()).unwrap();
        assert_eq!(read, request);
        assert_eq!(text_of(Some(&message)), "hi");
    }
}

#[test]
fn parts_become_blocks() {
    let url = v1::Part {
        content: Some(Content::UrlPart(v1::UrlPart {
            url: "https://example.com/a.png".to_owned(),
            filename: String::new(),
        })),
        media_type: "image/png".to_owned(),
        ..v1::Part::default()
    };
    let parts = [
        raw([1], "image/png"),
        raw([1], "audio/wav"),
        raw([1], "video/mp4"),
        raw([1], "application/pdf"),
        raw([1], "application/x-thing"),
        raw(*b"text", "text/plain"),
        request_part(&json!({"n": 1})),
        url,
    ];
    let blocks = blocks_of_parts(&parts);
    assert!(matches!(blocks[0], ContentBlock::Image { .. }));
    assert!(matches!(blocks[1], ContentBlock::Audio(_)));
    assert!(matches!(blocks[2], ContentBlock::Video(_)));
    assert!(matches!(blocks[3], ContentBlock::Document { .. }));
    assert!(matches!(blocks[4], ContentBlock::Binary(_)));
    assert_eq!(blocks[5], ContentBlock::text("text"));
    assert_eq!(blocks[6], ContentBlock::text("{\"n\":1}"));
    assert!(matches!(
        &blocks[7],
        ContentBlock::Image {
            source: ImageSource::Url { .. },
            ..
        }
    ));
}

#[test]
fn a_turn_is_found_in_data_and_in_bytes() {
    let message = AssistantMessage::new([ContentBlock::text("hello")]);
    let turn = wire::turn_of(Response::new(message));
    let text = wire::turn_json(&turn);
    let data = request_part(&serde_json::from_str(&text).unwrap());
    for part in [data, raw(text.as_bytes(), UPP_TURN)] {
        let found = turn_of_artifacts(&[artifact(part)]).unwrap().unwrap();
        assert_eq!(wire::turn_json(&found), text);
    }
    let plain = artifact(raw(text.as_bytes(), "application/json"));
    assert!(turn_of_artifacts(&[plain]).unwrap().is_none());
    let broken = request_part(&json!({"messages": 1, "usage": {}, "cycles": 1}));
    assert!(turn_of_artifacts(&[artifact(broken)]).is_err());
}

#[test]
fn content_that_is_read_apart_takes_its_place() {
    let url = format!("{REFERENCE}t1/a");
    let reference = artifact(v1::Part {
        content: Some(Content::UrlPart(v1::UrlPart {
            url,
            filename: String::new(),
        })),
        media_type: "text/plain".to_owned(),
        ..v1::Part::default()
    });
    let whole = with_content(reference, Bytes::from_static(b"long"));
    assert_eq!(blocks_of_parts(&whole.parts), [ContentBlock::text("long")]);
    let own = artifact(raw(*b"short", "text/plain"));
    assert_eq!(with_content(own.clone(), Bytes::from_static(b"long")), own);
}

proptest! {
    #[test]
    fn hostile_results_do_no_harm(data in prop::collection::vec(any::<u8>(), 0..60), media_type in ".{0,30}") {
        for media_type in [UPP_TURN, &media_type] {
            let part = raw(data.clone(), media_type);
            prop_assert_eq!(blocks_of_parts(std::slice::from_ref(&part)).len(), 1);
            let _ = turn_of_artifacts(&[artifact(part)]);
        }
    }
}
