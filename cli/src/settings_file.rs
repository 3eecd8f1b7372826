//! The file with the settings of the home's daemon, edited as people left it: comments, order and spaces stay. A change is
//! checked as the daemon would read it before the file is replaced, in one step.

use std::{
    ffi::OsString,
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use agentanycast_daemon_kit::settings;
use agentanycast_node::config::{self, named_settings};
use agentanycast_node::load_config::{self, LoadedConfig};
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

use crate::{
    failure::{CommandFailure, FailureCode},
    home::Home,
    kept_file,
};

/// The mode of a file that is made: settings may name what others need not know.
const MODE: u32 = 0o600;

/// The file, whether it is there or not.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    path: PathBuf,
    /// What counts as long as the file is not there, and is what a new file begins with: a home that was given has the
    /// settings of the default home until it has some of its own.
    stand_in: Option<PathBuf>,
}

impl SettingsFile {
    /// That of the home.
    pub(crate) fn from_home(home: &Home) -> Result<Self, CommandFailure> {
        Ok(Self {
            path: home.settings_path()?,
            stand_in: home.default_settings(),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets a setting to what a word, a comma list or a TOML value says; whether that changes the file.
    pub(crate) fn set(&self, name: &str, word: &str) -> Result<bool, CommandFailure> {
        let value = value_of(name, word)?;
        self.edit(|document| put(document, name, value))
    }

    /// Takes a setting out, so that its default counts; whether it was there.
    pub(crate) fn unset(&self, name: &str) -> Result<bool, CommandFailure> {
        named_settings::display_value(name, &config::Config::defaults(None))
            .map_err(|error| refused(&error))?;
        self.edit(|document| {
            let (tables, key) = split(name);
            let Some(table) = tables
                .iter()
                .try_fold(document.as_table_mut() as &mut dyn TableLike, |table, part| {
                    table.get_mut(part).and_then(Item::as_table_like_mut)
                })
            else {
                return Ok(());
            };
            table.remove(key);
            Ok(())
        })
    }

    /// Adds to a list what it lacks; whether that changes the file.
    pub(crate) fn add_to_list(&self, name: &str, words: &[String]) -> Result<bool, CommandFailure> {
        let added = value_of(name, &words.join(","))?;
        let added: Vec<Value> = match added {
            Value::Array(array) => array.into_iter().collect(),
            single => vec![single],
        };
        self.edit(|document| {
            let table = table_of(document, name)?;
            let (_, key) = split(name);
            let list = table
                .entry(key)
                .or_insert_with(|| Item::Value(Array::new().into()));
            let list = list
                .as_array_mut()
                .ok_or_else(|| general(format!("{name} in the file is no list; mend it")))?;
            for value in added {
                let is_there = list.iter().any(|there| there.as_str() == value.as_str());
                if !is_there {
                    list.push(value);
                }
            }
            Ok(())
        })
    }

    /// Reads the file, changes it, checks the result, and puts it in place of the old one, while no other command does.
    fn edit(
        &self,
        change: impl FnOnce(&mut DocumentMut) -> Result<(), CommandFailure>,
    ) -> Result<bool, CommandFailure> {
        let failed = |action: &'static str| {
            let path = self.path.display().to_string();
            move |error: io::Error| general(format!("cannot {action} {path}: {error}"))
        };
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed("make the directory of"))?;
        // Released with this value.
        let lock = File::open(directory).map_err(failed("lock the directory of"))?;
        if let Err(error) = lock.lock()
            && error.kind() != io::ErrorKind::Unsupported
        {
            return Err(failed("lock the directory of")(error));
        }
        // A new file would be without the rules that the link was made for.
        kept_file::behind(&self.path).map_err(failed("change"))?;
        let before = match settings::read_file(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.stand_in()?,
            Err(error) => return Err(failed("read")(error)),
        };
        let mut document: DocumentMut = before
            .parse()
            .map_err(|error: toml_edit::TomlError| self.not_toml(&before, &error))?;
        change(&mut document)?;
        let after = document.to_string();
        if after == before {
            return Ok(false);
        }
        self.check(&after)?;
        kept_file::write(&self.path, &after, MODE).map_err(failed("write"))?;
        Ok(true)
    }

    fn stand_in(&self) -> Result<String, CommandFailure> {
        let Some(path) = self.stand_in.as_deref() else {
            return Ok(String::new());
        };
        match settings::read_file(path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(general(format!("cannot read {}: {error}", path.display()))),
        }
    }

    fn check(&self, text: &str) -> Result<(), CommandFailure> {
        let mut file = OsString::from("--config=");
        file.push(&self.path);
        match load_config::load_with_file_text(&["agentanycastd".into(), file], text) {
            Ok(LoadedConfig::Run { .. }) => Ok(()),
            Ok(_) => Err(general("the settings ask for no daemon".to_owned())),
            Err(error) => Err(CommandFailure::new(
                FailureCode::Usage,
                "Settings",
                format!("nothing was changed: {error}"),
            )),
        }
    }

    fn not_toml(&self, text: &str, error: &toml_edit::TomlError) -> CommandFailure {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        let reason = error.message().replace('\n', " ");
        let message = format!("{}:{line}: not valid TOML: {reason}", self.path.display());
        CommandFailure::new(FailureCode::Usage, "Settings", message)
    }
}

/// What a word means as the value of a setting; for a setting that no word can give, the TOML value that it is.
fn value_of(name: &str, word: &str) -> Result<Value, CommandFailure> {
    match named_settings::toml_of_word(name, word) {
        Ok(toml) => toml
            .parse()
            .map_err(|error| general(format!("{name}: {toml} is not TOML: {error}"))),
        Err(error @ named_settings::SettingNameError::BadValue { .. }) => {
            word.parse().map_err(|_| refused(&error))
        }
        Err(error) => Err(refused(&error)),
    }
}

fn put(document: &mut DocumentMut, name: &str, mut value: Value) -> Result<(), CommandFailure> {
    let (_, key) = split(name);
    let table = table_of(document, name)?;
    if let Some(Item::Value(old)) = table.get_mut(key) {
        // The comment behind it stays; the one before it belongs to the key.
        *value.decor_mut() = old.decor().clone();
        *old = value;
    } else {
        table.insert(key, Item::Value(value));
    }
    Ok(())
}

/// The table that a setting stands in; made if it is missing.
fn table_of<'a>(document: &'a mut DocumentMut, name: &str) -> Result<&'a mut dyn TableLike, CommandFailure> {
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for part in split(name).0 {
        let inner = table.entry(part).or_insert_with(|| {
            // It has a head of its own only where something stands in it.
            let mut new = Table::new();
            new.set_implicit(true);
            Item::Table(new)
        });
        table = inner.as_table_like_mut().ok_or_else(|| {
            general(format!(
                "{part} in the file is no table, which {name} needs; mend it"
            ))
        })?;
    }
    Ok(table)
}

/// The tables that a setting stands in, and its name there.
fn split(name: &str) -> (Vec<&str>, &str) {
    let mut parts: Vec<&str> = name.split('.').collect();
    let key = parts.pop().unwrap_or_default();
    (parts, key)
}

fn refused(error: &named_settings::SettingNameError) -> CommandFailure {
    CommandFailure::usage(error.to_string())
}

fn general(message: String) -> CommandFailure {
    CommandFailure::new(FailureCode::General, "Settings", message)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    const RELAY: &str = "/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";

    fn file(text: &str) -> (tempfile::TempDir, SettingsFile) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.toml");
        if !text.is_empty() {
            fs::write(&path, text).unwrap();
        }
        (home, SettingsFile { path, stand_in: None })
    }

    fn text(file: &SettingsFile) -> String {
        fs::read_to_string(&file.path).unwrap()
    }

    #[test]
    fn what_people_wrote_stays() {
        let before =
            "# Ours.\nlog_level = \"info\" # for now\n\n[anycast] # the registry\ncache_ttl   = \"30s\"\n";
        let (_home, file) = file(before);
        assert!(file.set("log_level", "debug").unwrap());
        assert!(file.set("anycast.cache_ttl", "1m").unwrap());
        assert!(file.set("policy.rate_limit.max_in_flight", "7").unwrap());
        assert!(file.set("enable_mdns", "false").unwrap());
        let after = text(&file);
        for part in [
            "# Ours.\nlog_level = \"debug\" # for now\n",
            "enable_mdns = false\n",
            "[anycast] # the registry\ncache_ttl   = \"1m\"\n",
            "[policy.rate_limit]\nmax_in_flight = 7\n",
        ] {
            assert!(after.contains(part), "{part:?} is missing in:\n{after}");
        }
        assert!(!after.contains("[policy]"), "an empty table was made:\n{after}");
        assert!(!file.set("log_level", "debug").unwrap(), "nothing changes");
        for name in [
            "log_level",
            "anycast.cache_ttl",
            "policy.rate_limit.max_in_flight",
        ] {
            assert!(file.unset(name).unwrap());
            assert!(!file.unset(name).unwrap());
        }
        assert!(text(&file).contains("enable_mdns = false"));
    }

    #[test]
    fn a_list_takes_each_value_once() {
        let (_home, file) = file("");
        let relay = [RELAY.to_owned()];
        assert!(file.add_to_list("bootstrap_peers", &relay).unwrap());
        assert!(!file.add_to_list("bootstrap_peers", &relay).unwrap());
        let other = [RELAY.to_owned(), RELAY.replace("4001", "4002")];
        assert!(file.add_to_list("bootstrap_peers", &other).unwrap());
        assert_eq!(text(&file).matches("/p2p/").count(), 2);
        assert_eq!(
            fs::metadata(&file.path).unwrap().permissions().mode() & 0o777,
            MODE
        );
    }

    #[test]
    fn tables_are_taken_as_toml() {
        let (_home, file) = file("");
        file.set("policy.acl", "[{ source = \"local\", allow = true }]")
            .unwrap();
        assert!(text(&file).contains("source = \"local\""), "{}", text(&file));
    }

    #[test]
    fn what_the_daemon_would_refuse_changes_nothing() {
        let before = "[policy]\ntrust = \"open\"\n";
        let (_home, file) = file(before);
        for (name, word) in [
            ("log_level", "loud"),
            ("log_levle", "info"),
            ("transport", "auto"),
            (
                "policy.trusted_peers",
                "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK",
            ),
            ("grpc_listen", "tcp://0.0.0.0:1"),
            ("policy.acl", "everybody"),
        ] {
            let error = file.set(name, word).unwrap_err();
            assert_eq!(error.code, FailureCode::Usage, "{name}: {error:?}");
            assert!(error.message().contains(name), "{error:?}");
        }
        assert!(file.unset("colour").is_err());
        assert_eq!(text(&file), before);
    }

    #[test]
    fn a_file_that_is_not_toml_is_named_with_its_line() {
        let (_home, file) = file("log_level = \"info\"\nthis is\n");
        let error = file.set("log_level", "debug").unwrap_err();
        assert!(error.message().contains("config.toml:2"), "{error:?}");
    }

    #[test]
    fn a_new_file_begins_with_what_counted_before() {
        let (home, mut file) = file("");
        let shared = home.path().join("shared.toml");
        let rules = "[policy]\ntrust = \"pinned\" # ours\n";
        fs::write(&shared, rules).unwrap();
        file.stand_in = Some(shared.clone());
        file.set("log_level", "debug").unwrap();
        let after = text(&file);
        assert!(
            after.contains(rules) && after.contains("log_level = \"debug\""),
            "{after}"
        );
        // From then on the home's own counts.
        fs::write(&shared, "enable_mdns = false\n").unwrap();
        file.set("log_level", "warn").unwrap();
        assert!(!text(&file).contains("enable_mdns"));
    }

    #[test]
    fn a_link_that_leads_nowhere_is_refused() {
        let (home, mut file) = file("");
        let shared = home.path().join("shared.toml");
        fs::write(&shared, "enable_mdns = false\n").unwrap();
        file.stand_in = Some(shared);
        std::os::unix::fs::symlink("gone.toml", &file.path).unwrap();
        let error = file.set("log_level", "debug").unwrap_err();
        assert!(error.message().contains("gone.toml"), "{error:?}");
        assert!(file.unset("log_level").is_err());
        assert!(file.path.is_symlink() && !home.path().join("gone.toml").exists());
    }
}
