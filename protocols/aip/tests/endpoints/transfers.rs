//! Files and payloads, both ways.

use std::sync::Arc;

use agentanycast_aip::{
    endpoints::{ClosureTools, DeviceClient, DeviceClientSettings, DeviceState, FileSink},
    protocol::{FileProgress, file_frames, payload_frames},
    transport::WireFrame,
};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::fixture::{RawClient, SOON, TestDevice, TestService, Told};

fn bytes(size: usize) -> Bytes {
    (0..size).map(|at| (at / 253) as u8).collect::<Vec<_>>().into()
}

async fn send(client: &mut RawClient, frames: Vec<WireFrame>) {
    for frame in frames {
        client.0.sender.send(frame).await.unwrap();
    }
}

async fn file_of(service: &mut TestService, id: &str) -> FileProgress {
    loop {
        if let Told::File(client, progress) = service.next_told().await {
            assert_eq!(client, id);
            return progress;
        }
    }
}

#[tokio::test]
async fn a_device_sends_a_file_and_a_payload() {
    let mut service = TestService::new().await;
    let mut device = TestDevice::new(&service, "d").await;
    let sent = bytes(5 << 19);
    device
        .handle
        .send_file("log.txt", Some("text/plain"), sent.clone())
        .await
        .unwrap();
    let mut found = Vec::new();
    loop {
        match file_of(&mut service, "d").await {
            FileProgress::Started(start) => assert_eq!((start.size, start.total_chunks), (5 << 19, 3)),
            FileProgress::Chunk(chunk) => found.extend_from_slice(&chunk),
            FileProgress::Complete(complete) => {
                assert_eq!(complete.filename, "log.txt");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(found, sent);
    device
        .handle
        .send_payload(sent.slice(..9), None, None)
        .await
        .unwrap();
    let payload = file_of(&mut service, "d").await;
    assert!(matches!(payload, FileProgress::Payload(_, found) if found == sent.slice(..9)));
}

#[tokio::test]
async fn a_wrong_checksum_is_refused() {
    let mut service = TestService::new().await;
    let mut client = service.registered("device", "d", None).await;
    for frames in file_frames("a", None, bytes(10)) {
        let frames = frames.into_iter().map(|frame| match frame {
            WireFrame::Binary(_) => WireFrame::Binary(vec![9; 10].into()),
            frame @ WireFrame::Text(_) => frame,
        });
        send(&mut client, frames.collect()).await;
    }
    client.refused("the checksum of \"a\" is").await;
    let mut last = file_of(&mut service, "d").await;
    while !matches!(last, FileProgress::Aborted(_)) {
        assert!(!matches!(last, FileProgress::Complete(_)));
        last = file_of(&mut service, "d").await;
    }
    let mut frames = payload_frames(bytes(10), Some("b"), None);
    frames[1] = WireFrame::Binary(vec![9; 10].into());
    send(&mut client, frames).await;
    client.refused("the checksum of \"b\" is").await;
    client.nothing_else().await;
}

#[tokio::test]
async fn a_file_that_breaks_off_is_aborted() {
    let mut service = TestService::new().await;
    let mut client = service.registered("device", "d", None).await;
    for frames in file_frames("a", None, bytes(3 << 20)).take(2) {
        send(&mut client, frames).await;
    }
    assert!(matches!(
        file_of(&mut service, "d").await,
        FileProgress::Started(_)
    ));
    assert!(matches!(file_of(&mut service, "d").await, FileProgress::Chunk(_)));
    drop(client);
    assert!(matches!(
        file_of(&mut service, "d").await,
        FileProgress::Aborted(_)
    ));
    service.told(&Told::Gone("d".to_owned())).await;
}

#[tokio::test]
async fn frames_that_do_not_belong_together_are_refused() {
    let service = TestService::new().await;
    let mut client = service.registered("device", "d", None).await;
    send(&mut client, vec![WireFrame::Binary(bytes(3))]).await;
    client.refused("without a frame \"binary_data\" before it").await;
    client
        .send(json!({ "type": "file_transfer_complete", "filename": "a", "total_chunks": 0 }))
        .await;
    client.refused("it has not begun").await;
    client
        .send(json!({
            "type": "file_transfer_start", "filename": "../a", "size": 1, "chunk_size": 1, "total_chunks": 1,
        }))
        .await;
    client.refused("a file name has no path").await;
    client
        .send(json!({
            "type": "file_transfer_start", "filename": "a", "size": 1_u64 << 40, "chunk_size": 1 << 20,
            "total_chunks": 1 << 20,
        }))
        .await;
    client.refused("at most 104857600 are allowed").await;
    client.nothing_else().await;
}

struct Sink(mpsc::UnboundedSender<FileProgress>);

#[async_trait]
impl FileSink for Sink {
    async fn file(&self, progress: FileProgress) -> Result<(), String> {
        self.0.send(progress).map_err(|_| "gone".to_owned())
    }
}

#[tokio::test]
async fn a_service_sends_a_file_to_a_device() {
    let service = TestService::new().await;
    let (sender, mut files) = mpsc::unbounded_channel();
    let settings = DeviceClientSettings::new("d");
    let client = DeviceClient::new(service.endpoint(), settings, Arc::new(ClosureTools::new()))
        .with_files(Arc::new(Sink(sender)));
    let mut handle = client.handle();
    let _running = AbortOnDropHandle::new(tokio::spawn(client.run(CancellationToken::new())));
    assert!(handle.wait_for(DeviceState::is_connected).await);
    let sent = bytes(3 << 19);
    service
        .service
        .send_file("d", "a.bin", None, sent.clone())
        .await
        .unwrap();
    let mut found = Vec::new();
    let complete = async {
        loop {
            match files.recv().await.unwrap() {
                FileProgress::Chunk(chunk) => found.extend_from_slice(&chunk),
                FileProgress::Complete(_) => return,
                FileProgress::Started(start) => assert_eq!(start.filename, "a.bin"),
                other => panic!("{other:?}"),
            }
        }
    };
    timeout(SOON, complete).await.unwrap();
    assert_eq!(found, sent);
}
