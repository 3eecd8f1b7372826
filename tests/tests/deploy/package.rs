//! What the Debian package has, as its list in `anycast/Cargo.toml` says: a document's links lead to what is installed with it.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use super::read;

/// What is installed: where, and the file of the tree that it is. Without what the list has by a pattern, such as the man
/// pages, which no document links to.
fn installed() -> BTreeMap<PathBuf, String> {
    let list = read("anycast/Cargo.toml");
    let (_, assets) = list.split_once("\nassets = [\n").unwrap();
    let (assets, _) = assets.split_once("\n]").unwrap();
    let asset = |line: &str| {
        let line = line.trim().trim_end_matches(',');
        let [from, to, _mode]: [String; 3] =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let from = from.strip_prefix("../").unwrap_or(&from).to_owned();
        let name = Path::new(&from).file_name().unwrap();
        let place = match to.strip_suffix('/') {
            Some(directory) => Path::new(directory).join(name),
            None => PathBuf::from(to),
        };
        (!from.contains('*')).then_some((place, from))
    };
    assets.lines().filter_map(asset).collect()
}

/// What a document links to beside it, without places within documents.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let inline = text.split("](").skip(1);
    let embedded = text.split(" src=\"").skip(1);
    let referred = text.lines().filter_map(|line| {
        let (name, target) = line.split_once("]: ")?;
        name.starts_with('[').then_some(target)
    });
    inline
        .chain(embedded)
        .chain(referred)
        .map(|rest| {
            let end = [')', '#', '"', ' ', '\n'];
            rest.split(end).next().unwrap_or_default()
        })
        .filter(|target| !target.is_empty() && !target.contains(':'))
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut so_far, part| {
        match part {
            Component::ParentDir => {
                so_far.pop();
            }
            Component::CurDir => {}
            part => so_far.push(part),
        }
        so_far
    })
}

#[test]
fn documents_in_the_package_lead_to_documents_in_it() {
    let installed = installed();
    let mut followed = 0;
    for (place, source) in installed
        .iter()
        .filter(|(place, _)| place.extension().is_some_and(|kind| kind == "md"))
    {
        let text = read(source);
        for target in links(&text) {
            let leads_to = plain(&place.parent().unwrap().join(target));
            assert!(
                installed.contains_key(&leads_to),
                "{} leads to {target}, and nothing is installed at {}",
                place.display(),
                leads_to.display()
            );
            followed += 1;
        }
    }
    assert!(followed > 20, "links are read: {followed}");
    let start = Path::new("usr/share/doc/agentanycast/README.md");
    assert!(installed.contains_key(start), "{installed:?}");
}

/// What else says where a document is.
#[test]
fn documents_are_where_the_settings_say() {
    let installed = installed();
    let settings = read("deploy/debian/config.toml");
    let named: Vec<&str> = settings
        .split_whitespace()
        .filter(|word| word.starts_with("/usr/share/doc/"))
        .collect();
    assert!(!named.is_empty());
    for path in named {
        assert!(
            installed.contains_key(Path::new(&path[1..])),
            "nothing is installed at {path}"
        );
    }
}

#[test]
fn links_are_read_as_they_stand() {
    let text = "[a](docs/a.md#there) ![b](b.png) <img src=\"c.svg\"> [d](https://d) [e](#e)\n[f]: ../f.md\n";
    assert_eq!(
        links(text).collect::<Vec<_>>(),
        ["docs/a.md", "b.png", "c.svg", "../f.md"]
    );
    assert_eq!(plain(Path::new("x/docs/../f.md")), Path::new("x/f.md"));
}
