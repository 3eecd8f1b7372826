//! Which variables of a runner's own environment its programs get. PURE.
//!
//! Invariant: a program that the daemon runs gets no variable that is not named, by the list here or by the operator.

/// Variables that say where things are and how they look, and are no secrets.
const LISTED: [&str; 19] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TZDIR",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_RUNTIME_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Begins the names of the variables of a locale.
const LOCALE: &str = "LC_";

/// Begin the names of variables that are for a runner itself: settings, and what a service manager gives it.
const OWN: [&str; 4] = ["AGENTANYCAST_", "NOTIFY_", "WATCHDOG_", "LISTEN_"];

/// Which variables of the runner's own environment a program gets, besides those that are set for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassedEnv {
    /// Those of the list of `docs/run.md`, and these.
    Listed(Vec<String>),
    /// All but those that are for the runner itself.
    All,
}

impl Default for PassedEnv {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl PassedEnv {
    /// Whether a variable of this name is passed.
    pub fn passes(&self, name: &str) -> bool {
        match self {
            Self::Listed(named) => {
                LISTED.contains(&name) || name.starts_with(LOCALE) || named.iter().any(|known| known == name)
            }
            Self::All => !OWN.iter().any(|own| name.starts_with(own)),
        }
    }

    /// The names that are not passed and were before there was a list, sorted: not those that are for the runner itself.
    pub fn withheld(&self, names: impl Iterator<Item = String>) -> Vec<String> {
        let withheld = names.filter(|name| Self::All.passes(name) && !self.passes(name));
        let mut withheld: Vec<String> = withheld.collect();
        withheld.sort_unstable();
        withheld
    }

    /// The names besides those of the list.
    pub fn named(&self) -> &[String] {
        match self {
            Self::Listed(named) => named,
            Self::All => &[],
        }
    }
}

/// Whether a variable can have this name.
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_passed_where_it_is_named() {
        let listed = PassedEnv::default();
        for name in ["PATH", "HOME", "LC_ALL", "TMPDIR", "TZ"] {
            assert!(listed.passes(name), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "OPENAI_API_KEY",
            "path",
            "LC",
            "HOME2",
            "",
        ] {
            assert!(!listed.passes(name) && PassedEnv::All.passes(name), "{name}");
        }
        let named = PassedEnv::Listed(vec!["OPENAI_API_KEY".to_owned()]);
        assert!(named.passes("OPENAI_API_KEY") && !named.passes("OPENAI_API_KEY2"));
    }

    #[test]
    fn what_is_for_the_runner_is_for_it_alone() {
        for name in [
            "AGENTANYCAST_HOME",
            "NOTIFY_SOCKET",
            "WATCHDOG_USEC",
            "LISTEN_FDS",
        ] {
            assert!(
                !PassedEnv::All.passes(name) && !PassedEnv::default().passes(name),
                "{name}"
            );
        }
        let names = ["PATH", "LISTEN_PID", "Z_KEY", "A_KEY"].map(str::to_owned);
        let withheld = PassedEnv::default().withheld(names.clone().into_iter());
        assert_eq!(withheld, ["A_KEY", "Z_KEY"]);
        assert!(PassedEnv::All.withheld(names.into_iter()).is_empty());
    }
}
