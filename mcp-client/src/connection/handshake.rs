//! How a client and a server agree on a revision: `server/discover` of the revision without a handshake, and
//! the handshake of those before. Over HTTP the former is tried first, which costs the server nothing; a
//! program on two pipes is greeted by the handshake first, which most programs have. The other is tried next,
//! also where the server is silent.

use std::{pin::Pin, sync::OnceLock, time::Duration};

use agentanycast_limits::Backoff;
use serde_json::Map;
use tokio::time::{sleep, timeout};

use super::Connection;
use crate::{
    failure::{FailureKind, McpFailure},
    message,
    revision::{self, Revision},
};

/// How long the first way is waited for alone: a server without it may answer nothing. One that starts slowly
/// answers later.
const FIRST_ALONE: Duration = Duration::from_secs(10);

/// The pauses before a server that is not ready is greeted again.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));

/// The code of JSON-RPC by which a server refuses a revision.
const UNSUPPORTED_VERSION: i64 = -32022;

/// What was agreed on.
pub(crate) struct Agreed {
    pub(crate) revision: Revision,
    pub(crate) server_name: Option<String>,
}

type Agreeing<'a> = Pin<Box<dyn Future<Output = Result<Agreed, McpFailure>> + Send + 'a>>;

/// Agrees on a revision.
pub(crate) async fn agree(connection: &Connection) -> Result<Agreed, McpFailure> {
    let initialize = || Box::pin(initialize(connection)) as Agreeing<'_>;
    let discover = || Box::pin(discover(connection)) as Agreeing<'_>;
    let (mut first, mut second) = if connection.is_http() {
        (discover(), initialize())
    } else {
        (initialize(), discover())
    };
    let failures = match timeout(FIRST_ALONE, &mut first).await {
        Ok(Ok(agreed)) => return Ok(agreed),
        Ok(Err(failure)) if matches!(failure.kind(), FailureKind::Ended | FailureKind::NotDone) => {
            return Err(failure);
        }
        // It is asked again: one that ignores the other way must not hold that up.
        Ok(Err(failure)) if failure.may_pass() => match timeout(FIRST_ALONE, second).await {
            Ok(Ok(agreed)) => return Ok(agreed),
            Ok(Err(other)) => (failure, other),
            Err(_) => return Err(failure),
        },
        Ok(Err(failure)) => match second.await {
            Ok(agreed) => return Ok(agreed),
            Err(other) => (failure, other),
        },
        Err(_) => tokio::select! {
            agreed = &mut first => match agreed {
                Ok(agreed) => return Ok(agreed),
                Err(failure) => match second.await {
                    Ok(agreed) => return Ok(agreed),
                    Err(other) => (failure, other),
                },
            },
            agreed = &mut second => match agreed {
                Ok(agreed) => return Ok(agreed),
                // It has the first way then, and is slow.
                Err(other) => match first.await {
                    Ok(agreed) => return Ok(agreed),
                    Err(failure) => (failure, other),
                },
            },
        },
    };
    let (first, second) = failures;
    let (handshake, other) = if connection.is_http() {
        (second, first)
    } else {
        (first, second)
    };
    if handshake.to_string() == other.to_string() {
        return Err(handshake);
    }
    let text = format!("{handshake} (and without a handshake: {other})");
    Err(handshake.with_text(text))
}

/// Agrees on a revision, with a server that is started. One that refuses since it is not ready is asked again as long
/// as `again` says so.
pub(crate) async fn agree_when_ready(
    connection: &Connection,
    again: impl Fn(&McpFailure) -> bool,
) -> Result<Agreed, McpFailure> {
    let mut pauses = PAUSES;
    loop {
        match agree(connection).await {
            Err(failure) if failure.may_pass() && again(&failure) => {}
            agreed => return agreed,
        }
        sleep(pauses.next_wait()).await;
    }
}

async fn initialize(connection: &Connection) -> Result<Agreed, McpFailure> {
    let (unknown, session) = (Revision::unknown(), OnceLock::new());
    let params = revision::handshake(connection.shared.client);
    let result = connection.ask(&unknown, "initialize", params, &session).await?;
    if !result.is_object() {
        let shown: String = result.to_string().chars().take(300).collect();
        let text =
            format!("the MCP server answered the handshake with something else than an object: {shown}");
        return Err(McpFailure::unreadable(text));
    }
    let revision = Revision::agreed(&result).map_err(|version| {
        McpFailure::unreadable(format!(
            "the MCP server speaks the revision {version}, which is not known here"
        ))
    })?;
    let revision = Revision {
        session: session.into_inner(),
        ..revision
    };
    if !revision.is_stateless() {
        let initialized = message::notification("notifications/initialized", None);
        connection.tell(&revision, &initialized).await;
    }
    Ok(Agreed {
        server_name: revision::server_name(&result),
        revision,
    })
}

async fn discover(connection: &Connection) -> Result<Agreed, McpFailure> {
    let revision = Revision::stateless();
    let ask = || async {
        connection
            .ask(&revision, "server/discover", Map::new(), &OnceLock::new())
            .await
    };
    let result = match ask().await {
        // It names the revisions that it speaks, and there is only one that can be meant.
        Err(failure) if failure.code() == Some(UNSUPPORTED_VERSION) => ask().await?,
        answered => answered?,
    };
    revision::discovered(&result).map_err(|versions| {
        McpFailure::unreadable(format!(
            "the MCP server speaks the revisions {versions}, which are not known here"
        ))
    })?;
    Ok(Agreed {
        server_name: revision::server_name(&result),
        revision,
    })
}
