//! Plain tests over the inputs that fuzzing has kept, in `fuzz/corpus/`. For tests only.
//!
//! The rule: the same inputs each time. Each kept one is run as it is, and in as many forms as fit into a second or two
//! of a debug build, changed by numbers that follow from it.

use std::{fs, hash::DefaultHasher, hash::Hasher as _, path::Path};

/// Changed forms of each kept input, where there are few.
const FORMS: usize = 24;

/// Changed forms of all kept inputs together, where there are many; each has one at least.
const ALL_FORMS: usize = 10_000;

/// Changes of one form.
const CHANGES: usize = 4;

/// Runs `target` on every input that was kept for it under `top`, and on changed forms of them.
///
/// # Panics
/// When there are none, or cannot be read; and as `run` does.
pub fn replay(top: &Path, target: &str, run: impl Fn(&[u8])) {
    let place = top.join("fuzz/corpus").join(target);
    let listed = fs::read_dir(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    let mut kept: Vec<_> = listed
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    kept.sort();
    assert!(!kept.is_empty(), "{} is empty", place.display());
    run(&[]);
    let forms = (ALL_FORMS / kept.len()).clamp(1, FORMS);
    for path in kept {
        let input = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        run(&input);
        for form in 0..forms {
            run(&changed(&input, form as u64));
        }
    }
}

/// A form of an input: bytes changed, taken out, put in, doubled, cut off.
fn changed(input: &[u8], form: u64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for change in 0..CHANGES as u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(input);
        hasher.write_u64(form * CHANGES as u64 + change);
        let number = hasher.finish();
        let at = (number >> 16) as usize % (bytes.len() + 1);
        let byte = (number >> 8) as u8;
        match number % 6 {
            0 if at < bytes.len() => bytes[at] = byte,
            1 if at < bytes.len() => bytes[at] ^= 1 << (byte % 8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.insert(at, byte),
            4 => bytes.truncate(at),
            _ => {
                let end = (at + usize::from(byte)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_differ_and_are_the_same_each_time() {
        let forms: Vec<_> = (0..FORMS as u64)
            .map(|form| changed(b"{\"a\": [1, 2, 3]}", form))
            .collect();
        let again: Vec<_> = (0..FORMS as u64)
            .map(|form| changed(b"{\"a\": [1, 2, 3]}", form))
            .collect();
        assert_eq!(forms, again);
        let different: std::collections::BTreeSet<_> = forms.iter().collect();
        assert!(different.len() > FORMS / 2, "{}", different.len());
        assert!(changed(b"", 1).len() < 3, "nothing can be made of nothing much");
    }
}
