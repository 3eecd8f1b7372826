//! A small network laboratory: real network namespaces with real links between them, which can be cut and
//! mended. Needs root, `ip` and `nft`; where they are missing a test says so and is skipped, or fails if
//! `AGENTANYCAST_REQUIRE_LAB=1`.
//!
//! ```no_run
//! # async fn example() {
//! # use agentanycast_tests::{Daemon, network_lab::NetworkLab};
//! let Some(lab) = NetworkLab::open() else { return };
//! let (home, away) = (lab.namespace("home"), lab.namespace("away"));
//! let link = lab.link(&home, "10.0.0.1/24", &away, "10.0.0.2/24");
//! let alice = Daemon::builder().in_namespace(&home).listen(["/ip4/10.0.0.1/tcp/0"]).start().await;
//! link.cut();
//! link.restore();
//! # }
//! ```
//!
//! The rule it keeps: it touches only namespaces that it made itself, and those of test processes that died.

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io::{self, Write as _},
    net::UdpSocket,
    os::fd::AsFd as _,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::wait;

/// Every namespace of a test is called so, then `-`, the test's process, and what follows.
const PREFIX: &str = "aalab";

/// Where the system has the names of its namespaces.
const NAMESPACES: &str = "/var/run/netns";
/// And where it has settings of their own.
const SETTINGS: &str = "/etc/netns";

/// Numbers the laboratories of this process.
static LABS: AtomicU32 = AtomicU32::new(0);

/// A laboratory. Its namespaces live as long as a handle to them does, a daemon in them included.
#[derive(Debug)]
pub struct NetworkLab {
    number: u32,
    links: AtomicU32,
}

impl NetworkLab {
    /// A new one; none, after saying so, where the system does not let this process have namespaces.
    ///
    /// # Panics
    /// When there are none and `AGENTANYCAST_REQUIRE_LAB=1`.
    pub fn open() -> Option<Self> {
        let lab = Self {
            number: LABS.fetch_add(1, Ordering::Relaxed),
            links: AtomicU32::new(0),
        };
        match lab.try_out() {
            Ok(()) => Some(lab),
            Err(why) => {
                wait::skip_unless_required(&format!("no network namespaces here ({why})"));
                None
            }
        }
    }

    /// Whether all that a test may ask for works here.
    fn try_out(&self) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("not run by root".to_owned());
        }
        remove_stale()?;
        let namespace = self.make("probe")?;
        namespace.try_nft(
            "table inet probe { chain output { type filter hook output priority 0; \
             meta l4proto tcp reject with tcp reset; }; chain after { type nat hook postrouting priority 100; \
             masquerade; }; }",
        )
    }

    /// A namespace with nothing in it but its loopback. Names are told apart by laboratory and process.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn namespace(&self, name: &str) -> Namespace {
        self.make(name).unwrap_or_else(|why| panic!("{why}"))
    }

    fn make(&self, name: &str) -> Result<Namespace, String> {
        let name = format!("{PREFIX}-{}-{}-{name}", std::process::id(), self.number);
        run(Command::new("ip").args(["netns", "add", &name]))?;
        // From here on it is removed when dropped.
        let namespace = Namespace(Arc::new(NamespaceInner { name }));
        run(Command::new("ip").args(["-n", namespace.name(), "link", "set", "dev", "lo", "up"]))?;
        Ok(namespace)
    }

    /// A cable between two namespaces, with an address and its prefix length (`10.0.0.1/24`) at each end. It
    /// is there as long as the namespaces are.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn link(&self, one: &Namespace, address: &str, other: &Namespace, its_address: &str) -> VethLink {
        let device = format!("link{}", self.links.fetch_add(1, Ordering::Relaxed));
        let ip = |args: &[&str]| run(Command::new("ip").args(args)).unwrap_or_else(|why| panic!("{why}"));
        ip(&[
            "link",
            "add",
            "name",
            &device,
            "netns",
            one.name(),
            "type",
            "veth",
            "peer",
            "name",
            &device,
            "netns",
            other.name(),
        ]);
        for (end, address) in [(one, address), (other, its_address)] {
            // An IPv6 address would be looked for on the cable for a second before it can be used.
            let nodad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            ip(&[
                &["-n", end.name(), "address", "add", address, "dev", &device],
                nodad,
            ]
            .concat());
            ip(&["-n", end.name(), "link", "set", "dev", &device, "up"]);
        }
        let end = |namespace: &Namespace, address: &str| {
            let address = address.split('/').next().unwrap_or_default().to_owned();
            (namespace.clone(), address)
        };
        VethLink {
            ends: [end(one, address), end(other, its_address)],
            device,
        }
    }
}

/// A network namespace; removed when the last handle to it is dropped.
#[derive(Clone)]
pub struct Namespace(Arc<NamespaceInner>);

struct NamespaceInner {
    name: String,
}

impl Namespace {
    /// Its name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The beginning of a command that runs this program in it. The process is the program's own, so that
    /// what kills the one kills the other.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name()]).arg(program);
        command
    }

    /// Runs a program in it to its end; what it wrote.
    ///
    /// # Panics
    /// When it fails.
    pub fn run<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> String {
        run(self.command(Path::new(program)).args(args)).unwrap_or_else(|why| panic!("{why}"))
    }

    /// A UDP socket in it, for this process.
    ///
    /// # Panics
    /// When it cannot be bound.
    pub fn udp_socket(&self, address: &str) -> UdpSocket {
        let bound = self.inside(|| UdpSocket::bind(address));
        bound.unwrap_or_else(|error| panic!("{address} in {self:?}: {error}"))
    }

    /// Runs a test in it: what it connects to, it reaches from there.
    ///
    /// # Panics
    /// When the test does.
    pub fn block_on<F: Future<Output = ()>>(&self, test: impl FnOnce() -> F + Send) {
        self.inside(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().expect("a runtime");
            runtime.block_on(test());
        });
    }

    /// Does this in it. A thread of its own goes there and ends: the others stay where they are.
    fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let namespace = File::open(Path::new(NAMESPACES).join(self.name())).expect("it is there");
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("this thread may go there");
                act()
            });
            there
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Programs in it ask this server for names from now on.
    ///
    /// # Panics
    /// When that cannot be written.
    pub fn resolve_at(&self, server: &str) {
        self.etc("resolv.conf", &format!("nameserver {server}\n"));
    }

    /// Programs in it read this in a file of `/etc` from now on; those that run already only if it was written before
    /// they were started.
    ///
    /// # Panics
    /// When that cannot be written.
    pub fn etc(&self, file: &str, text: &str) {
        // `ip netns exec` shows a program what stands here in the place of what is in /etc.
        let settings = Path::new(SETTINGS).join(self.name());
        let written =
            std::fs::create_dir_all(&settings).and_then(|()| std::fs::write(settings.join(file), text));
        written.unwrap_or_else(|error| panic!("{}: {error}", settings.display()));
    }

    /// Adds rules, in the words of `nft -f`.
    ///
    /// # Panics
    /// When they are refused.
    pub fn nft(&self, rules: &str) {
        self.try_nft(rules).unwrap_or_else(|why| panic!("{why}"));
    }

    /// Makes it a router: packets may pass from one of its links to another.
    pub fn forward(&self) {
        self.run("sh", ["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    }

    /// Sends what fits nothing else to this address.
    pub fn default_route(&self, via: &str) {
        self.run("ip", ["route", "replace", "default", "via", via]);
    }

    fn try_nft(&self, rules: &str) -> Result<(), String> {
        let mut command = self.command(Path::new("nft"));
        feed(command.args(["-f", "-"]), rules).map(drop)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespace({})", self.name())
    }
}

impl Drop for NamespaceInner {
    fn drop(&mut self) {
        if let Err(why) = run(Command::new("ip").args(["netns", "delete", &self.name])) {
            eprintln!("{why}");
        }
        // Most have none.
        let _ = std::fs::remove_dir_all(Path::new(SETTINGS).join(&self.name));
    }
}

/// A link between two namespaces. It can be cut at once, as often as one likes.
#[derive(Clone, Debug)]
pub struct VethLink {
    /// Each with the address there.
    ends: [(Namespace, String); 2],
    device: String,
}

impl VethLink {
    /// The name of the network device at both ends.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Cuts it: nothing passes any more, in either direction. The TCP connections of both ends break at once
    /// (where the kernel does not allow that, at the next segment, as those that are only passed on there);
    /// new ones are refused; anything else vanishes. Cutting it twice is cutting it once.
    ///
    /// # Panics
    /// When the rules are refused.
    pub fn cut(&self) {
        let device = &self.device;
        let stop = |word: &str| {
            format!("{word} \"{device}\" meta l4proto tcp reject with tcp reset; {word} \"{device}\" drop;")
        };
        let (into, out_of) = (stop("iifname"), stop("oifname"));
        // Before the ordinary filters of a router.
        let chain = |hook: &str, rules: &str| {
            format!("chain {hook} {{ type filter hook {hook} priority -10; {rules} }};")
        };
        let table = format!(
            "table inet {device} {{ {} {} {} }}",
            chain("input", &into),
            chain("output", &out_of),
            chain("forward", &format!("{into} {out_of}")),
        );
        for (end, _) in &self.ends {
            // The empty table makes the removal legal when there is none.
            end.nft(&format!(
                "table inet {device} {{ }}; delete table inet {device}; {table}"
            ));
        }
        for (end, address) in &self.ends {
            // A connection on which nobody speaks would not notice for long.
            let kill = ["--kill", "--tcp", "--numeric", "src", address];
            let _ = run(end.command(Path::new("ss")).args(kill));
        }
    }

    /// Mends it.
    ///
    /// # Panics
    /// When the rules cannot be removed.
    pub fn restore(&self) {
        let device = &self.device;
        for (end, _) in &self.ends {
            end.nft(&format!("table inet {device} {{ }}; delete table inet {device};"));
        }
    }
}

/// Removes the namespaces of test processes that did not live to do it, and ends what still runs in them.
fn remove_stale() -> Result<(), String> {
    for line in run(Command::new("ip").args(["netns", "list"]))?.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_prefix('-')?.split('-').next()?.parse::<i32>().ok());
        let Some(owner) = owner else { continue };
        if Path::new(&format!("/proc/{owner}")).exists() {
            continue;
        }
        // Another test may be at the same: whatever is gone by now is fine.
        let left = run(Command::new("ip").args(["netns", "pids", name])).unwrap_or_default();
        for pid in left
            .lines()
            .filter_map(|pid| Pid::from_raw(pid.trim().parse().ok()?))
        {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = run(Command::new("ip").args(["netns", "delete", name]));
        let _ = std::fs::remove_dir_all(Path::new(SETTINGS).join(name));
    }
    Ok(())
}

/// Runs a command to its end; what it wrote, or what it complained of.
fn run(command: &mut Command) -> Result<String, String> {
    let outcome = command.stdin(Stdio::null()).output();
    judge(command, outcome)
}

/// As [`run`], with this on its standard input.
fn feed(command: &mut Command, input: &str) -> Result<String, String> {
    let spawned = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let outcome = spawned.and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        child.wait_with_output()
    });
    judge(command, outcome)
}

fn judge(command: &Command, outcome: io::Result<Output>) -> Result<String, String> {
    let output = outcome.map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{command:?} ended with {}: {}",
        output.status,
        complaint.trim()
    ))
}
