//! How this host looks names up, as its settings are now: `/etc/resolv.conf` and `/etc/hosts` change while a daemon runs,
//! since a machine goes from one network to the next.

use std::{net::Ipv4Addr, path::Path};

use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolverConfig, ResolverOpts},
    net::{NetError, runtime::TokioRuntimeProvider},
    system_conf::read_system_conf,
};

use crate::file_version::FileVersion;

/// The files that decide how names are looked up.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// The settings of the system. Without any the name server is the one of this host (resolv.conf(5)), and names in
/// `/etc/hosts` are still found.
pub fn settings() -> (ResolverConfig, ResolverOpts) {
    read_system_conf().unwrap_or_else(|error| {
        tracing::debug!(%error, "the resolver's settings cannot be read; names are asked of this host and /etc/hosts");
        let local = NameServerConfig::udp_and_tcp(Ipv4Addr::LOCALHOST.into());
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![local]);
        (config, ResolverOpts::default())
    })
}

/// A resolver with the settings of the system, changed by `set`.
///
/// # Errors
/// The resolver's.
pub fn of_system(set: impl FnOnce(&mut ResolverOpts)) -> Result<TokioResolver, NetError> {
    let (config, mut options) = settings();
    set(&mut options);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
}

/// What tells one state of the settings' files from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version([Option<FileVersion>; 2]);

impl Version {
    /// As the files are now.
    pub fn now() -> Self {
        Self(FILES.map(|file| FileVersion::of(Path::new(file))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_stay_have_one_version() {
        assert_eq!(Version::now(), Version::now());
        assert!(!settings().0.name_servers.is_empty());
    }
}
