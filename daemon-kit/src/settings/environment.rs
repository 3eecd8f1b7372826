//! The layer of the environment: settings by their variables. Whoever sets another one that names a setting would rely on it
//! in vain, and is refused; of what else begins alike it can only be told that nothing is done with it.

use std::{collections::BTreeSet, ffi::OsString};

use super::{
    ConfigError, FILE, Program, SettingKey, SettingsEntry, ValueSource,
    error::{misspelt, nearest},
    flags::named,
    value::Raw,
};

/// A variable that begins like the program's, and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// What is called like it: a variable, a flag, or a setting in the file.
    pub near: Option<String>,
}

/// The settings that variables set.
pub(super) fn layer<C: 'static>(
    program: &Program<C>,
    env: impl Fn(&str) -> Option<String>,
) -> Vec<SettingsEntry<C>> {
    let entry = |key: &'static SettingKey<C>| {
        let name = format!("{}{}", program.prefix, key.variable?);
        let value = env(&name).filter(|value| !value.is_empty())?;
        Some(SettingsEntry {
            key,
            raw: Raw::Word(value),
            origin: ValueSource::Environment(name),
        })
    };
    program.keys.iter().filter_map(entry).collect()
}

/// Refuses a variable that is called like a setting, or almost so. Others that begin alike may be another program's.
pub(super) fn check<C: 'static>(
    program: &Program<C>,
    names: impl Iterator<Item = OsString>,
) -> Result<(), ConfigError> {
    for given in strangers(program, names) {
        if program.foreign.contains(&given.as_str()) {
            continue;
        }
        let called = called(program);
        let Some(meant) = misspelt(&given, called.iter().map(|(name, _)| name.as_str())) else {
            continue;
        };
        let key = called
            .iter()
            .find(|(name, _)| name == meant)
            .and_then(|(_, key)| *key);
        let name = format!("{}{}", program.prefix, given.escape_debug());
        return Err(match key {
            Some(key) if key.variable.is_none() => ConfigError::NoVariable {
                name,
                key: key.name,
                flag: key.flag.map(|flag| format!("--{}", flag.name)),
            },
            _ => {
                let variable = key.and_then(|key| key.variable).unwrap_or(FILE);
                ConfigError::UnknownVariable {
                    name,
                    meant: format!("{}{variable}", program.prefix),
                }
            }
        });
    }
    Ok(())
}

/// The variables among `names` that begin like the program's, are none, and are no other program's that is known; in the
/// order of their names.
pub fn unknown_variables<C: 'static>(
    program: &Program<C>,
    names: impl Iterator<Item = OsString>,
) -> Vec<UnknownVariable> {
    let is_foreign = |given: &str| {
        let is = |name: &&str| given == *name || name.ends_with('_') && given.starts_with(name);
        program.foreign.iter().any(is)
    };
    let told = |given: String| UnknownVariable {
        name: format!("{}{}", program.prefix, given.escape_debug()),
        near: near(program, &given),
    };
    let strangers = strangers(program, names).into_iter();
    strangers.filter(|given| !is_foreign(given)).map(told).collect()
}

/// What is behind the prefix in names that begin with it and are no settings.
fn strangers<C: 'static>(program: &Program<C>, names: impl Iterator<Item = OsString>) -> BTreeSet<String> {
    let behind = |name: OsString| Some(name.to_str()?.strip_prefix(program.prefix)?.to_owned());
    let given: BTreeSet<String> = names.filter_map(behind).collect();
    let known = |given: &str| given == FILE || program.keys.iter().any(|key| key.variable == Some(given));
    let is_strange = |name: &&String| !known(name) && !is_of_a_service(name, &given);
    given.iter().filter(is_strange).cloned().collect()
}

/// Whether Kubernetes says it, of a service that is called like the program: it tells every container of each.
fn is_of_a_service(name: &str, given: &BTreeSet<String>) -> bool {
    const HOST: &str = "SERVICE_HOST";
    let of = |host: &String| {
        let rest = host
            .strip_suffix(HOST)
            .and_then(|service| name.strip_prefix(service));
        rest.is_some_and(|rest| rest.starts_with("SERVICE_") || rest == "PORT" || rest.starts_with("PORT_"))
    };
    given.iter().any(of)
}

/// What there is in files and the environment, as a variable would be called: by its variable and by its name.
fn called<C: 'static>(program: &Program<C>) -> Vec<(String, Option<&'static SettingKey<C>>)> {
    let of_key = |key: &'static SettingKey<C>| {
        let variable = key.variable.map(ToOwned::to_owned);
        let name = key
            .in_file
            .then(|| key.name.replace('.', "_").to_ascii_uppercase());
        variable
            .into_iter()
            .chain(name)
            .map(move |name| (name, Some(key)))
    };
    let file = (FILE.to_owned(), None);
    program.keys.iter().flat_map(of_key).chain([file]).collect()
}

/// What was perhaps meant by a variable.
fn near<C: 'static>(program: &Program<C>, given: &str) -> Option<String> {
    let called = called(program);
    let alike = || {
        let name = nearest(given, called.iter().map(|(name, _)| name.as_str()))?;
        called.iter().find(|(called, _)| called == name)?.1
    };
    let key = named(program.keys, given).or_else(alike)?;
    Some(match (key.variable, &key.flag) {
        (Some(variable), _) => format!("{}{variable}", program.prefix),
        (None, Some(flag)) => format!("--{}", flag.name),
        (None, None) => format!("{} in the configuration file", key.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key, settings::ValueSources};

    #[derive(Default)]
    struct Config {
        level: String,
        trust: String,
        name: String,
    }

    static PROGRAM: Program<Config> = Program {
        name: "x",
        version: "1",
        about: "",
        prefix: "X_",
        foreign: &["HOME", "Y_"],
        file: None,
        keys: &[
            key!(Config, "log_level", level).variable("LEVEL"),
            key!(Config, "policy.trust", trust),
            key!(Config, "name", name).only_flag().flag("name", "NAME", ""),
        ],
        defaults: |_| Config::default(),
        settle: |_, _: &mut ValueSources| {},
        check: |_, _| Ok(()),
    };

    fn refused(name: &str) -> Option<String> {
        let checked = check(&PROGRAM, [name.into()].into_iter());
        checked.err().map(|error| error.to_string())
    }

    fn unknown(names: &[&str]) -> Vec<(String, Option<String>)> {
        let unknown = unknown_variables(&PROGRAM, names.iter().map(OsString::from));
        unknown.into_iter().map(|one| (one.name, one.near)).collect()
    }

    #[test]
    fn a_variable_that_names_a_setting_is_refused_with_where_it_is_set() {
        for (name, said) in [
            ("X_LEVLE", "did you mean X_LEVEL?"),
            ("X_LOG_LEVEL", "did you mean X_LEVEL?"),
            ("X_CONFG", "did you mean X_CONFIG?"),
            (
                "X_POLICY_TRUST",
                "policy.trust has no variable; set it in the file of --config",
            ),
            (
                "X_POLICY_TRSUT",
                "policy.trust has no variable; set it in the file of --config",
            ),
        ] {
            let error = refused(name).unwrap_or_default();
            assert!(error.contains(name) && error.contains(said), "{name}: {error}");
        }
        for name in [
            "X_LEVEL",
            "X_CONFIG",
            "X_TRUST",
            "X_HOME",
            "X_Y_LOG_LEVELS",
            "Y_POLICY_TRUST",
            "X_",
        ] {
            assert_eq!(refused(name), None, "{name}");
        }
    }

    #[test]
    fn of_others_it_is_told_what_is_near() {
        let near = |name: &str| Some(name.to_owned());
        let told = [
            ("X_LOG_LEVELS_OF", near("X_LEVEL")),
            ("X_NAME", near("--name")),
            ("X_QQQ", None),
            ("X_TRUST", near("policy.trust in the configuration file")),
        ];
        let names = told.each_ref().map(|(name, _)| *name);
        let told = told.map(|(name, near)| (name.to_owned(), near));
        assert_eq!(unknown(&names), told);
        let of_others = ["X_LEVEL", "X_CONFIG", "X_HOME", "X_Y_1", "QQQ", "PATH"];
        assert_eq!(unknown(&of_others), []);
        assert_eq!(unknown(&["X_HOME_2", "X_a\nb"]).len(), 2);
        assert!(!unknown(&["X_a\nb"])[0].0.contains('\n'));
    }

    #[test]
    fn what_kubernetes_tells_of_services_is_nobodys_mistake() {
        let service = [
            "X_SERVICE_HOST",
            "X_SERVICE_PORT",
            "X_SERVICE_PORT_GRPC",
            "X_PORT",
            "X_PORT_80_TCP_ADDR",
            "X_LEVE_SERVICE_HOST",
            "X_LEVE_PORT",
        ];
        assert_eq!(unknown(&service), []);
        assert_eq!(unknown(&["X_PORT", "X_LEVE_SERVICE_PORT"]).len(), 2);
        assert_eq!(unknown(&["X_SERVICE_HOST", "X_PORTAL"]).len(), 1);
    }
}
