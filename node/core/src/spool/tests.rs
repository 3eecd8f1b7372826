//! The spool on a real directory: what is written is read, whatever was torn, removed or hostile.

use std::{
    fs::{self, OpenOptions},
    future::Future,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::Duration,
};

use agentanycast_proto::v1::StreamEndReason;
use futures::FutureExt;
use tempfile::TempDir;

use super::*;

fn spool() -> (TempDir, Spool) {
    let dir = TempDir::new().unwrap();
    let spool = Spool::open(dir.path().join("artifacts")).unwrap();
    (dir, spool)
}

fn start(task: &str, artifact: &str) -> StreamStart {
    let artifact_name = "report".into();
    StreamStart {
        task_id: task.into(),
        artifact_id: artifact.into(),
        artifact_name,
        ..StreamStart::default()
    }
}

fn end(task: &str, artifact: &str) -> StreamEnd {
    let reason = StreamEndReason::Complete.into();
    StreamEnd {
        task_id: task.into(),
        artifact_id: artifact.into(),
        reason,
        ..StreamEnd::default()
    }
}

fn chunk(n: u32) -> Bytes {
    Bytes::from(vec![n as u8; (n as usize * 7919) % 70_000])
}

fn chunks(range: std::ops::Range<u32>) -> Vec<Bytes> {
    range.map(chunk).collect()
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("nothing came in time")
}

async fn next(reader: &mut SpoolReader) -> Option<SpoolEvent> {
    soon(reader.next()).await.unwrap()
}

/// Reads chunks `from..to` and checks them.
async fn expect(reader: &mut SpoolReader, range: std::ops::Range<u32>) {
    for n in range {
        match next(reader).await {
            Some(SpoolEvent::Chunk { sequence, data, .. }) => {
                assert_eq!(sequence, n);
                assert_eq!(data, chunk(n), "chunk {n}");
            }
            other => panic!("chunk {n} was due, {other:?} came"),
        }
    }
}

fn files(spool: &Spool) -> Vec<PathBuf> {
    let tasks = layout::tasks(&spool.shared.root).unwrap();
    tasks
        .iter()
        .flat_map(|task| layout::artifacts(task).unwrap())
        .collect()
}

fn sizes(spool: &Spool) -> u64 {
    files(spool)
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum()
}

#[tokio::test]
async fn what_is_written_is_read_listed_and_assembled() {
    let (_dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    assert_eq!(writer.append(&chunks(0..100), false).await.unwrap(), 100);
    assert_eq!(writer.append(&[chunk(100)], true).await.unwrap(), 101);
    assert!(writer.has_last());
    assert!(matches!(
        writer.append(&[chunk(0)], false).await,
        Err(WriteError::Ended)
    ));
    assert!(matches!(
        spool.assemble("t", "a", u64::MAX).await,
        Err(ReadError::NotEnded)
    ));
    writer.finish(end("t", "a")).await.unwrap();
    drop(writer);

    let all = chunks(0..101).concat();
    let bytes = all.len() as u64;
    for spool in [spool.clone(), Spool::open(&spool.shared.root).unwrap()] {
        let mut reader = spool.reader("t", "a", 0).await.unwrap();
        assert_eq!(next(&mut reader).await, Some(SpoolEvent::Start(start("t", "a"))));
        expect(&mut reader, 0..100).await;
        let last = SpoolEvent::Chunk {
            sequence: 100,
            data: chunk(100),
            is_last: true,
        };
        assert_eq!(next(&mut reader).await, Some(last));
        assert_eq!(next(&mut reader).await, Some(SpoolEvent::End(end("t", "a"))));
        assert_eq!(next(&mut reader).await, None);
        assert_eq!(spool.assemble("t", "a", bytes).await.unwrap(), all);
        let too_large = spool.assemble("t", "a", bytes - 1).await;
        assert!(matches!(too_large, Err(ReadError::TooLarge { max, .. }) if max == bytes - 1));
        let size = ArtifactSize {
            bytes,
            chunks: 101,
            end: Some(end("t", "a")),
        };
        assert_eq!(spool.size("t", "a").await.unwrap(), Some(size));
        assert_eq!(spool.used(), sizes(&spool));
        let stored = spool.list().await.unwrap();
        assert_eq!(stored.len(), 1);
        assert_eq!((stored[0].finished, stored[0].disk_bytes), (true, spool.used()));
        assert_eq!((&*stored[0].task_id, &*stored[0].artifact_id), ("t", "a"));
    }
}

#[tokio::test]
async fn a_torn_tail_is_cut_off_wherever_it_is_torn() {
    let (dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    writer.append(&chunks(0..3), false).await.unwrap();
    let whole = sizes(&spool);
    writer
        .append(&[Bytes::from_static(b"the last record")], false)
        .await
        .unwrap();
    drop(writer);
    let path = files(&spool).remove(0);
    let intact = fs::read(&path).unwrap();
    for length in whole..intact.len() as u64 {
        for filler in [0, 0xff] {
            // Cut, or as long as it was with blocks that never reached the disk.
            let mut torn = intact.clone();
            torn[length as usize..].fill(filler);
            torn.truncate(if filler == 0 {
                length as usize
            } else {
                intact.len()
            });
            fs::write(&path, torn).unwrap();
            let spool = Spool::open(dir.path().join("artifacts")).unwrap();
            let mut writer = spool.resume("t", "a").await.unwrap().unwrap();
            assert_eq!(
                (writer.next_sequence(), sizes(&spool)),
                (3, whole),
                "torn at {length}"
            );
            assert_eq!(spool.used(), whole);
            writer.append(&[chunk(3)], false).await.unwrap();
            let mut reader = spool.reader("t", "a", 0).await.unwrap();
            next(&mut reader).await;
            expect(&mut reader, 0..4).await;
        }
    }
}

#[tokio::test]
async fn an_artifact_torn_in_its_start_never_was() {
    let (_dir, spool) = spool();
    drop(spool.create(&start("t", "a")).await.unwrap());
    let path = files(&spool).remove(0);
    let intact = fs::read(&path).unwrap();
    for length in 0..intact.len() {
        layout::make_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, &intact[..length]).unwrap();
        if length % 2 == 0 {
            assert!(spool.resume("t", "a").await.unwrap().is_none());
        } else {
            assert_eq!(spool.list().await.unwrap(), []);
        }
        assert!(!path.exists(), "torn at {length}");
    }
    spool.create(&start("t", "a")).await.unwrap();
}

#[tokio::test]
async fn an_end_torn_off_before_its_name_counts_when_it_is_whole() {
    let (dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    writer.append(&chunks(0..3), false).await.unwrap();
    let before = sizes(&spool) as usize;
    writer.finish(end("t", "a")).await.unwrap();
    drop(writer);
    let finished = files(&spool).remove(0);
    let intact = fs::read(&finished).unwrap();
    let unfinished = finished.with_extension("part");
    for length in before..=intact.len() {
        fs::remove_file(&finished).unwrap();
        fs::write(&unfinished, &intact[..length]).unwrap();
        let spool = Spool::open(dir.path().join("artifacts")).unwrap();
        let mut writer = spool.resume("t", "a").await.unwrap().unwrap();
        assert_eq!(writer.next_sequence(), 3);
        assert_eq!(writer.end().is_some(), length == intact.len(), "torn at {length}");
        writer.finish(end("t", "a")).await.unwrap();
        assert_eq!(files(&spool), std::slice::from_ref(&finished));
        assert_eq!(fs::read(&finished).unwrap(), intact);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_follow_the_writer_and_tell_how_far_they_are() {
    let (_dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    writer.append(&chunks(0..10), false).await.unwrap();
    let mut furthest = writer.furthest_reader();
    assert_eq!(*furthest.borrow(), None);
    let follow = |from: u32| {
        let spool = spool.clone();
        tokio::spawn(async move {
            let mut reader = spool.reader("t", "a", from).await.unwrap();
            assert!(matches!(next(&mut reader).await, Some(SpoolEvent::Start(_))));
            expect(&mut reader, from..400).await;
            assert!(matches!(next(&mut reader).await, Some(SpoolEvent::End(_))));
        })
    };
    let readers = [follow(0), follow(7), follow(200)];
    for n in (10..400).step_by(3) {
        writer.append(&chunks(n..n + 3), false).await.unwrap();
        tokio::task::yield_now().await;
    }
    let bytes = writer.bytes();
    soon(furthest.wait_for(|at| *at == Some(bytes))).await.unwrap();
    writer.finish(end("t", "a")).await.unwrap();
    for reader in readers {
        soon(reader).await.unwrap();
    }
    soon(furthest.wait_for(Option::is_none)).await.unwrap();
}

#[tokio::test]
async fn hostile_ids_stay_inside_the_directory() {
    let (dir, spool) = spool();
    let long = "x".repeat(10_000);
    let ids = ["", "../../x", "/etc/passwd", ".", "a\0b", "é\n", &long];
    for task in ids {
        for artifact in ids {
            let mut writer = spool.create(&start(task, artifact)).await.unwrap();
            writer
                .append(&[Bytes::from(format!("{task}|{artifact}"))], true)
                .await
                .unwrap();
            writer.finish(end(task, artifact)).await.unwrap();
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(files(&spool).len(), ids.len() * ids.len());
    let mode = fs::metadata(&files(&spool)[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for task in ids {
        for artifact in ids {
            let data = spool.assemble(task, artifact, 30_000).await.unwrap();
            assert_eq!(data, format!("{task}|{artifact}"));
        }
        assert_eq!(
            spool.remove_tasks(vec![task.to_owned()]).await.unwrap(),
            ids.len()
        );
    }
    assert_eq!((files(&spool).len(), spool.used()), (0, 0));
    assert_eq!(fs::read_dir(&spool.shared.root).unwrap().count(), 0);
    let huge = spool.create(&start(&"x".repeat(MAX_START), "a")).await;
    assert!(matches!(huge, Err(WriteError::StartTooLarge(_))));
}

#[tokio::test]
async fn what_belongs_to_no_task_is_removed() {
    let (_dir, spool) = spool();
    for task in ["kept", "gone", "gone too"] {
        for artifact in ["a", "b"] {
            spool.create(&start(task, artifact)).await.unwrap();
        }
    }
    let foreign = spool.shared.root.join("notes");
    fs::write(&foreign, "mine").unwrap();
    assert_eq!(spool.keep_only(["kept", "never seen"].into_iter()).unwrap(), 4);
    let left = spool.list().await.unwrap();
    assert!(
        left.len() == 2 && left.iter().all(|stored| stored.task_id == "kept"),
        "{left:?}"
    );
    assert!(foreign.exists());
    assert_eq!(spool.keep_only(std::iter::empty()).unwrap(), 2);
    assert_eq!((spool.list().await.unwrap().len(), spool.used()), (0, 0));
    assert_eq!(
        fs::read_dir(&spool.shared.root).unwrap().count(),
        1,
        "no directory is left behind"
    );
}

#[tokio::test]
async fn two_artifacts_grow_side_by_side() {
    let (_dir, spool) = spool();
    let write = |artifact: &'static str, batch: u32| {
        let spool = spool.clone();
        async move {
            let mut writer = spool.create(&start("t", artifact)).await.unwrap();
            for n in (0..60).step_by(batch as usize) {
                writer.append(&chunks(n..n + batch), false).await.unwrap();
                tokio::task::yield_now().await;
            }
            writer.finish(end("t", artifact)).await.unwrap();
        }
    };
    tokio::join!(write("a", 1), write("b", 4));
    for artifact in ["a", "b"] {
        assert_eq!(
            spool.assemble("t", artifact, u64::MAX).await.unwrap(),
            chunks(0..60).concat()
        );
    }
}

#[tokio::test]
async fn an_artifact_has_one_writer_and_one_end() {
    let (_dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    assert!(matches!(
        spool.create(&start("t", "a")).await,
        Err(WriteError::Exists)
    ));
    assert!(matches!(spool.resume("t", "a").await, Err(WriteError::InUse)));
    assert!(spool.resume("t", "b").await.unwrap().is_none());
    writer.append(&chunks(0..2), false).await.unwrap();
    writer.finish(end("t", "a")).await.unwrap();
    let failed = StreamEnd {
        reason: StreamEndReason::Error.into(),
        ..end("t", "a")
    };
    writer.finish(failed.clone()).await.unwrap();
    assert!(matches!(
        writer.append(&[chunk(2)], false).await,
        Err(WriteError::Ended)
    ));
    drop(writer);
    let mut writer = spool.resume("t", "a").await.unwrap().unwrap();
    writer.finish(failed).await.unwrap();
    assert_eq!(writer.end().as_deref(), Some(&end("t", "a")));
    assert!(matches!(
        spool.create(&start("t", "a")).await,
        Err(WriteError::Exists)
    ));
}

#[tokio::test]
async fn a_removed_artifact_ends_its_readers_and_its_writer() {
    let (_dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    writer.append(&chunks(0..2), false).await.unwrap();
    let mut reader = spool.reader("t", "a", 0).await.unwrap();
    next(&mut reader).await;
    expect(&mut reader, 0..2).await;
    let waiting = tokio::spawn(async move { reader.next().await });
    assert!(spool.remove("t", "a").await.unwrap());
    assert!(!spool.remove("t", "a").await.unwrap());
    assert!(matches!(soon(waiting).await.unwrap(), Err(ReadError::Removed)));
    assert!(matches!(
        writer.append(&[chunk(2)], false).await,
        Err(WriteError::Removed)
    ));
    assert!(matches!(
        writer.finish(end("t", "a")).await,
        Err(WriteError::Removed)
    ));
    assert!(matches!(
        spool.reader("t", "a", 0).await,
        Err(ReadError::NotFound)
    ));
    assert_eq!(spool.used(), 0);
    let mut again = spool.create(&start("t", "a")).await.unwrap();
    assert_eq!(again.append(&[chunk(9)], false).await.unwrap(), 1);
    assert!(matches!(
        writer.append(&[chunk(2)], false).await,
        Err(WriteError::Removed)
    ));
}

#[tokio::test]
async fn damage_is_found_and_not_handed_out() {
    let (_dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    let records = [Bytes::from_static(b"first"), Bytes::from_static(b"second")];
    writer.append(&records, false).await.unwrap();
    writer.finish(end("t", "a")).await.unwrap();
    drop(writer);
    let path = files(&spool).remove(0);
    let mut file = fs::read(&path).unwrap();
    let at = file.windows(6).position(|bytes| bytes == b"second").unwrap();
    file[at] ^= 1;
    fs::write(&path, file).unwrap();
    assert!(matches!(
        spool.assemble("t", "a", 100).await,
        Err(ReadError::Corrupt(1))
    ));
    let mut reader = spool.reader("t", "a", 0).await.unwrap();
    next(&mut reader).await;
    next(&mut reader).await;
    assert!(matches!(reader.next().await, Err(ReadError::Corrupt(1))));
}

#[tokio::test]
async fn a_failed_write_leaves_what_was_written() {
    let (_dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    writer.append(&chunks(0..3), false).await.unwrap();
    drop(writer);
    let whole = sizes(&spool);
    let path = files(&spool).remove(0);
    let place = ArtifactPath::from_path(&path).unwrap().0;

    // A file that cannot be written stands for a disk that fails.
    let read_only = OpenOptions::new().read(true).open(&path).unwrap();
    let live = OpenArtifact::load(Arc::clone(&spool.shared), place)
        .unwrap()
        .unwrap()
        .with_file(read_only);
    let claim = live.claim().unwrap();
    assert!(matches!(
        live.append(claim, &[chunk(3)], false),
        Err(WriteError::Io { .. })
    ));
    assert!(matches!(
        live.finish(claim, &end("t", "a")),
        Err(WriteError::Io { .. })
    ));
    assert_eq!(
        (live.progress().chunks, sizes(&spool), spool.used()),
        (3, whole, whole)
    );

    let too_large = Bytes::from(vec![0; crate::delivery::artifact::MAX_CHUNK + 1]);
    let mut writer = spool.resume("t", "a").await.unwrap().unwrap();
    let many: Vec<Bytes> = (0..300).map(|_| Bytes::new()).chain([too_large]).collect();
    assert!(matches!(
        writer.append(&many, false).await,
        Err(WriteError::ChunkTooLarge(_))
    ));
    assert_eq!(
        (writer.next_sequence(), sizes(&spool), spool.used()),
        (3, whole, whole)
    );
    assert_eq!(writer.append(&many[..300], true).await.unwrap(), 303);
}

#[tokio::test]
async fn a_writer_that_was_given_up_writes_nothing_late() {
    let (_dir, spool) = spool();
    let writer = spool.create(&start("t", "a")).await.unwrap();
    drop(writer);
    let live = spool.live("t", "a").await.unwrap().unwrap();
    let former = live.claim().unwrap();
    live.release();
    let mut writer = spool.resume("t", "a").await.unwrap().unwrap();
    assert!(matches!(
        live.append(former, &[chunk(1)], false),
        Err(WriteError::InUse)
    ));
    assert_eq!(writer.append(&[chunk(1)], false).await.unwrap(), 1);
}

#[tokio::test]
async fn limits_are_kept_and_given_back() {
    let (_dir, spool) = spool();
    drop(spool.create(&start("t", "a")).await.unwrap());
    let mut readers = Vec::new();
    for _ in 0..MAX_READERS {
        readers.push(spool.reader("t", "a", 0).await.unwrap());
    }
    assert!(matches!(
        spool.reader("t", "a", 0).await,
        Err(ReadError::TooManyReaders)
    ));
    drop(readers);
    spool.reader("t", "a", 0).await.unwrap();

    let mut writers = Vec::new();
    for n in 0..MAX_OPEN {
        writers.push(spool.create(&start("u", &n.to_string())).await.unwrap());
    }
    let refused = spool.create(&start("u", "more")).await.unwrap_err();
    assert!(refused.is_full(), "{refused}");
    drop(writers);
    for n in MAX_OPEN..MAX_ARTIFACTS_PER_TASK {
        spool.create(&start("u", &n.to_string())).await.unwrap();
    }
    assert!(matches!(
        spool.create(&start("u", "more")).await,
        Err(WriteError::TooManyArtifacts)
    ));
    assert_eq!(spool.list().await.unwrap().len(), MAX_ARTIFACTS_PER_TASK + 1);
    assert_eq!(
        spool.remove_tasks(vec!["u".to_owned()]).await.unwrap(),
        MAX_ARTIFACTS_PER_TASK
    );
}

#[tokio::test]
async fn a_large_batch_is_written_elsewhere_also_when_its_caller_gives_up() {
    let (_dir, spool) = spool();
    let mut writer = spool.create(&start("t", "a")).await.unwrap();
    let large: Vec<Bytes> = (0..300).map(|n| Bytes::from(vec![n as u8; 64 << 10])).collect();
    assert!(writer.append(&large, false).now_or_never().is_none());
    assert_eq!(writer.append(&[chunk(1)], false).await.unwrap(), 301);
    assert_eq!(writer.append(&large, true).await.unwrap(), 601);
    writer.finish(end("t", "a")).await.unwrap();
    let all = [large.concat(), chunk(1).to_vec(), large.concat()].concat();
    assert_eq!(spool.assemble("t", "a", u64::MAX).await.unwrap(), all);
}
