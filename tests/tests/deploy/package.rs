//! What the Debian package has, as its list in `cli/Cargo.toml` says: a document comes with those that it sends its reader to.

use std::path::Path;

use super::read;

/// The files of `docs/` that are packaged.
fn packaged() -> Vec<String> {
    let list = read("cli/Cargo.toml");
    let asset = |line: &str| {
        let (_, rest) = line.split_once("[\"../docs/")?;
        Some(rest.split('"').next()?.to_owned())
    };
    list.lines().filter_map(asset).collect()
}

#[test]
fn documents_in_the_package_lead_to_documents_in_it() {
    let packaged = packaged();
    assert!(packaged.iter().any(|file| file == "operating.md"), "{packaged:?}");
    let is_text = |file: &&String| Path::new(file).extension().is_some_and(|kind| kind == "md");
    for document in packaged.iter().filter(is_text) {
        let text = read(&format!("docs/{document}"));
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            assert!(
                packaged.iter().any(|file| file == target),
                "{document} leads to {target}, which is not packaged"
            );
        }
    }
}
