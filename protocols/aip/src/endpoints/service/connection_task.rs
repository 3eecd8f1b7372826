//! One connection: the client registers, its frames are handled, and it is signed off.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    DeviceService,
    entry::{ClientCaller, ClientEntry},
    incoming::{Incoming, error_message},
};
use crate::{
    messages::ClientRole,
    protocol::{
        AnyMessage, Connection, Outbox, ProtocolError, REGISTER_WITHIN, Received, Registration,
        RegistrationRefusal, heartbeat_ok,
    },
    transport::{CLOSE_NORMAL, Transport},
};

/// Frames that are not valid, one after another, before a client loses its connection.
const MOST_INVALID: u32 = 32;

static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// Serves a connection until it ends or `stop`.
pub(super) async fn serve(
    service: DeviceService,
    transport: Transport,
    caller: Option<ClientCaller>,
    stop: CancellationToken,
) {
    let mut connection = Connection::new(Arc::clone(&service.0.protocol), transport);
    let first = tokio::select! {
        () = stop.cancelled() => return,
        first = timeout(REGISTER_WITHIN, connection.next()) => first,
    };
    let registration = match first {
        // It has not said anything, or has gone.
        Err(_) | Ok(None) => return connection.shut_down(CLOSE_NORMAL).await,
        Ok(Some(Err(error))) => Err(RegistrationRefusal::NotAdmitted(error.to_string())),
        Ok(Some(Ok(Received::Message(AnyMessage::Client(message))))) => Registration::from_first(message),
        Ok(Some(Ok(Received::Custom(message)))) => Err(RegistrationRefusal::NotFirst { kind: message.kind }),
        Ok(Some(Ok(_))) => Err(RegistrationRefusal::FileFirst),
    };
    let registered = match registration {
        Ok(registration) => {
            register(
                &service,
                connection.outbox().clone(),
                (registration, caller),
                &stop,
            )
            .await
        }
        Err(refusal) => Err(refusal),
    };
    match registered {
        Err(refusal) => {
            tracing::debug!(%refusal, "a client of AIP is not registered");
            let _ = connection.outbox().send(refusal.message()).await;
            connection.shut_down(CLOSE_NORMAL).await;
            wait_for_end(&mut connection).await;
        }
        Ok(entry) => {
            run(&service, &mut connection, &entry).await;
            sign_off(&service, &entry).await;
            connection.shut_down(CLOSE_NORMAL).await;
        }
    }
}

/// Reads until the connection has ended, so that what was sent last is not lost by closing the socket.
async fn wait_for_end(connection: &mut Connection) {
    const LONGEST: std::time::Duration = std::time::Duration::from_secs(10);
    let ended = async { while connection.next().await.is_some_and(|frame| !is_end(&frame)) {} };
    let _ = timeout(LONGEST, ended).await;
}

const fn is_end(frame: &Result<Received, ProtocolError>) -> bool {
    matches!(frame, Err(ProtocolError::Transport(_)))
}

async fn register(
    service: &DeviceService,
    outbox: Outbox,
    (registration, caller): (Registration, Option<ClientCaller>),
    stop: &CancellationToken,
) -> Result<Arc<ClientEntry>, RegistrationRefusal> {
    let shared = &service.0;
    let own = caller.as_ref().and_then(|caller| caller.client_id.as_ref());
    if let Some(own) = own.filter(|own| **own != registration.client_id) {
        return Err(RegistrationRefusal::OtherId {
            client_id: registration.client_id,
            own: own.clone(),
        });
    }
    if shared.registry.contains(&registration.client_id) {
        return Err(RegistrationRefusal::Duplicate {
            client_id: registration.client_id,
        });
    }
    if let (ClientRole::Constellation, Some(target)) = (registration.role, &registration.target_id) {
        let is_known = match shared.registry.device(target) {
            Some(_) => shared.hooks.may_use(target, caller.as_ref()).await,
            None => shared.hooks.has_target(target).await,
        };
        if !is_known {
            return Err(RegistrationRefusal::Target {
                target_id: target.clone(),
            });
        }
    }
    let admitted = shared.hooks.admit(&registration, caller.as_ref()).await;
    admitted.map_err(RegistrationRefusal::NotAdmitted)?;
    let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    let entry = Arc::new(ClientEntry::new(
        number,
        (registration, caller),
        outbox,
        stop.clone(),
    ));
    shared.registry.add(&entry)?;
    if let Err(reason) = shared.hooks.connected(&entry.summary()).await {
        shared.registry.remove(&entry);
        return Err(RegistrationRefusal::NotAdmitted(reason));
    }
    Ok(entry)
}

/// Handles the frames of a client until its connection ends.
async fn run(service: &DeviceService, connection: &mut Connection, entry: &Arc<ClientEntry>) {
    if entry.outbox.send(heartbeat_ok()).await.is_err() {
        return;
    }
    tracing::info!(client_id = entry.id(), role = %entry.registration.role, "a client of AIP is connected");
    service.0.sweeper.heard(entry.id());
    let mut incoming = Incoming::new(service.clone(), Arc::clone(entry));
    let tools = incoming.learn_tools();
    let mut invalid = 0;
    loop {
        let frame = tokio::select! {
            biased;
            () = entry.gone.cancelled() => break,
            frame = connection.next() => frame,
        };
        let Some(frame) = frame else {
            break;
        };
        service.0.sweeper.heard(entry.id());
        let ends = is_end(&frame);
        let handled = match frame {
            Ok(received) => incoming.handle(received).await,
            Err(error) => Err(error.to_string()),
        };
        match handled {
            Ok(()) => invalid = 0,
            Err(text) => {
                invalid += 1;
                let _ = entry.outbox.send(error_message(text, None)).await;
            }
        }
        if ends {
            break;
        }
        if invalid >= MOST_INVALID {
            let text = format!("{MOST_INVALID} frames in a row were refused: the connection is closed");
            let _ = entry.outbox.send(error_message(text, None)).await;
            break;
        }
    }
    incoming.abort_file("the connection has ended").await;
    if let Some(tools) = tools {
        tools.abort();
        let _ = tools.await;
    }
}

/// A client is gone: what it owned or carried out ends.
async fn sign_off(service: &DeviceService, entry: &Arc<ClientEntry>) {
    entry.close();
    service.0.sweeper.forget(entry.id());
    service.0.sessions.end_of_client(entry);
    service.0.hooks.gone(&entry.summary()).await;
    service.0.registry.remove(entry);
    tracing::info!(client_id = entry.id(), "a client of AIP is gone");
}
