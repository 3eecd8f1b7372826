//! Says once which variables of the daemon's environment its programs do not get, since they got all of them in earlier
//! versions. The names that were said stand in a file of the home; their values stand nowhere.

use std::{collections::BTreeSet, env, fs, io::Read as _, path::Path};

use agentanycast_gateways::run::RunSettings;

/// The file, beside the directories of agents: no agent has a name with a dot in front.
const FILE: &str = "run/.withheld-variables";

/// Most bytes of the file, and so of the names that are said.
const MOST_BYTES: u64 = 64 << 10;

/// Says those names that are not in the file yet.
pub(super) fn tell_once(agents: &[RunSettings], state: &Path) {
    let path = state.join(FILE);
    let known = read(&path);
    let new: BTreeSet<String> = withheld(agents).difference(&known).cloned().collect();
    if new.is_empty() {
        return;
    }
    let names: Vec<&str> = new.iter().map(String::as_str).collect();
    tracing::warn!(
        variables = names.join(" "),
        "programs of agents do not get these variables of the daemon's environment; name those that they need in pass_env"
    );
    let all: Vec<&str> = known.union(&new).map(String::as_str).collect();
    let written = fs::create_dir_all(state.join("run")).and_then(|()| fs::write(&path, all.join("\n")));
    if let Err(error) = written {
        tracing::debug!(%error, "the names of variables that were said are not kept");
    }
}

/// Variables of this process that some program does not get.
fn withheld(agents: &[RunSettings]) -> BTreeSet<String> {
    let programs = agents.iter().filter_map(|agent| agent.work.program());
    let names = || env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    programs
        .flat_map(|program| {
            let is_set = |name: &String| program.env.iter().any(|(set, _)| set == name);
            program.passed_env.withheld(names().filter(|name| !is_set(name)))
        })
        .collect()
}

fn read(path: &Path) -> BTreeSet<String> {
    let mut text = String::new();
    let file = fs::File::open(path);
    // What cannot be read is said again.
    let _ = file.and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use agentanycast_gateways::run::{PassedEnv, RunProgram, RunWork};

    use super::*;

    fn agent(passed: &[&str]) -> RunSettings {
        let program = RunProgram {
            command: vec!["true".into()],
            passed_env: PassedEnv::Listed(passed.iter().map(ToString::to_string).collect()),
            ..RunProgram::default()
        };
        RunSettings::new("a".to_owned(), RunWork::Jsonl(program))
    }

    #[test]
    fn names_are_said_until_they_are_known() {
        // Cargo sets it for tests.
        const NAME: &str = "CARGO_MANIFEST_DIR";
        let home = tempfile::tempdir().unwrap();
        assert!(!withheld(&[agent(&[NAME])]).contains(NAME));
        assert!(withheld(&[agent(&[NAME]), agent(&[])]).contains(NAME));
        assert!(withheld(&[]).is_empty());
        tell_once(&[agent(&[])], home.path());
        let known = read(&home.path().join(FILE));
        assert!(known.contains(NAME) && !known.contains("PATH"), "{known:?}");
        let is_new = withheld(&[agent(&[])]).difference(&known).count();
        assert_eq!(is_new, 0);
    }
}
