//! The inputs that fuzzing has kept, one archive for each target in `fuzz/corpus/`, and plain tests over them. For tests only.
//!
//! The rules: the same inputs in an archive are the same bytes of it, whoever writes it and when. A test tries the same inputs each
//! time: each kept one as it is, and in as many forms as fit into a second or two of a debug build, changed by numbers that follow
//! from it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    hash::{DefaultHasher, Hasher as _},
    io::{self, BufReader, BufWriter, Read as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder, read::GzDecoder};

/// Changed forms of each kept input, where there are few.
const FORMS: usize = 24;

/// Changed forms of all kept inputs together, where there are many; each has one at least.
const ALL_FORMS: usize = 10_000;

/// Changes of one form.
const CHANGES: usize = 4;

/// What was kept for one target, by name.
#[derive(Debug)]
pub struct FuzzCorpus {
    archive: PathBuf,
    inputs: BTreeMap<String, Vec<u8>>,
}

impl FuzzCorpus {
    /// These inputs of a target, below the top of the repository.
    pub fn new(top: &Path, target: &str, inputs: BTreeMap<String, Vec<u8>>) -> Self {
        let archive = top.join("fuzz/corpus").join(format!("{target}.tar.gz"));
        Self { archive, inputs }
    }

    /// Those that are kept.
    ///
    /// # Panics
    /// When their archive cannot be read.
    pub fn read(top: &Path, target: &str) -> Self {
        let mut corpus = Self::new(top, target, BTreeMap::new());
        match Self::unpack(&corpus.archive) {
            Ok(inputs) => corpus.inputs = inputs,
            Err(error) => panic!("{}: {error}", corpus.archive.display()),
        }
        corpus
    }

    fn unpack(archive: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
        let packed = BufReader::new(File::open(archive)?);
        let mut inputs = BTreeMap::new();
        for entry in tar::Archive::new(GzDecoder::new(packed)).entries()? {
            let mut entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            let mut input = Vec::new();
            entry.read_to_end(&mut input)?;
            inputs.insert(name, input);
        }
        Ok(inputs)
    }

    /// The input of this name; empty: there is none.
    pub fn input(&self, name: &str) -> &[u8] {
        self.inputs.get(name).map_or(&[], Vec::as_slice)
    }

    /// All of them, by name.
    pub fn inputs(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.inputs
    }

    /// Keeps them, in place of what is kept.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub fn write(&self) -> io::Result<()> {
        // Whoever reads it meanwhile finds the last one.
        let new = self.archive.with_extension(format!("new{}", std::process::id()));
        let packed = BufWriter::new(File::create(&new)?);
        let packed = GzBuilder::new().mtime(0).write(packed, Compression::best());
        let mut archive = tar::Builder::new(packed);
        for (name, input) in &self.inputs {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(input.len() as u64);
            archive.append_data(&mut header, name, input.as_slice())?;
        }
        let packed = archive.into_inner()?.finish()?;
        packed.into_inner()?.sync_all()?;
        fs::rename(new, &self.archive)
    }

    /// Checks that an input is kept under this name; with `UPDATE_GENERATED` it is from now on.
    ///
    /// # Panics
    /// When another one is, or none.
    pub fn has(&mut self, name: &str, input: &[u8]) {
        if std::env::var_os("UPDATE_GENERATED").is_some() && self.input(name) != input {
            self.inputs.insert(name.to_owned(), input.to_vec());
            let written = self.write();
            assert!(written.is_ok(), "{}: {written:?}", self.archive.display());
        }
        assert_eq!(self.input(name), input, "{name}: UPDATE_GENERATED=1 writes it");
    }
}

/// Runs `target` on every input that was kept for it under `top`, and on changed forms of them.
///
/// # Panics
/// When there are none, or cannot be read; and as `run` does.
pub fn replay(top: &Path, target: &str, run: impl Fn(&[u8])) {
    let kept = FuzzCorpus::read(top, target);
    assert!(!kept.inputs.is_empty(), "{} is empty", kept.archive.display());
    run(&[]);
    let forms = (ALL_FORMS / kept.inputs.len()).clamp(1, FORMS);
    for input in kept.inputs.values() {
        run(input);
        for form in 0..forms {
            run(&changed(input, form as u64));
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
    fn the_same_inputs_are_the_same_archive() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("fuzz/corpus")).unwrap();
        let mut written = Vec::new();
        for target in ["one", "other"] {
            let inputs = BTreeMap::from([("b".to_owned(), vec![0, 255]), ("a".to_owned(), Vec::new())]);
            let corpus = FuzzCorpus::new(top.path(), target, inputs.clone());
            corpus.write().unwrap();
            assert_eq!(FuzzCorpus::read(top.path(), target).inputs, inputs);
            written.push(std::fs::read(corpus.archive).unwrap());
        }
        assert_eq!(written[0], written[1]);
    }

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
