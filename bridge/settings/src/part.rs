//! The settings of gateways that a program is made with when it starts: a table each, from which flags, variables, the section
//! of the file, the man page and the completions are made.
//!
//! A gateway `NAME` has the section `[gateways.NAME]`, the flags `--NAME-…` and the variables `…GATEWAYS_NAME_…`. What is set
//! is kept as it was written, and read when the gateway starts. PURE.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use agentanycast_daemon_kit::{
    key,
    missing_feature::MissingFeature,
    settings::{ConfigError, InvalidValue, PartKey, Raw, SettingKey, ValueSource, ValueSources},
};

use crate::front::{FrontSettings, bad_value, bounds};

/// The gateways with a section of their own that packages have, and what a program says that one is left out of.
pub const PACKAGED: [(&str, MissingFeature); 3] = [
    (
        "aip",
        MissingFeature {
            part: "gateway for AIP",
            feature: "aip",
        },
    ),
    (
        "uamp",
        MissingFeature {
            part: "gateway for UAMP",
            feature: "uamp",
        },
    ),
    (
        "uap-hub",
        MissingFeature {
            part: "hub of execution agents",
            feature: "uap-hub",
        },
    ),
];

/// What a program says that has none of them.
const ALL_LEFT_OUT: MissingFeature = MissingFeature {
    part: "gateways",
    feature: "full",
};

/// The same error, or that the gateway is left out of the program whose setting or flag is not known. `keys` are the program's.
pub fn tell_left_out<C>(error: ConfigError, keys: &[SettingKey<C>]) -> ConfigError {
    let is_missing = |name: &str| {
        let enabled = format!("gateways.{name}.enabled");
        keys.iter().all(|key| key.name != enabled)
    };
    let left_out = |part: MissingFeature, key: &str, origin: &ValueSource| ConfigError::LeftOut {
        key: key.to_owned(),
        value: "a value".to_owned(),
        origin: origin.clone(),
        part,
    };
    match &error {
        ConfigError::UnknownKey { key, origin, .. } => {
            let is_of = |(name, _): &&(&str, MissingFeature)| {
                let rest = key
                    .strip_prefix("gateways.")
                    .and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            match PACKAGED.iter().find(is_of).filter(|(name, _)| is_missing(name)) {
                Some((_, part)) => left_out(*part, key, origin),
                None if key == "gateways" => left_out(ALL_LEFT_OUT, key, origin),
                None => error,
            }
        }
        ConfigError::UnknownFlag { given, .. } => {
            let is_of = |(name, _): &&(&str, MissingFeature)| {
                let rest = given.trim_start_matches('-').strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with('-'))
            };
            match PACKAGED.iter().find(is_of).filter(|(name, _)| is_missing(name)) {
                Some((_, part)) => left_out(*part, given, &ValueSource::Flag(given.clone())),
                None => error,
            }
        }
        _ => error,
    }
}

/// What is set of the gateways of a program, by the names of the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartValues {
    values: BTreeMap<&'static str, Raw>,
    home: Option<PathBuf>,
}

impl PartValues {
    /// Whether something is set of the gateway of this name, and not whether it runs.
    pub fn leaves_open(&self, gateway: &str) -> bool {
        let own = |key: &&'static str| {
            let rest = key.strip_prefix("gateways.")?.strip_prefix(gateway)?;
            rest.strip_prefix('.')
        };
        let mut names = self.values.keys().filter_map(own).peekable();
        names.peek().is_some() && !names.any(|name| name == "enabled")
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
    /// `GATEWAYS_NAME_`.
    const OWN: &'static [SettingKey<Self>] = &[];

    /// Whether the gateway attaches agents to the node, whose access is a setting then.
    const ATTACHES_AGENTS: bool = false;
}

/// A gateway without settings of its own.
impl SettingTables for () {}

/// The settings of every front. Their names are those in a gateway's section.
#[rustfmt::skip] // A table.
static FRONT: &[SettingKey<FrontSettings>] = &[
    key!(FrontSettings, "listen", listen).variable("LISTEN").flag("listen", "ADDR", "Where its clients connect, HOST:PORT"),
    key!(FrontSettings, "allow_remote", allow_remote).variable("ALLOW_REMOTE").flag("allow-remote", "", "Listen for them beyond loopback without TLS, or with callers that need not say who they are"),
    key!(FrontSettings, "tls_cert", tls_cert).variable("TLS_CERT").flag("tls-cert", "FILE", "The certificate of TLS, PEM; read again when it changes"),
    key!(FrontSettings, "tls_key", tls_key).variable("TLS_KEY").flag("tls-key", "FILE", "Its key, PEM"),
    key!(FrontSettings, "public_url", public_url).variable("PUBLIC_URL").flag("public-url", "URL", "How its clients reach it"),
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

#[rustfmt::skip] // A table.
static OPEN: &[SettingKey<OpenAgents>] = &[
    key!(OpenAgents, "open", open).variable("OPEN").flag("open", "", "Let every peer use the agents that it attaches"),
];

/// The setting of gateways that attach agents.
#[derive(Clone, Debug, Default)]
struct OpenAgents {
    open: Option<bool>,
}

static ENABLED: &[SettingKey<bool>] = &[SettingKey::<bool> {
    name: "enabled",
    in_file: true,
    secret: false,
    only_with: None,
    flag: None,
    variable: None,
    set: |on, raw, home| {
        *on = agentanycast_daemon_kit::settings::Setting::read(raw, home)?;
        Ok(())
    },
    show: |on| agentanycast_daemon_kit::settings::Setting::show(on),
    about: Some("The gateway"),
    bounds: None,
    schema: || agentanycast_daemon_kit::settings::of_field(|on: &bool| on),
    part: None,
}];

/// A setting of a gateway, in the configuration of a program.
#[derive(Debug)]
struct GatewayKey<S: 'static> {
    key: &'static SettingKey<S>,
    /// Its name in the whole configuration.
    name: &'static str,
}

impl<C: HasPartValues + 'static, S: Default + fmt::Debug + 'static> PartKey<C> for GatewayKey<S> {
    fn set(&self, config: &mut C, raw: &Raw, home: Option<&Path>) -> Result<(), InvalidValue> {
        self.key.set_value(&mut S::default(), raw, home)?;
        let part = config.part_values_mut();
        part.values.insert(self.name, raw.clone());
        part.home = home.map(Path::to_owned);
        Ok(())
    }

    fn show(&self, config: &C) -> String {
        let mut settings = S::default();
        config.part_values().apply(self.name, self.key, &mut settings);
        self.key.shown(&settings)
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
    pub fn read<S: SettingTables>(&self, gateway: &str) -> GatewaySettings<S> {
        let mut settings = GatewaySettings::<S>::default();
        let name = |key: &str| format!("gateways.{gateway}.{key}");
        for key in ENABLED {
            self.apply(&name(key.name), key, &mut settings.enabled);
        }
        for key in FRONT {
            self.apply(&name(key.name), key, &mut settings.front);
        }
        if S::ATTACHES_AGENTS {
            let mut access = OpenAgents::default();
            for key in OPEN {
                self.apply(&name(key.name), key, &mut access);
            }
            settings.open = access.open;
        }
        for key in S::OWN {
            self.apply(&name(key.name), key, &mut settings.own);
        }
        settings
    }
}

/// The settings of the gateway of this name, for the table of a program. Made once, when the program starts.
pub fn table<C: HasPartValues + 'static, S: SettingTables>(gateway: &'static str) -> Vec<SettingKey<C>> {
    let enabled: &'static str = leak(format!("gateways.{gateway}.enabled"));
    let mut keys: Vec<SettingKey<C>> = ENABLED.iter().map(|key| in_program(gateway, key)).collect();
    keys.extend(FRONT.iter().map(|key| {
        let key: SettingKey<C> = in_program(gateway, key);
        if key.name.ends_with(".listen") {
            key.enabling(enabled)
        } else {
            key
        }
    }));
    if S::ATTACHES_AGENTS {
        keys.extend(OPEN.iter().map(|key| in_program(gateway, key)));
    }
    keys.extend(S::OWN.iter().map(|key| in_program(gateway, key)));
    keys
}

fn in_program<C: HasPartValues + 'static, S: Default + fmt::Debug + 'static>(
    gateway: &'static str,
    key: &'static SettingKey<S>,
) -> SettingKey<C> {
    let name = leak(format!("gateways.{gateway}.{}", key.name));
    let of_gateway =
        |flag: agentanycast_daemon_kit::settings::Flag| agentanycast_daemon_kit::settings::Flag {
            name: leak(format!("{gateway}-{}", flag.name)),
            ..flag
        };
    let upper = gateway.to_ascii_uppercase().replace('-', "_");
    SettingKey {
        name,
        in_file: key.in_file,
        secret: key.secret,
        only_with: None,
        flag: key.flag.map(of_gateway),
        variable: key
            .variable
            .map(|variable| leak(format!("GATEWAYS_{upper}_{variable}"))),
        set: |_, _, _| Ok(()),
        show: |_| String::new(),
        about: key.about,
        bounds: key.bounds,
        schema: key.schema,
        part: Some(Box::leak(Box::new(GatewayKey { key, name }))),
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
pub fn check<C: HasPartValues + 'static>(
    gateway: &str,
    config: &C,
    sources: &ValueSources,
) -> Result<(), ConfigError> {
    let settings = config.part_values().read::<()>(gateway);
    if !settings.enabled {
        return Ok(());
    }
    let prefix = format!("gateways.{gateway}.");
    let dashes = format!("--{gateway}-");
    settings.front.check_with(&dashes, |name, allowed| {
        let key = FRONT.iter().find(|key| key.name == name);
        let value = key.map(|key| key.plain(&settings.front));
        bad_value(&format!("{prefix}{name}"), value, sources, allowed)
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, time::Duration};

    use agentanycast_daemon_kit::settings::{self, Bounds, LoadOutcome, Program};

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
            keys: Box::leak(table::<Config, Own>("echo").into_boxed_slice()),
            defaults: |_| Config::default(),
            settle: |_, _| {},
            check: |config, sources| check("echo", config, sources),
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
            LoadOutcome::Run { config, .. } => Ok(config.0.read("echo")),
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
    fn a_gateway_that_is_left_out_is_told() {
        let told = |error: ConfigError, gateway: &'static str| {
            let keys = table::<Config, ()>(gateway);
            tell_left_out(error, &keys).to_string()
        };
        let key = |key: &str| ConfigError::UnknownKey {
            key: key.to_owned(),
            origin: ValueSource::Default,
            suggestion: None,
            allowed: None,
        };
        let flag = |given: &str| ConfigError::UnknownFlag {
            given: given.to_owned(),
            suggestion: None,
        };
        let hub = "built without the hub of execution agents: build this program with `--features uap-hub`";
        assert!(told(key("gateways.uap-hub.enabled"), "other").starts_with(hub));
        assert!(told(key("gateways.uap-hub"), "other").starts_with(hub));
        assert!(told(flag("--uap-hub-listen"), "other").starts_with(hub));
        assert!(told(key("gateways"), "other").starts_with("built without the gateways"));
        // One that is there, or that does not exist, has mistakes of other kinds.
        for error in [key("gateways.uap-hub.lisen"), flag("--uap-hub-lisen")] {
            assert!(told(error, "uap-hub").starts_with("unknown"));
        }
        for error in [key("gateways.uap"), key("x"), flag("--uap")] {
            assert!(told(error, "other").starts_with("unknown"));
        }
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
        let keys = |keys: Vec<SettingKey<Config>>| keys.iter().any(|key| key.name == "gateways.echo.open");
        assert!(keys(table::<Config, Attaching>("echo")) && !keys(table::<Config, Own>("echo")));
        let open = |raw: Option<Raw>| {
            let mut config = Config::default();
            let keys: &'static [SettingKey<Config>] =
                Box::leak(table::<Config, Attaching>("echo").into_boxed_slice());
            let key = settings::find(keys, "gateways.echo.open").unwrap();
            if let Some(raw) = raw {
                key.set_value(&mut config, &raw, None).unwrap();
            }
            let read = config.0.read::<Attaching>("echo").open;
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
