//! A file with the token that a gateway shows to a service of others.

use std::{fs, io::Read as _, path::Path};

use anyhow::Context as _;

/// Largest file with a token, in bytes.
const LARGEST_TOKEN: u64 = 16 << 10;

/// Reads the token that is shown to `service`, as its owner calls it.
///
/// # Errors
/// When the file cannot be read, or is empty.
pub fn read_token(file: &Path, service: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let opened = fs::File::open(file).and_then(|file| file.take(LARGEST_TOKEN).read_to_string(&mut text));
    opened.with_context(|| format!("the token in {} cannot be read", file.display()))?;
    let token = text.trim();
    anyhow::ensure!(
        !token.is_empty(),
        "{} is empty; write the {service}'s token into it",
        file.display()
    );
    Ok(token.to_owned())
}
