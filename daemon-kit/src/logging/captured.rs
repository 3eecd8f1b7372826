//! The text that a layer of the log writes, for tests of its format.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tracing_subscriber::{Layer, Registry, layer::SubscriberExt as _};

/// A writer whose clones write to one text.
#[derive(Clone, Default)]
pub(super) struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the layer that `layer` makes of a writer writes while `log` runs.
pub(super) fn logged<L>(layer: impl FnOnce(Captured) -> L, log: impl FnOnce()) -> String
where
    L: Layer<Registry> + Send + Sync,
{
    let captured = Captured::default();
    let subscriber = Registry::default().with(layer(captured.clone()));
    tracing::subscriber::with_default(subscriber, log);
    let bytes = captured.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}
