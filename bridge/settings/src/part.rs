//! The settings of gateways that a program is made with when it starts: a table each, from which flags, variables, the section
//! of the file, the man page and the completions are made.
//!
//! A gateway `NAME` has the section `[gateways.NAME]`, the flags `--NAME-…` and the variables `…GATEWAYS_NAME_…`, unless its
//! table names another [`Section`]. What is set is kept as it was written, and read when the gateway starts. PURE.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use agentanycast_daemon_kit::{
    key,
    settings::{self, ConfigError, Flag, InvalidValue, PartKey, Raw, Setting as _, SettingKey, ValueSources},
};

use crate::front::{FrontSettings, bad_value, bounds};

/// A program that has gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The daemon: the node is in the same process.
    Daemon,
    /// The bridge as a program of its own, before a daemon.
    Bridge,
}

/// Where the settings of a part stand in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// What their names in the file begin with.
    pub names: String,
    /// What their flags begin with.
    pub flags: String,
    /// What their variables begin with.
    pub variables: String,
    /// Whether the part runs without being turned on.
    pub is_always_on: bool,
}

impl Section {
    /// With these beginnings.
    pub fn new(names: &str, flags: &str, variables: &str) -> Self {
        Self {
            names: names.to_owned(),
            flags: flags.to_owned(),
            variables: variables.to_owned(),
            is_always_on: false,
        }
    }

    /// That of the gateway of this name: `[gateways.NAME]`.
    pub fn of_gateway(name: &str) -> Self {
        let upper = name.to_ascii_uppercase().replace('-', "_");
        Self::new(
            &format!("gateways.{name}."),
            &format!("{name}-"),
            &format!("GATEWAYS_{upper}_"),
        )
    }

    /// The whole name of a setting.
    pub fn name(&self, key: &str) -> String {
        format!("{}{key}", self.names)
    }
}

/// What is set of the gateways of a program, by the names of the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartValues {
    values: BTreeMap<&'static str, Raw>,
    home: Option<PathBuf>,
}

impl PartValues {
    /// Whether something is set in this section, and not whether the gateway runs.
    pub fn leaves_open(&self, section: &Section) -> bool {
        let names = self.values.keys();
        let mut own = names
            .filter_map(|name| name.strip_prefix(&section.names))
            .peekable();
        own.peek().is_some() && !own.any(|name| name == "enabled")
    }
}

/// A configuration that has such a part.
pub trait HasPartValues {
    /// The part.
    fn part_values(&self) -> &PartValues;
    /// The part.
    fn part_values_mut(&mut self) -> &mut PartValues;
}

/// The settings of a gateway: its front, and what it has of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewaySettings<S> {
    /// Whether it runs. Default: false.
    pub enabled: bool,
    /// Whether every peer may use the agents that it attaches. Default: as `agents.default_access` says.
    pub open: Option<bool>,
    /// Where it listens, and who may call.
    pub front: FrontSettings,
    /// What it has of its own.
    pub own: S,
}

/// A gateway's settings as tables: those of its front, and its own.
pub trait SettingTables: Default + Clone + fmt::Debug + Send + 'static {
    /// Its own settings: names in the section, what flags are called behind `--NAME-`, and what variables are called behind
    /// `GATEWAYS_NAME_`. A flag without a name is called as the section is.
    const OWN: &'static [SettingKey<Self>] = &[];

    /// Whether the gateway attaches agents to the node, whose access is a setting then.
    const ATTACHES_AGENTS: bool = false;

    /// What `enabled` turns on.
    const ABOUT: &'static str = "The gateway";

    /// What `listen` is.
    const LISTEN: &'static str = "Where clients connect, HOST:PORT";

    /// The front when nothing is set.
    fn front() -> FrontSettings {
        FrontSettings::default()
    }

    /// Where the settings of the gateway of this name stand.
    fn section(name: &str, _: Host) -> Section {
        Section::of_gateway(name)
    }

    /// Where the settings of its front stand, but for `listen`.
    fn front_section(name: &str, host: Host) -> Section {
        Self::section(name, host)
    }

    /// Checks what goes together of its own settings and those of its front.
    ///
    /// # Errors
    /// The name of a setting in its section, and what it may be.
    fn check(&self, _: &FrontSettings, _: &Section) -> Result<(), (&'static str, String)> {
        Ok(())
    }

    /// The setting by which the gateway has something to do without its front, if one asks for that.
    fn wanted_without_front(&self) -> Option<&'static str> {
        None
    }
}

/// A gateway without settings of its own.
impl SettingTables for () {}

/// The setting of a front that is not another gateway's.
const LISTEN: &str = "listen";

/// The settings of every front. Their names are those in a gateway's section.
#[rustfmt::skip] // A table.
static FRONT: &[SettingKey<FrontSettings>] = &[
    key!(FrontSettings, "listen", listen).variable("LISTEN").flag("listen", "ADDR", "Where clients connect, HOST:PORT"),
    key!(FrontSettings, "allow_remote", allow_remote).variable("ALLOW_REMOTE").flag("allow-remote", "", "Listen for them beyond loopback without TLS, or with callers that need not say who they are"),
    key!(FrontSettings, "tls_cert", tls_cert).variable("TLS_CERT").flag("tls-cert", "FILE", "The certificate of TLS, PEM; read again when it changes"),
    key!(FrontSettings, "tls_key", tls_key).variable("TLS_KEY").flag("tls-key", "FILE", "Its key, PEM"),
    key!(FrontSettings, "public_url", public_url).variable("PUBLIC_URL").flag("public-url", "URL", "How clients reach it"),
    key!(FrontSettings, "cors_origins", cors_origins).variable("CORS_ORIGINS").flag("cors-origins", "ORIGINS", "Origins whose pages may call, comma list, * for any"),
    key!(FrontSettings, "tokens_file", auth.tokens_file).variable("TOKENS_FILE").flag("tokens-file", "FILE", "Callers, one a line: a name and its Bearer token"),
    key!(FrontSettings, "auth.issuer", auth.issuer).variable("AUTH_ISSUER").flag("auth-issuer", "URL", "The issuer whose tokens are taken (OpenID Connect, OAuth 2.0)"),
    key!(FrontSettings, "auth.jwks_url", auth.jwks_url).variable("AUTH_JWKS_URL").flag("auth-jwks-url", "URL", "Where its keys are, unless it says so itself"),
    key!(FrontSettings, "auth.audience", auth.audience).variable("AUTH_AUDIENCE").flag("auth-audience", "NAMES", "Audiences of which a token has one, comma list"),
    key!(FrontSettings, "auth.scopes", auth.scopes).variable("AUTH_SCOPES").flag("auth-scopes", "NAMES", "Scopes that a token needs, comma list"),
    key!(FrontSettings, "auth.leeway", auth.leeway).variable("AUTH_LEEWAY").flag("auth-leeway", "TIME", "How much the issuer's clock may differ").bounds(bounds::LEEWAY_TIME),
    key!(FrontSettings, "auth.client_ca", auth.client_ca).variable("CLIENT_CA").flag("client-ca", "FILE", "Who signs the certificates of callers (mutual TLS), PEM"),
    key!(FrontSettings, "limits.rate", limits.rate).variable("RATE").flag("rate", "N", "Requests a second of one caller, 0 for no limit").bounds(bounds::RATE),
    key!(FrontSettings, "limits.burst", limits.burst).variable("BURST").flag("burst", "N", "Requests of one caller at once beyond that rate").bounds(bounds::COUNT),
    key!(FrontSettings, "limits.at_once", limits.at_once).variable("AT_ONCE").flag("at-once", "N", "Requests and streams of one caller that are open at a time").bounds(bounds::COUNT),
    key!(FrontSettings, "limits.connections", limits.connections).variable("CONNECTIONS").flag("connections-per-address", "N", "Connections from one address").bounds(bounds::COUNT),
    key!(FrontSettings, "max_body", max_body).variable("MAX_BODY").flag("max-body", "SIZE", "Largest body of a request").bounds(bounds::BODY),
];

const OPEN: SettingKey<OpenAgents> = key!(OpenAgents, "open", open).variable("OPEN").flag(
    "open",
    "",
    "Let every peer use the agents that it attaches",
);

/// The setting of gateways that attach agents.
#[derive(Clone, Debug, Default)]
struct OpenAgents {
    open: Option<bool>,
}

/// The setting that turns a gateway on.
fn enabled(about: &'static str) -> SettingKey<bool> {
    SettingKey {
        name: "enabled",
        in_file: true,
        secret: false,
        only_with: None,
        flag: None,
        variable: None,
        set: |on, raw, home| {
            *on = bool::read(raw, home)?;
            Ok(())
        },
        show: bool::show,
        about: Some(about),
        bounds: None,
        schema: || settings::of_field(|on: &bool| on),
        part: None,
    }
}

/// A setting of a part, by its whole name.
#[derive(Debug)]
struct PartSetting<S: 'static> {
    key: SettingKey<S>,
    name: &'static str,
    /// The settings when nothing is set.
    defaults: fn() -> S,
}

impl<S: fmt::Debug + 'static> PartKey<PartValues> for PartSetting<S> {
    fn set(&self, part: &mut PartValues, raw: &Raw, home: Option<&Path>) -> Result<(), InvalidValue> {
        self.key.set_value(&mut (self.defaults)(), raw, home)?;
        part.values.insert(self.name, raw.clone());
        part.home = home.map(Path::to_owned);
        Ok(())
    }

    fn show(&self, part: &PartValues) -> String {
        let mut settings = (self.defaults)();
        part.apply(self.name, &self.key, &mut settings);
        self.key.shown(&settings)
    }
}

/// A setting of a part, in the configuration of a program.
#[derive(Debug)]
struct ProgramSetting(SettingKey<PartValues>);

impl<C: HasPartValues + 'static> PartKey<C> for ProgramSetting {
    fn set(&self, config: &mut C, raw: &Raw, home: Option<&Path>) -> Result<(), InvalidValue> {
        self.0.set_value(config.part_values_mut(), raw, home)
    }

    fn show(&self, config: &C) -> String {
        self.0.shown(config.part_values())
    }
}

/// The same setting in the configuration of a program. Made once, when the program starts.
pub fn in_program<C: HasPartValues + 'static>(key: SettingKey<PartValues>) -> SettingKey<C> {
    with_part(key, Box::leak(Box::new(ProgramSetting(key))))
}

/// The setting with another configuration, which this part of it keeps.
fn with_part<C: 'static, S: 'static>(key: SettingKey<S>, part: &'static dyn PartKey<C>) -> SettingKey<C> {
    SettingKey {
        name: key.name,
        in_file: key.in_file,
        secret: key.secret,
        only_with: key.only_with,
        flag: key.flag,
        variable: key.variable,
        set: |_, _, _| Ok(()),
        show: |_| String::new(),
        about: key.about,
        bounds: key.bounds,
        schema: key.schema,
        part: Some(part),
    }
}

impl PartValues {
    /// Sets a field as it was set, if it was.
    fn apply<S: 'static>(&self, name: &str, key: &SettingKey<S>, settings: &mut S) {
        if let Some(raw) = self.values.get(name) {
            // It was read when it was set.
            let _ = key.set_value(settings, raw, self.home.as_deref());
        }
    }

    /// The settings of the gateway of this name.
    pub fn read<S: SettingTables>(&self, gateway: &str, host: Host) -> GatewaySettings<S> {
        let (section, front) = (S::section(gateway, host), S::front_section(gateway, host));
        let mut settings = GatewaySettings::<S> {
            enabled: section.is_always_on,
            open: None,
            front: S::front(),
            own: S::default(),
        };
        self.apply(
            &section.name("enabled"),
            &enabled(S::ABOUT),
            &mut settings.enabled,
        );
        for key in FRONT {
            let section = if key.name == LISTEN { &section } else { &front };
            self.apply(&section.name(key.name), key, &mut settings.front);
        }
        if S::ATTACHES_AGENTS {
            let mut access = OpenAgents::default();
            self.apply(&section.name(OPEN.name), &OPEN, &mut access);
            settings.open = access.open;
        }
        for key in S::OWN {
            self.apply(&section.name(key.name), key, &mut settings.own);
        }
        settings
    }

    /// The settings of a table whose names are whole.
    pub fn read_table<S: Default + 'static>(&self, table: &[SettingKey<S>]) -> S {
        let mut settings = S::default();
        for key in table {
            self.apply(key.name, key, &mut settings);
        }
        settings
    }
}

/// The settings of the gateway of this name, for the table of a program. Made once, when the program starts.
pub fn table<S: SettingTables>(gateway: &str, host: Host) -> Vec<SettingKey<PartValues>> {
    let (section, front) = (S::section(gateway, host), S::front_section(gateway, host));
    let mut keys = Vec::new();
    if !section.is_always_on {
        keys.push(in_section(&section, enabled(S::ABOUT), bool::default));
    }
    for key in FRONT.iter().copied() {
        if key.name != LISTEN {
            if section == front {
                keys.push(in_section(&section, key, S::front));
            }
            continue;
        }
        let flag = key.flag.map(|flag| Flag {
            help: S::LISTEN,
            ..flag
        });
        let listen = in_section(&section, SettingKey { flag, ..key }, S::front);
        keys.push(if section.is_always_on {
            listen
        } else {
            listen.enabling(leak(section.name("enabled")))
        });
    }
    if S::ATTACHES_AGENTS {
        keys.push(in_section(&section, OPEN, OpenAgents::default));
    }
    keys.extend(S::OWN.iter().map(|key| in_section(&section, *key, S::default)));
    keys
}

/// The settings of a table whose names are whole, for the table of a program. Made once, when the program starts.
pub fn whole_table<S: Default + fmt::Debug + 'static>(
    table: &'static [SettingKey<S>],
) -> Vec<SettingKey<PartValues>> {
    let whole = Section::new("", "", "");
    let keys = table.iter();
    keys.map(|key| in_section(&whole, *key, S::default)).collect()
}

fn in_section<S: fmt::Debug + 'static>(
    section: &Section,
    key: SettingKey<S>,
    defaults: fn() -> S,
) -> SettingKey<PartValues> {
    let name = leak(section.name(key.name));
    let flag = key.flag.map(|flag| Flag {
        name: leak(match flag.name {
            "" => section.flags.trim_end_matches('-').to_owned(),
            name => format!("{}{name}", section.flags),
        }),
        ..flag
    });
    let variable = key
        .variable
        .map(|variable| format!("{}{variable}", section.variables));
    let part = PartSetting { key, name, defaults };
    let part: &'static PartSetting<S> = Box::leak(Box::new(part));
    SettingKey {
        name,
        flag,
        variable: variable.map(leak),
        ..with_part(key, part)
    }
}

/// Names of settings live as long as the program.
fn leak(name: String) -> &'static str {
    Box::leak(name.into_boxed_str())
}

/// Checks what goes together of the gateway of this name, if it is to run.
///
/// # Errors
/// The first rule that is broken.
pub fn check<S: SettingTables>(
    gateway: &str,
    host: Host,
    values: &PartValues,
    sources: &ValueSources,
) -> Result<(), ConfigError> {
    let settings = values.read::<S>(gateway, host);
    if !settings.enabled {
        return Ok(());
    }
    let (section, of_front) = (S::section(gateway, host), S::front_section(gateway, host));
    let (front, own) = (&settings.front, &settings.own);
    front.check(&format!("--{}", of_front.flags), |name, allowed| {
        let section = if name == LISTEN { &section } else { &of_front };
        let key = FRONT.iter().find(|key| key.name == name);
        let value = key.map(|key| key.plain(front));
        bad_value(&section.name(name), value, sources, allowed)
    })?;
    own.check(front, &of_front).map_err(|(name, allowed)| {
        let key = S::OWN.iter().find(|key| key.name == name);
        let value = key.map(|key| key.plain(own));
        bad_value(&section.name(name), value, sources, allowed)
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, time::Duration};

    use agentanycast_daemon_kit::settings::{Bounds, LoadOutcome, Program};

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Config(PartValues);

    impl HasPartValues for Config {
        fn part_values(&self) -> &PartValues {
            &self.0
        }

        fn part_values_mut(&mut self) -> &mut PartValues {
            &mut self.0
        }
    }

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Own {
        greeting: String,
        most: u64,
        wait: Duration,
    }

    impl SettingTables for Own {
        const OWN: &'static [SettingKey<Self>] = &[
            key!(Own, "greeting", greeting)
                .variable("GREETING")
                .flag("greeting", "TEXT", "What is said"),
            key!(Own, "most", most)
                .variable("MOST")
                .flag("most", "N", "How many")
                .bounds(Bounds::Numbers(1, 256)),
            key!(Own, "wait", wait)
                .variable("WAIT")
                .flag("wait", "TIME", "How long")
                .bounds(Bounds::Times(Duration::from_secs(1), Duration::from_hours(1))),
        ];
    }

    /// The settings of a gateway in a program.
    fn keys<S: SettingTables>(gateway: &str) -> &'static [SettingKey<Config>] {
        let keys = table::<S>(gateway, Host::Daemon).into_iter().map(in_program);
        keys.collect::<Vec<_>>().leak()
    }

    fn load(
        args: &[&str],
        file: &str,
        variable: Option<(&str, &str)>,
    ) -> Result<GatewaySettings<Own>, ConfigError> {
        let program = Program::<Config> {
            name: "test",
            version: "0",
            about: "A test",
            prefix: "TEST_",
            foreign: &[],
            file: Some("~/config.toml"),
            keys: keys::<Own>("echo"),
            defaults: |_| Config::default(),
            settle: |_, _| {},
            check: |config, sources| check::<Own>("echo", Host::Daemon, &config.0, sources),
        };
        let args = std::iter::once("test")
            .chain(args.iter().copied())
            .map(OsString::from);
        let env = |name: &str| {
            variable
                .filter(|(known, _)| *known == name)
                .map(|(_, value)| value.to_owned())
        };
        let home = Some(Path::new("/home/u"));
        match settings::load(&program, args, env, |_| Ok(file.to_owned()), home)? {
            LoadOutcome::Run { config, .. } => Ok(config.0.read("echo", Host::Daemon)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_gateway_is_told_by_flags_variables_and_its_section() {
        let nothing = load(&[], "", None).unwrap();
        assert_eq!(nothing, GatewaySettings::default());
        let flags = load(&["--echo-listen=127.0.0.1:0", "--echo-greeting=hi"], "", None).unwrap();
        assert!(flags.enabled, "to listen somewhere turns it on");
        assert_eq!(
            (flags.front.listen.0.as_str(), flags.own.greeting.as_str()),
            ("127.0.0.1:0", "hi")
        );
        let file = "[gateways.echo]\nenabled = true\nlisten = 'localhost:1'\ntokens_file = '~/t'\nlimits.at_once = 3\n";
        let read = load(&[], file, Some(("TEST_GATEWAYS_ECHO_GREETING", "ho"))).unwrap();
        assert_eq!(
            read.front.auth.tokens_file.as_deref(),
            Some(Path::new("/home/u/t"))
        );
        assert_eq!((read.front.limits.at_once, read.own.greeting.as_str()), (3, "ho"));
    }

    #[test]
    fn a_value_out_of_its_bounds_is_refused_though_the_gateway_is_off() {
        for (most, wait) in [(1, "1s"), (256, "1h")] {
            let read = load(
                &[],
                &format!("[gateways.echo]\nmost = {most}\nwait = '{wait}'\n"),
                None,
            );
            assert_eq!(read.unwrap().own.most, most);
        }
        for (line, told) in [
            ("most = 0", "from 1 to 256"),
            ("most = 257", "from 1 to 256"),
            ("wait = '999ms'", "from 1s to 1h"),
            ("wait = '2h'", "from 1s to 1h"),
        ] {
            let error = load(&[], &format!("[gateways.echo]\n{line}\n"), None).unwrap_err();
            assert!(error.to_string().contains(told), "{error}");
        }
        let error = load(&["--echo-most=300"], "", None).unwrap_err();
        assert!(error.to_string().contains("from 1 to 256"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_told_by_the_settings_name() {
        for (args, file, told) in [
            (&["--echo-listen=0.0.0.0:1"][..], "", "--echo-allow-remote"),
            (&["--echo-listen=0.0.0.0:1"], "", "gateways.echo.listen"),
            (&["--echo-max-body=x"], "", "gateways.echo.max_body"),
            (&[], "gateways.echo.lisen = 'x'", "gateways.echo.listen"),
            (&[], "gateways.echo.enabled = true", "gateways.echo.listen"),
            (
                &["--echo-listen=127.0.0.1:0", "--echo-at-once=0"],
                "",
                "gateways.echo.limits.at_once",
            ),
        ] {
            let error = load(args, file, None).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Attaching;

    impl SettingTables for Attaching {
        const ATTACHES_AGENTS: bool = true;
    }

    #[test]
    fn a_gateway_that_attaches_agents_says_who_may_use_them() {
        let open = |keys: &'static [SettingKey<Config>]| settings::find(keys, "gateways.echo.open");
        assert!(open(keys::<Attaching>("echo")).is_some() && open(keys::<Own>("echo")).is_none());
        let open = |raw: Option<Raw>| {
            let mut config = Config::default();
            let key = settings::find(keys::<Attaching>("echo"), "gateways.echo.open").unwrap();
            if let Some(raw) = raw {
                key.set_value(&mut config, &raw, None).unwrap();
            }
            let read = config.0.read::<Attaching>("echo", Host::Daemon).open;
            // What is shown is read as the same again.
            (read, key.shown(&config))
        };
        assert_eq!(open(None), (None, "\"\"".to_owned()));
        for (raw, expected) in [
            (Raw::Truth(true), Some(true)),
            (Raw::Truth(false), Some(false)),
            (Raw::Word("true".to_owned()), Some(true)),
            (Raw::Text(String::new()), None),
        ] {
            assert_eq!(open(Some(raw)).0, expected);
        }
    }
}
