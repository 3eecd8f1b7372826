//! A full pipe that no program reads, as a log collector that hangs leaves it, for a program's standard error or output.

use std::{
    io::{ErrorKind, PipeReader, PipeWriter, Read as _, Write as _, pipe},
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The pipe. A program that writes to it waits until [`UnreadPipe::read`] is called.
#[derive(Debug)]
pub struct UnreadPipe {
    reader: Mutex<Option<PipeReader>>,
    writer: PipeWriter,
}

impl UnreadPipe {
    /// A pipe that is filled with empty lines.
    ///
    /// # Panics
    /// When the system gives none.
    pub fn full() -> Self {
        let (reader, mut writer) = pipe().expect("a pipe");
        let blocking = fcntl_getfl(&writer).expect("the flags of a pipe");
        fcntl_setfl(&writer, blocking | OFlags::NONBLOCK).expect("a pipe that does not block");
        // Page by page, then byte by byte.
        for size in [4096, 1] {
            loop {
                match writer.write(&[b'\n'].repeat(size)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("the pipe cannot be filled: {error}"),
                }
            }
        }
        fcntl_setfl(&writer, blocking).expect("a pipe that blocks");
        Self {
            reader: Mutex::new(Some(reader)),
            writer,
        }
    }

    /// The end that a program writes to.
    ///
    /// # Panics
    /// When the system gives no descriptor.
    pub fn stdio(&self) -> Stdio {
        self.writer.try_clone().expect("a descriptor").into()
    }

    /// Begins to read the pipe; what is read is added to the result.
    ///
    /// # Panics
    /// When it is read already.
    pub fn read(&self) -> Arc<Mutex<Vec<u8>>> {
        let reader = self.reader.lock().expect("the reader").take();
        let mut reader = reader.expect("nothing reads the pipe yet");
        let text = Arc::new(Mutex::new(Vec::new()));
        let added = Arc::clone(&text);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                added.lock().expect("the text").extend_from_slice(&bytes[..count]);
            }
        });
        text
    }
}
