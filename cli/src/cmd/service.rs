//! `anycast service`: has the system start the home's daemon at login, or not any more, and says whether it does.

use clap::Subcommand;
use serde_json::json;

use crate::{
    background_daemon::{BackgroundDaemon, own_program},
    context::Context,
    failure::{CommandFailure, FailureCode},
    hints, output,
    user_service::{Lingering, UserService},
};

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Make the service and start it; it starts at each login, and where this user may say so, with the system
    Install,
    /// Stop the service and remove it
    Uninstall,
    /// Show whether it is there, starts at login, runs, and goes on after the logout; exit code 1 if it does not run
    Status,
}

pub(crate) async fn run(context: &Context, command: ServiceCommand) -> Result<(), CommandFailure> {
    context.refuse_address()?;
    let service = UserService::from_home(&context.home.directory()?, !context.home.is_given())?;
    match command {
        ServiceCommand::Install => install(context, &service).await,
        ServiceCommand::Uninstall => uninstall(context, &service).await,
        ServiceCommand::Status => status(context, &service).await,
    }
}

async fn install(context: &Context, service: &UserService) -> Result<(), CommandFailure> {
    // Settings that are wrong are told before anything is written.
    let daemon = BackgroundDaemon::new(&context.home)?;
    service.install(&own_program()?, daemon.arguments()).await?;
    // The service's daemon takes the place of one that runs by itself.
    daemon.process().stop().await?;
    service.restart().await?;
    let lingering = service.enable_lingering().await;
    let path = service.path().display().to_string();
    if context.json {
        return Ok(output::json(&json!({
            "name": service.name(), "file": path, "lingering": word(&lingering), "linger_command": advice(&lingering),
        }))?);
    }
    output::fields(&[
        (
            "service",
            format!("{}, started now and at each login", service.name()),
        ),
        ("home", service.home().display().to_string()),
        ("file", path),
        ("lingers", text(&lingering)),
    ])?;
    Ok(())
}

async fn uninstall(context: &Context, service: &UserService) -> Result<(), CommandFailure> {
    if !service.is_installed() {
        return Err(not_installed(service));
    }
    service.uninstall().await?;
    let name = service.name();
    if context.json {
        return Ok(output::json(&json!({"name": name}))?);
    }
    Ok(output::line(&format!(
        "removed the service {name}, and stopped its daemon"
    ))?)
}

async fn status(context: &Context, service: &UserService) -> Result<(), CommandFailure> {
    if !service.is_installed() {
        return Err(not_installed(service));
    }
    let (at_login, now) = service.state().await?;
    let lingering = service.lingering().await;
    let path = service.path().display().to_string();
    if context.json {
        output::json(&json!({
            "name": service.name(), "file": path, "at_login": at_login, "state": now, "lingering": word(&lingering),
            "linger_command": advice(&lingering),
        }))?;
    } else {
        output::fields(&[
            ("service", service.name()),
            ("home", service.home().display().to_string()),
            ("file", path),
            ("at login", at_login),
            ("state", now.clone()),
            ("lingers", text(&lingering)),
        ])?;
    }
    match now.as_str() {
        "active" | "activating" | "reloading" | "running" => Ok(()),
        _ => Err(CommandFailure::new(FailureCode::General, "ServiceInactive", now).already_reported()),
    }
}

fn not_installed(service: &UserService) -> CommandFailure {
    let text = format!(
        "there is no service {}; `{}` makes it",
        service.name(),
        hints::command("service install")
    );
    CommandFailure::new(FailureCode::NotFound, "NoService", text)
}

fn word(lingering: &Lingering) -> Option<bool> {
    match lingering {
        Lingering::On => Some(true),
        Lingering::Off(_) => Some(false),
        Lingering::Unknown => None,
    }
}

fn advice(lingering: &Lingering) -> Option<&str> {
    match lingering {
        Lingering::Off(command) => Some(command),
        _ => None,
    }
}

/// Empty where there is no such thing.
fn text(lingering: &Lingering) -> String {
    match lingering {
        Lingering::On => "yes: it starts with the system, and goes on after the logout".to_owned(),
        Lingering::Off(command) => format!("no: it ends with the last session; `{command}` lets it go on"),
        Lingering::Unknown => String::new(),
    }
}
