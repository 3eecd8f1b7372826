//! `anycast restart`: stops the home's daemon if it runs, and starts it with the settings as they are now.

use super::up;
use crate::{
    background_daemon::BackgroundDaemon, context::Context, failure::CommandFailure, interrupt::Interrupt,
};

pub(crate) async fn run(context: &Context) -> Result<(), CommandFailure> {
    context.refuse_address()?;
    context.keep_relays()?;
    // Settings that are wrong are told while the old daemon still runs.
    let daemon = BackgroundDaemon::new(&context.home)?;
    let running = Interrupt::new()?.or(daemon.restart()).await?;
    up::show(context, &daemon, running).await
}
