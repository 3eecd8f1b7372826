//! The settings of a home whose key, socket and store are given one by one, as the SDKs give them, where none
//! names a file: the home's own `config.toml`, as for `anycast --home`. PURE, but for whether that file is
//! there.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The variable that names the settings.
const FILE: &str = "CONFIG";

/// What gives a home one by one: flag, variable, and what it is in the home.
const PLACES: [(&str, &str, &str); 3] = [
    ("key", "KEY_PATH", "key"),
    ("grpc-listen", "GRPC_LISTEN", "daemon.sock"),
    ("store-path", "STORE_PATH", "data"),
];

/// The settings inside a home.
const CONFIG_FILE: &str = "config.toml";

/// The arguments, and one that names the settings of the home that they and the environment give.
pub(super) fn with_home_settings(
    mut args: Vec<OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
    is_there: impl Fn(&Path) -> bool,
) -> Vec<OsString> {
    let is_named = value(&args, "config").is_some() || variable(FILE).is_some();
    if !is_named && let Some(home) = home(&args, &variable) {
        let file = home.join(CONFIG_FILE);
        if is_there(&file) {
            let mut named = OsString::from("--config=");
            named.push(file);
            // Before what may end the flags.
            args.insert(1.min(args.len()), named);
        }
    }
    args
}

/// The one directory that all of a home's places are in.
fn home(args: &[OsString], variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let mut homes = PLACES.iter().map(|(flag, name, inside)| {
        let given = value(args, flag).or_else(|| variable(name))?;
        let path = match given.to_str().and_then(|text| text.strip_prefix("unix://")) {
            Some(socket) => PathBuf::from(socket),
            None => PathBuf::from(given),
        };
        (path.file_name() == Some(OsStr::new(inside))).then(|| path.parent().map(Path::to_owned))?
    });
    let home = homes.next()??;
    homes.all(|other| other.as_ref() == Some(&home)).then_some(home)
}

/// The last value of a flag, behind it or joined by `=`, with one dash or two.
fn value(args: &[OsString], flag: &str) -> Option<OsString> {
    let mut found = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(text) = arg.to_str().filter(|text| text.starts_with('-')) else {
            continue;
        };
        let text = text.trim_start_matches('-');
        match text.split_once('=') {
            Some((name, value)) if name == flag => found = Some(value.into()),
            None if text == flag => found = args.next().cloned(),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(args: &[&str], variables: &[(&str, &str)]) -> Option<String> {
        let args: Vec<OsString> = std::iter::once("agentanycastd")
            .chain(args.iter().copied())
            .map(OsString::from)
            .collect();
        let before = args.len();
        let variable = |name: &str| {
            let found = variables.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let args = with_home_settings(args, variable, |file| file.starts_with("/h"));
        (args.len() > before).then(|| args[1].to_str().unwrap().to_owned())
    }

    #[test]
    fn the_flags_of_an_sdk_give_its_home() {
        let sdk = [
            "--key=/h/key",
            "--grpc-listen=unix:///h/daemon.sock",
            "--log-level=info",
        ];
        let store = [("STORE_PATH", "/h/data")];
        assert_eq!(named(&sdk, &store).as_deref(), Some("--config=/h/config.toml"));
        let apart = ["-key", "/h/key", "-grpc-listen", "unix:///h/daemon.sock"];
        assert_eq!(named(&apart, &store).as_deref(), Some("--config=/h/config.toml"));
        let all = [
            ("STORE_PATH", "/h/data"),
            ("KEY_PATH", "/h/key"),
            ("GRPC_LISTEN", "unix:///h/daemon.sock"),
        ];
        assert_eq!(named(&[], &all).as_deref(), Some("--config=/h/config.toml"));
    }

    #[test]
    fn what_is_no_home_of_its_own_has_the_usual_settings() {
        let sdk = ["--key=/h/key", "--grpc-listen=unix:///h/daemon.sock"];
        assert_eq!(named(&sdk, &[]), None, "no store");
        assert_eq!(named(&sdk, &[("STORE_PATH", "/other/data")]), None);
        assert_eq!(
            named(
                &["--key=/h/key", "--grpc-listen=tcp://127.0.0.1:1"],
                &[("STORE_PATH", "/h/data")]
            ),
            None
        );
        let store = ("STORE_PATH", "/h/data");
        assert_eq!(
            named(&sdk, &[store, ("CONFIG", "/x.toml")]),
            None,
            "the environment names another"
        );
        assert_eq!(
            named(&[&sdk[..], &["--config", "/x.toml"]].concat(), &[store]),
            None
        );
        let absent = ["--key=/gone/key", "--grpc-listen=unix:///gone/daemon.sock"];
        assert_eq!(
            named(&absent, &[("STORE_PATH", "/gone/data")]),
            None,
            "there is no file"
        );
    }
}
