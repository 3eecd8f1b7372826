//! A small Internet with NATs in it: a core that routes, a relay beside it, and sites, each with a router that
//! translates addresses and a home network behind it. The addresses look like public ones, since nodes judge by
//! that; nothing leaves the namespaces. See [`crate::network_lab`] for what it needs.
//!
//! ```no_run
//! # async fn example() {
//! # use agentanycast_tests::nat::{Internet, NatKind};
//! let Some(internet) = Internet::open().await else { return };
//! let (alice, bob) = (internet.site(NatKind::Independent), internet.site(NatKind::Symmetric));
//! let (a, b) = (alice.daemon().start().await, bob.daemon().start().await);
//! # }
//! ```
//!
//! What Linux gives: `masquerade` keeps the port where it is free, so the mapping does not depend on the remote;
//! what comes in is let through only from an address and port that was sent to. With `fully-random` every
//! remote sees another port. A router drops what nobody asked for, as home routers do; a reset instead would end
//! the other side's attempt.

use std::{
    path::PathBuf,
    process::{Child, Stdio},
    sync::atomic::{AtomicU8, Ordering},
};

use tempfile::TempDir;

use crate::{
    daemon::{self, Daemon},
    name_server::{NAME, NameServer},
    network_lab::{Namespace, NetworkLab, VethLink},
    relay::{self, TestRelay},
    wait::{eventually, report_skip},
};

/// Where the relay is, and the port of both its transports.
const RELAY_NET: &str = "45.10.0";
const RELAY_PORT: u16 = 4001;
/// Where the relay goes when it moves.
const MOVED_NET: &str = "45.12.0";

/// Names the program that serves UPnP on a router, if it is not installed.
const MINIUPNPD: &str = "AGENTANYCAST_TEST_MINIUPNPD";

/// How a site's router translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatKind {
    /// Whatever the remote, a socket of the home has the same port outside.
    Independent,
    /// Every remote sees another port.
    Symmetric,
}

impl NatKind {
    fn rule(self) -> &'static str {
        match self {
            Self::Independent => "masquerade",
            Self::Symmetric => "masquerade fully-random",
        }
    }
}

/// The Internet and a relay on it.
#[derive(Debug)]
pub struct Internet {
    lab: NetworkLab,
    core: Namespace,
    relay_host: Namespace,
    relay_link: VethLink,
    /// The relay.
    pub relay: TestRelay,
    sites: AtomicU8,
}

impl Internet {
    /// With a relay; none, after saying so, where there can be no laboratory.
    pub async fn open() -> Option<Self> {
        Self::open_with(|relay, _| relay).await
    }

    /// As [`Internet::open`], with a relay that listens on a WebSocket too, at the port of the web.
    pub async fn open_with_web() -> Option<Self> {
        Self::open_with(|relay, ip| relay.listen(format!("/ip4/{ip}/tcp/{RELAY_PORT},/ip4/{ip}/tcp/80/ws")))
            .await
    }

    async fn open_with(
        set_up: impl FnOnce(relay::RelayBuilder, &str) -> relay::RelayBuilder,
    ) -> Option<Self> {
        let lab = NetworkLab::open()?;
        let core = lab.namespace("core");
        core.forward();
        let host = lab.namespace("relay");
        let relay_link = lab.link(
            &core,
            &format!("{RELAY_NET}.1/24"),
            &host,
            &format!("{RELAY_NET}.2/24"),
        );
        host.default_route(&format!("{RELAY_NET}.1"));
        let ip = format!("{RELAY_NET}.2");
        let relay = set_up(relay_at(&host, &ip), &ip).start().await;
        Some(Self {
            lab,
            core,
            relay_host: host,
            relay_link,
            relay,
            sites: AtomicU8::new(0),
        })
    }

    /// One more relay, on a host of its own.
    pub async fn another_relay(&self) -> TestRelay {
        let net = "45.11.0";
        let host = self.lab.namespace("relay2");
        self.lab
            .link(&self.core, &format!("{net}.1/24"), &host, &format!("{net}.2/24"));
        host.default_route(&format!("{net}.1"));
        relay_at(&host, &format!("{net}.2")).start().await
    }

    /// The same as nodes dial it.
    pub fn next_relay_address(&self) -> String {
        format!(
            "/ip4/{}/tcp/{RELAY_PORT}/p2p/{}",
            self.next_relay_ip(),
            self.relay.id()
        )
    }

    /// A server of names on a host of its own, which knows where the relay is.
    pub fn name_server(&self) -> NameServer {
        let net = "45.14.0";
        let host = self.lab.namespace("names");
        self.lab
            .link(&self.core, &format!("{net}.1/24"), &host, &format!("{net}.2/24"));
        host.default_route(&format!("{net}.1"));
        NameServer::start(&host, &format!("{net}.2"), &format!("{RELAY_NET}.2"))
    }

    /// Where the relay will be after [`Internet::move_relay`].
    pub fn next_relay_ip(&self) -> String {
        format!("{MOVED_NET}.2")
    }

    /// Kills the relay, gives its host another address instead of its own, and starts it again there.
    pub async fn move_relay(&mut self) {
        self.relay.kill().await;
        let host = &self.relay_host;
        host.run(
            "ip",
            [
                "address",
                "del",
                &format!("{RELAY_NET}.2/24"),
                "dev",
                self.relay_link.device(),
            ],
        );
        self.lab.link(
            &self.core,
            &format!("{MOVED_NET}.1/24"),
            host,
            &format!("{MOVED_NET}.2/24"),
        );
        host.default_route(&format!("{MOVED_NET}.1"));
        let listen = format!("/ip4/{MOVED_NET}.2/tcp/{RELAY_PORT}");
        self.relay = self.relay.stopped().listen(listen).start().await;
    }

    /// A daemon on a host without a router in front, that knows the relay.
    pub fn public_daemon(&self) -> daemon::DaemonBuilder {
        let host = self.lab.namespace("public");
        let net = "45.13.0";
        self.lab
            .link(&self.core, &format!("{net}.1/24"), &host, &format!("{net}.2/24"));
        host.default_route(&format!("{net}.1"));
        daemon_on(&host, &self.relay.addresses)
    }

    /// A site with a router of this kind and one host behind it.
    pub fn site(&self, nat: NatKind) -> Site {
        let number = self.sites.fetch_add(1, Ordering::Relaxed) + 1;
        let router = self.lab.namespace(&format!("nat{number}"));
        let home = self.lab.namespace(&format!("home{number}"));
        let outside = format!("46.{number}.0");
        let wan = self.lab.link(
            &self.core,
            &format!("{outside}.1/24"),
            &router,
            &format!("{outside}.2/24"),
        );
        router.default_route(&format!("{outside}.1"));
        router.forward();
        let lan = attach(&self.lab, &router, &home, 1);
        let site = Site {
            bootstrap: self.relay.addresses.clone(),
            router,
            home,
            outside,
            wan,
            lan,
        };
        site.translate(nat.rule());
        site
    }

    /// Takes the host of `from` out of its network and puts it into that of `to`.
    pub fn move_host(&self, from: &Site, to: &Site) {
        from.home.run("ip", ["link", "del", "dev", from.lan.device()]);
        attach(&self.lab, &to.router, &from.home, 2);
    }
}

fn relay_at(host: &Namespace, ip: &str) -> relay::RelayBuilder {
    TestRelay::builder()
        .in_namespace(host)
        .listen(format!("/ip4/{ip}/tcp/{RELAY_PORT}"))
}

fn daemon_on(host: &Namespace, relays: &[String]) -> daemon::DaemonBuilder {
    let builder = Daemon::builder()
        .in_namespace(host)
        .args(["--log-level=debug"])
        .listen(["/ip4/0.0.0.0/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1"]);
    relays.iter().fold(builder, daemon::DaemonBuilder::bootstrap)
}

/// A router and a host behind it.
#[derive(Debug)]
pub struct Site {
    bootstrap: Vec<String>,
    router: Namespace,
    /// The host.
    pub home: Namespace,
    outside: String,
    /// The router's link to the Internet.
    pub wan: VethLink,
    lan: VethLink,
}

impl Site {
    /// A daemon on the host, with TCP and QUIC on all its addresses, that knows the relay.
    pub fn daemon(&self) -> daemon::DaemonBuilder {
        daemon_on(&self.home, &self.bootstrap)
    }

    /// The host knows the relay by its name only, over both transports.
    pub fn know_relay_by_name(&mut self, names: &NameServer) {
        self.home.resolve_at(names.ip());
        let id = self.bootstrap[0]
            .rsplit_once('/')
            .expect("an address with its id")
            .1;
        self.bootstrap = ["tcp/4001", "udp/4001/quic-v1"]
            .map(|road| format!("/dns4/{NAME}/{road}/p2p/{id}"))
            .to_vec();
    }

    /// Nothing but TCP passes the router any more.
    pub fn block_udp(&self) {
        self.router.nft(
            "table inet block { chain forward { type filter hook forward priority 0; meta l4proto udp drop; }; }",
        );
    }

    /// Nothing but connections to the ports of the web passes the router any more.
    pub fn allow_web_only(&self) {
        self.router.nft(
            "table inet block { chain forward { type filter hook forward priority 0; \
               ct state established,related accept; tcp dport { 80, 443 } accept; drop; }; }",
        );
    }

    /// Nothing new leaves for other sites until the router is changed. Linux goes on translating as it did for a hole that was
    /// not punched, for as long as somebody tries, whatever the router is told meanwhile; so whoever is to be reached after
    /// [`Site::change_nat`], and cannot be before, tries in vain here.
    pub fn block_new_flows(&self) {
        self.router.nft(
            "table inet holes { chain forward { type filter hook forward priority 0; \
               ip daddr 46.0.0.0/8 ct state new drop; }; }",
        );
    }

    /// The router translates so from now on, and holds nothing back; what it has translated stays.
    pub fn change_nat(&self, nat: NatKind) {
        self.translate(nat.rule());
        self.router.nft("table inet holes { }; delete table inet holes;");
    }

    /// The router opens ports to whoever asks by UPnP, as many home routers do; none, after saying so, without the
    /// program for it.
    pub async fn serve_upnp(&self) -> Option<UpnpGateway> {
        let program = std::env::var_os(MINIUPNPD).map_or_else(|| "/usr/sbin/miniupnpd".into(), PathBuf::from);
        if !program.exists() {
            report_skip(&format!(
                "no {} here; {MINIUPNPD} may say where it is",
                program.display()
            ));
            return None;
        }
        self.router.nft(
            "table inet upnp { chain mapped { }; chain passed { }; chain back { }; \
               chain prerouting { type nat hook prerouting priority -100; jump mapped; }; \
               chain forward { type filter hook forward priority 0; jump passed; }; }",
        );
        let home = tempfile::tempdir().expect("a temporary directory");
        let settings = home.path().join("miniupnpd.conf");
        let text = format!(
            "ext_ifname={}\nlistening_ip={}\nport=0\nenable_upnp=yes\nenable_natpmp=no\nsecure_mode=yes\n\
             upnp_table_name=upnp\nupnp_nat_table_name=upnp\nupnp_forward_chain=passed\nupnp_nat_chain=mapped\n\
             upnp_nat_postrouting_chain=back\nuuid=00000000-0000-4000-8000-000000000001\n\
             allow 1024-65535 192.168.1.0/24 1024-65535\n",
            self.wan.device(),
            self.lan.device()
        );
        std::fs::write(&settings, text).expect("the settings are written");
        let mut command = self.router.command(&program);
        command.arg("-d").arg("-f").arg(&settings);
        command.arg("-P").arg(home.path().join("pid"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("the program can be run");
        let gateway = UpnpGateway { child, _home: home };
        eventually("the router listens for UPnP", || async {
            let listening = self
                .router
                .run("ss", ["-H", "-u", "-l", "-n", "sport", "=", "1900"]);
            (!listening.is_empty()).then_some(())
        })
        .await;
        Some(gateway)
    }

    /// The host has one more address.
    pub fn add_address(&self) {
        self.home
            .run("ip", ["address", "add", "10.99.0.1/32", "dev", "lo"]);
    }

    /// The router forgets what it has translated, and chooses other ports from now on.
    pub fn rebind(&self) {
        self.translate("meta l4proto { tcp, udp } masquerade to :30000-39999");
        let (device, outside) = (self.wan.device(), &self.outside);
        // A masquerading router forgets its mappings with the address.
        self.router.run(
            "ip",
            ["address", "del", &format!("{outside}.2/24"), "dev", device],
        );
        self.router.run(
            "ip",
            ["address", "add", &format!("{outside}.2/24"), "dev", device],
        );
        self.router.default_route(&format!("{outside}.1"));
    }

    fn translate(&self, rule: &str) {
        let device = self.wan.device();
        self.router.nft(&format!(
            "table ip nat {{ }}; delete table ip nat; table ip nat {{ \
               chain post {{ type nat hook postrouting priority 100; oifname \"{device}\" {rule}; }}; \
               chain input {{ type filter hook input priority 0; iifname \"{device}\" ct state new drop; }}; \
             }}"
        ));
    }
}

/// A router's UPnP; dropping it ends it.
#[derive(Debug)]
pub struct UpnpGateway {
    child: Child,
    _home: TempDir,
}

impl Drop for UpnpGateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts a host into a network behind a router. Every site has the same first one, as homes do, and one more for
/// guests.
fn attach(lab: &NetworkLab, router: &Namespace, host: &Namespace, network: u8) -> VethLink {
    let (gateway, own) = (format!("192.168.{network}.1"), format!("192.168.{network}.10/24"));
    let link = lab.link(router, &format!("{gateway}/24"), host, &own);
    host.default_route(&gateway);
    link
}
