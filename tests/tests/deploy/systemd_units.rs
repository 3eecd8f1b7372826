//! The units: what docs/operating.md has somebody write in the settings can be done under them, and a bad setting ends them.

use std::path::Path;

use crate::read;

/// What a unit says, for each time that it says it.
fn said<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    let said = |line: &'a str| line.strip_prefix(name)?.strip_prefix('=');
    unit.lines().filter_map(said).collect()
}

#[test]
fn files_that_the_docs_name_are_where_the_daemon_may_write() {
    let unit = read("deploy/systemd/agentanycastd.service");
    assert_eq!(said(&unit, "ProtectSystem"), ["strict"]);
    let mut writable = Vec::new();
    for (name, above) in [
        ("StateDirectory", "/var/lib"),
        ("LogsDirectory", "/var/log"),
        ("RuntimeDirectory", "/run"),
    ] {
        for directory in said(&unit, name) {
            writable.push(Path::new(above).join(directory));
            // The socket is for the group too.
            let mode = if name == "RuntimeDirectory" {
                "0750"
            } else {
                "0700"
            };
            assert_eq!(said(&unit, &format!("{name}Mode")), [mode]);
        }
    }
    let docs = read("docs/operating.md");
    let quoted = |prefix: &str| docs.split('`').find_map(|text| text.strip_prefix(prefix));
    let audit_log = quoted("audit_log_path = \"").unwrap().trim_end_matches('"');
    let command = said(&unit, "ExecStart")[0];
    let written = command.split(' ').filter_map(|word| {
        let path = word.trim_start_matches("unix://");
        (path.starts_with("/var/") || path.starts_with("/run/")).then_some(path)
    });
    let written: Vec<&str> = written.chain([audit_log]).collect();
    assert_eq!(written.len(), 4, "{written:?}");
    for path in written {
        let may = writable
            .iter()
            .any(|directory| Path::new(path).starts_with(directory));
        assert!(may, "{path} is in none of {writable:?}");
    }
}

#[test]
fn a_bad_setting_is_not_tried_again_and_again() {
    for program in ["agentanycastd", "agentanycast-relay", "agentanycast-bridge"] {
        let unit = read(&format!("deploy/systemd/{program}.service"));
        assert_eq!(said(&unit, "Restart"), ["on-failure"], "{program}");
        assert_eq!(said(&unit, "RestartPreventExitStatus"), ["2"], "{program}");
    }
}

/// systemd hears from both daemons, and what a unit lets them do does not stop that.
#[test]
fn the_daemons_tell_systemd_what_they_do() {
    for program in ["agentanycastd", "agentanycast-relay"] {
        let unit = read(&format!("deploy/systemd/{program}.service"));
        assert_eq!(said(&unit, "Type"), ["notify"], "{program}");
        assert_eq!(said(&unit, "WatchdogSec"), ["60s"], "{program}");
        let families = said(&unit, "RestrictAddressFamilies")[0];
        assert!(families.split(' ').any(|family| family == "AF_UNIX"), "{program}");
    }
}
