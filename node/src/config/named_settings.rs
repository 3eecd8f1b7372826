//! Settings by their names in the file, for programs that edit it: the TOML of a value that was given as a word, the
//! value that a configuration has, and whether a daemon that runs takes a change over.

use agentanycast_daemon_kit::settings::{InvalidValue, Raw, nearest, quoted};

use super::{Config, settings_table};

/// What is shown for a secret.
const SECRET_MASK: &str = "***";

/// Why a setting cannot be edited by its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingNameError {
    /// No setting of the file has that name.
    #[error("no setting is called {}{}; `agentanycastd --print-config` shows all", quoted(.name), did_you_mean(*.near))]
    Unknown {
        /// The name as given.
        name: String,
        /// The name that was perhaps meant.
        near: Option<&'static str>,
    },
    /// Only a flag of the daemon sets it.
    #[error("{name} has no place in the file; only a flag of the daemon sets it")]
    OnlyFlag {
        /// The setting.
        name: &'static str,
    },
    /// The value is not allowed.
    #[error("{name}: {} is not allowed; it must be {allowed}", quoted(.value))]
    BadValue {
        /// The setting.
        name: &'static str,
        /// The value as given, or stars.
        value: String,
        /// What is allowed.
        allowed: String,
    },
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

fn key(name: &str) -> Result<&'static settings_table::NodeSetting, SettingNameError> {
    match settings_table::find(name) {
        Some(key) if key.in_file => Ok(key),
        Some(key) => Err(SettingNameError::OnlyFlag { name: key.name }),
        None => Err(SettingNameError::Unknown {
            name: name.to_owned(),
            near: table_of(name).or_else(|| nearest(name, names())),
        }),
    }
}

/// The setting whose value is a table with this name in it.
fn table_of(name: &str) -> Option<&'static str> {
    names().find(|table| name.strip_prefix(table).is_some_and(|rest| rest.starts_with('.')))
}

/// The names of all settings that the file can have.
pub fn names() -> impl Iterator<Item = &'static str> {
    settings_table::all()
        .iter()
        .filter(|key| key.in_file)
        .map(|key| key.name)
}

/// The TOML value of a setting that was given as on the command line of the daemon: a word, or a comma list.
///
/// # Errors
/// See [`SettingNameError`].
pub fn toml_of_word(name: &str, word: &str) -> Result<String, SettingNameError> {
    let key = key(name)?;
    // The file has `~` as it was written: another home reads it too.
    let mut config = Config::defaults(None);
    match key.set_value(&mut config, &Raw::Word(word.to_owned()), None) {
        Ok(()) => Ok(key.shown(&config)),
        Err(InvalidValue { value, allowed, .. }) => Err(SettingNameError::BadValue {
            name: key.name,
            value: if key.secret { SECRET_MASK.to_owned() } else { value },
            allowed,
        }),
    }
}

/// The value that a configuration has for a setting, as people write it; stars for a secret that is set.
///
/// # Errors
/// [`SettingNameError::Unknown`]
pub fn display_value(name: &str, config: &Config) -> Result<String, SettingNameError> {
    // Also one that only a flag sets.
    let key = settings_table::find(name).map_or_else(|| key(name), Ok)?;
    let value = key.plain(config);
    Ok(if key.secret && !value.is_empty() {
        SECRET_MASK.to_owned()
    } else {
        value
    })
}

/// Whether a daemon that runs takes over a change of this setting, at the latest when it gets SIGHUP.
pub fn is_reloaded(name: &str) -> bool {
    name.starts_with("policy.") && !name.starts_with("policy.audit_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_the_toml_that_the_file_reads() {
        for (name, word, toml) in [
            ("log_level", "Debug", "\"debug\""),
            ("offline_queue_ttl", "90m", "\"90m\""),
            ("enable_mdns", "off", "false"),
            ("max_open_tasks", "7", "7"),
            (
                "bootstrap_peers",
                "/ip4/192.0.2.1/tcp/1,/dns4/a/tcp/2",
                "[\"/ip4/192.0.2.1/tcp/1\", \"/dns4/a/tcp/2\"]",
            ),
            ("log_file", "~/log", "\"~/log\""),
        ] {
            assert_eq!(toml_of_word(name, word).as_deref(), Ok(toml), "{name}");
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let error = |name, word| toml_of_word(name, word).unwrap_err().to_string();
        assert!(error("log_levle", "info").contains("did you mean log_level?"));
        assert!(error("transport", "auto").contains("only a flag"));
        assert!(error("log_level", "loud").contains("one of error"));
        let acl = error("policy.acl", "everybody");
        assert!(acl.contains("policy.acl"), "{acl}");
    }

    #[test]
    fn values_are_shown_and_secrets_are_not() {
        let mut config = Config::defaults(None);
        config.nats.auth_pass = "secret".to_owned();
        assert_eq!(display_value("log_level", &config).as_deref(), Ok("info"));
        assert_eq!(display_value("transport", &config).as_deref(), Ok("auto"));
        assert_eq!(
            display_value("transport.nats.auth_pass", &config).as_deref(),
            Ok("***")
        );
        assert!(display_value("nothing", &config).is_err());
    }

    #[test]
    fn every_setting_can_be_shown() {
        let config = Config::defaults(None);
        for name in names() {
            display_value(name, &config).unwrap();
        }
        assert!(is_reloaded("policy.acl") && !is_reloaded("policy.audit_sync") && !is_reloaded("log_level"));
    }
}
