//! A result that is kept while it is sent: when the daemon goes away meanwhile, it is sent again from its start, as another
//! artifact of the same name.

use std::{
    io::{Cursor, Read, Seek, SeekFrom},
    time::Duration,
};

use super::{AgentTask, ArtifactSink};
use crate::{ErrorKind, GatewayError};

/// The largest piece that is sent at a time, in bytes.
const PIECE: usize = 64 << 10;

/// How often a result is sent at most: a daemon that goes away each time takes it never.
const MOST_ATTEMPTS: u32 = 10;

/// How long it is waited after the daemon went away, besides the time until it answers again.
const PAUSE: Duration = Duration::from_millis(250);

/// Sends a result that is there whole, piece by piece.
///
/// # Errors
/// Those of the node; mostly, that the task has ended meanwhile.
pub async fn stream_whole(
    task: &dyn AgentTask,
    name: &str,
    media_type: &str,
    bytes: &[u8],
) -> Result<(), GatewayError> {
    ResendingStream::new(task, name, media_type, Cursor::new(bytes))
        .finish()
        .await
}

/// A result on its way. Without [`ResendingStream::finish`] it is broken off when this is dropped.
pub struct ResendingStream<'a, C> {
    task: &'a dyn AgentTask,
    name: &'a str,
    media_type: String,
    content: C,
    sink: Option<Box<dyn ArtifactSink>>,
    /// Bytes that `sink` has taken.
    sent: u64,
    attempts: u32,
    /// What is read of the content at a time; for all calls, as a text that grows is sent word by word.
    piece: Box<[u8]>,
}

impl<'a, C: Read + Seek + Send> ResendingStream<'a, C> {
    /// A result with this content, of which nothing has been sent.
    pub fn new(task: &'a dyn AgentTask, name: &'a str, media_type: &str, content: C) -> Self {
        Self {
            task,
            name,
            media_type: media_type.to_owned(),
            content,
            sink: None,
            sent: 0,
            attempts: 0,
            piece: vec![0; PIECE].into(),
        }
    }

    /// The content; what is added at its end is sent by the next call.
    pub fn content(&mut self) -> &mut C {
        &mut self.content
    }

    /// Sends what the content has beyond what was sent; waits while the reader is behind.
    ///
    /// # Errors
    /// The content cannot be read; the node takes no more; or the daemon went away ten times.
    pub async fn send(&mut self) -> Result<(), GatewayError> {
        loop {
            match self.send_once().await {
                Ok(()) => return Ok(()),
                Err(error) => self.begin_again_after(error).await?,
            }
        }
    }

    /// Sends the rest and ends the result as whole; the other side has it all when this returns.
    ///
    /// # Errors
    /// As for [`ResendingStream::send`].
    pub async fn finish(mut self) -> Result<(), GatewayError> {
        loop {
            self.send().await?;
            let Some(sink) = self.sink.take() else { continue };
            match sink.finish().await {
                Ok(()) => return Ok(()),
                Err(error) => self.begin_again_after(error).await?,
            }
        }
    }

    async fn send_once(&mut self) -> Result<(), GatewayError> {
        let unread = |error: std::io::Error| {
            GatewayError::new(ErrorKind::Internal, format!("it cannot be read: {error}"))
        };
        if self.sink.is_none() {
            self.sink = Some(self.task.stream(self.name, &self.media_type).await?);
            self.sent = 0;
        }
        let Some(sink) = &mut self.sink else { return Ok(()) };
        self.content.seek(SeekFrom::Start(self.sent)).map_err(unread)?;
        loop {
            let count = self.content.read(&mut self.piece).map_err(unread)?;
            if count == 0 {
                return Ok(());
            }
            sink.write(&self.piece[..count]).await?;
            self.sent += count as u64;
        }
    }

    /// Waits for the daemon, if it went away.
    async fn begin_again_after(&mut self, error: GatewayError) -> Result<(), GatewayError> {
        self.attempts += 1;
        self.sink = None;
        if error.kind() != ErrorKind::Unavailable || self.attempts == MOST_ATTEMPTS {
            return Err(error);
        }
        tracing::warn!(task = self.task.task().task_id, result = self.name, %error, "a result is sent again");
        tokio::time::sleep(PAUSE).await;
        // It is claimed already: this waits until the daemon is back, and fails when the task has ended.
        self.task.claim().await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        sync::{Arc, Mutex},
    };

    use agentanycast_proto::v1;
    use async_trait::async_trait;
    use proptest::prelude::*;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// What each sink took, and whether it was finished.
    type Taken = Arc<Mutex<Vec<(Vec<u8>, bool)>>>;

    /// A task at a daemon that goes away after it has taken so many bytes, once for each number from the last to the first.
    #[derive(Default)]
    struct LossyTask {
        task: v1::Task,
        losses: Arc<Mutex<Vec<usize>>>,
        taken: Taken,
        claims: Mutex<usize>,
        is_over: bool,
    }

    struct LossySink {
        number: usize,
        until: Option<usize>,
        taken: Taken,
    }

    fn lost() -> GatewayError {
        GatewayError::new(ErrorKind::Unavailable, "the daemon went away")
    }

    #[async_trait]
    impl AgentTask for LossyTask {
        fn task(&self) -> &v1::Task {
            &self.task
        }

        fn cancelled(&self) -> CancellationToken {
            CancellationToken::new()
        }

        async fn claim(&self) -> Result<(), GatewayError> {
            *self.claims.lock().unwrap() += 1;
            if self.is_over {
                return Err(GatewayError::new(ErrorKind::Conflict, "the task has ended"));
            }
            Ok(())
        }

        fn leave(&self) {}

        async fn working(&self, _: v1::Message) -> Result<(), GatewayError> {
            unreachable!("a stream reports nothing")
        }

        async fn ask(&self, _: v1::Message) -> Result<v1::Message, GatewayError> {
            unreachable!("a stream asks nothing")
        }

        async fn stream(&self, _: &str, _: &str) -> Result<Box<dyn ArtifactSink>, GatewayError> {
            let mut taken = self.taken.lock().unwrap();
            taken.push((Vec::new(), false));
            Ok(Box::new(LossySink {
                number: taken.len() - 1,
                until: self.losses.lock().unwrap().pop(),
                taken: Arc::clone(&self.taken),
            }))
        }

        async fn complete(&self, _: Vec<v1::Artifact>, _: Option<v1::Message>) -> Result<(), GatewayError> {
            unreachable!("a stream ends no task")
        }

        async fn fail(&self, _: &str) -> Result<(), GatewayError> {
            unreachable!("a stream ends no task")
        }
    }

    #[async_trait]
    impl ArtifactSink for LossySink {
        async fn write(&mut self, bytes: &[u8]) -> Result<(), GatewayError> {
            let taken = &mut self.taken.lock().unwrap()[self.number].0;
            if self.until.is_some_and(|until| taken.len() + bytes.len() > until) {
                return Err(lost());
            }
            taken.extend_from_slice(bytes);
            Ok(())
        }

        async fn finish(self: Box<Self>) -> Result<(), GatewayError> {
            if self.until.is_some() {
                return Err(lost());
            }
            self.taken.lock().unwrap()[self.number].1 = true;
            Ok(())
        }
    }

    /// Adds the pieces one by one, and finishes.
    fn send(task: &LossyTask, pieces: &[Vec<u8>]) -> Result<(), GatewayError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut stream = ResendingStream::new(task, "r", "text/plain", Cursor::new(Vec::new()));
            for piece in pieces {
                stream.content().seek(SeekFrom::End(0)).unwrap();
                stream.content().write_all(piece).unwrap();
                stream.send().await?;
            }
            stream.finish().await
        })
    }

    fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let piece = (any::<u8>(), 0..150_000_usize).prop_map(|(byte, count)| vec![byte; count]);
        proptest::collection::vec(piece, 0..5)
    }

    proptest! {
        /// However often the daemon goes away, one sink has all bytes and is finished, and it is the last; each other one has
        /// a part from the start and is not.
        #[test]
        fn one_result_is_whole(pieces in pieces(), losses in proptest::collection::vec(0..400_000_usize, 0..9)) {
            let task = LossyTask { losses: Arc::new(Mutex::new(losses.clone())), ..LossyTask::default() };
            send(&task, &pieces).unwrap();
            let whole = pieces.concat();
            let taken = task.taken.lock().unwrap();
            let (last, others) = taken.split_last().unwrap();
            prop_assert_eq!(last, &(whole.clone(), true));
            prop_assert!(others.iter().all(|(part, finished)| whole.starts_with(part) && !finished));
            prop_assert_eq!(others.len(), losses.len());
            prop_assert_eq!(*task.claims.lock().unwrap(), losses.len());
        }
    }

    #[test]
    fn a_daemon_that_goes_away_each_time_is_given_up() {
        let losses = Arc::new(Mutex::new(vec![0; 100]));
        let task = LossyTask {
            losses,
            ..LossyTask::default()
        };
        assert_eq!(send(&task, &[vec![1]]), Err(lost()));
        assert_eq!(task.taken.lock().unwrap().len(), MOST_ATTEMPTS as usize);
    }

    #[test]
    fn nothing_is_sent_again_for_a_task_that_has_ended() {
        let task = LossyTask {
            losses: Arc::new(Mutex::new(vec![0; 100])),
            is_over: true,
            ..LossyTask::default()
        };
        assert_eq!(send(&task, &[vec![1]]).unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(task.taken.lock().unwrap().len(), 1);
    }
}
