//! Addresses with names (`/dns…`): looked up with the resolver settings of the moment.
//!
//! libp2p's DNS transport reads the settings once. This one makes it anew around the same inner transport when
//! `/etc/resolv.conf` or `/etc/hosts` have changed, and after a look-up that failed.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use agentanycast_daemon_kit::resolver::{self, Version};
use futures::{FutureExt as _, future::BoxFuture};
use libp2p::{
    Multiaddr, Transport,
    core::transport::{DialOpts, ListenerId, TransportError, TransportEvent},
    dns,
    multiaddr::Protocol,
};

/// A transport that several can use.
pub(super) struct SharedTransport<T>(Arc<Mutex<T>>);

impl<T> Clone for SharedTransport<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> SharedTransport<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport + Unpin> Transport for SharedTransport<T> {
    type Output = T::Output;
    type Error = T::Error;
    type ListenerUpgrade = T::ListenerUpgrade;
    type Dial = T::Dial;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<Self::Error>> {
        self.lock().listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.lock().remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<Self::Error>> {
        self.lock().dial(address, options)
    }

    fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, Self::Error>> {
        Pin::new(&mut *self.lock()).poll(cx)
    }
}

/// The transport with names in front.
pub(super) struct DnsTransport<T> {
    inner: SharedTransport<T>,
    dns: dns::tokio::Transport<SharedTransport<T>>,
    /// Of the settings that `dns` was made with.
    version: Version,
    /// A look-up has failed since.
    has_failed: Arc<AtomicBool>,
}

impl<T> DnsTransport<T> {
    pub(super) fn new(inner: T) -> Self {
        let inner = SharedTransport(Arc::new(Mutex::new(inner)));
        // Before the settings are read: a change in between is seen at the next dial.
        let version = Version::now();
        Self {
            dns: with_settings_of_now(&inner),
            inner,
            version,
            has_failed: Arc::default(),
        }
    }

    /// Reads the settings again if that may help.
    fn refresh(&mut self) {
        let now = Version::now();
        let has_changed = now != self.version;
        if self.has_failed.swap(false, Ordering::Relaxed) || has_changed {
            if has_changed {
                tracing::info!("the resolver's settings have changed; names are looked up with the new ones");
            }
            self.dns = with_settings_of_now(&self.inner);
            self.version = now;
        }
    }
}

fn with_settings_of_now<T>(inner: &SharedTransport<T>) -> dns::tokio::Transport<SharedTransport<T>> {
    let (config, options) = resolver::settings();
    dns::tokio::Transport::custom(inner.clone(), config, options)
}

fn has_name(address: &Multiaddr) -> bool {
    address.iter().any(|part| {
        matches!(
            part,
            Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) | Protocol::Dnsaddr(_)
        )
    })
}

/// Whether a look-up of a name failed on the way.
fn is_unresolved<E>(error: &dns::Error<E>) -> bool {
    match error {
        dns::Error::ResolveError(_) => true,
        dns::Error::Dial(errors) => errors.iter().any(is_unresolved),
        _ => false,
    }
}

impl<T> Transport for DnsTransport<T>
where
    T: Transport + Send + Unpin + 'static,
    T::Output: 'static,
    T::Error: Send + 'static,
    T::Dial: Send + 'static,
{
    type Output = T::Output;
    type Error = dns::Error<T::Error>;
    type ListenerUpgrade = <dns::tokio::Transport<SharedTransport<T>> as Transport>::ListenerUpgrade;
    type Dial = BoxFuture<'static, Result<Self::Output, Self::Error>>;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<Self::Error>> {
        self.dns.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.dns.remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<Self::Error>> {
        let is_named = has_name(&address);
        if is_named {
            self.refresh();
        }
        let dial = self.dns.dial(address, options)?;
        if !is_named {
            return Ok(dial.boxed());
        }
        let has_failed = Arc::clone(&self.has_failed);
        let noted = dial.inspect(move |outcome| {
            if outcome.as_ref().is_err_and(is_unresolved) {
                has_failed.store(true, Ordering::Relaxed);
            }
        });
        Ok(noted.boxed())
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, Self::Error>> {
        Pin::new(&mut self.dns).poll(cx)
    }
}
