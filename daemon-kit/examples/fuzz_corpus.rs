//! Unpacks what fuzzing has kept for a target into a directory, one file for each input, or packs the files of one.
//!
//!     cargo run -p agentanycast-daemon-kit --features corpus --example fuzz_corpus -- unpack|pack TARGET DIRECTORY

use std::{collections::BTreeMap, fs, path::Path, process::ExitCode};

use agentanycast_daemon_kit::fuzz_corpus::FuzzCorpus;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, target, directory] = arguments.as_slice() else {
        eprintln!("give unpack or pack, a target, and a directory");
        return ExitCode::from(2);
    };
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directory = Path::new(directory);
    let done = match what.as_str() {
        "unpack" => unpack(&FuzzCorpus::read(&top, target), directory),
        "pack" => files(directory).and_then(|inputs| FuzzCorpus::new(&top, target, inputs).write()),
        other => {
            eprintln!("{other} is neither unpack nor pack");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

fn unpack(kept: &FuzzCorpus, directory: &Path) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    for (name, input) in kept.inputs() {
        fs::write(directory.join(name), input)?;
    }
    Ok(())
}

fn files(directory: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut inputs = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        inputs.insert(name, fs::read(entry.path())?);
    }
    Ok(inputs)
}
