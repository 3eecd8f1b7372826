//! The user unit of systemd: its text, and what `loginctl` says of lingering. Pure, but for the name of the user.

use super::Lingering;

/// The unit for this command line.
pub(super) fn unit(words: &[String]) -> String {
    let command: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!(
        "# Written by `anycast service install`; `anycast service uninstall` removes it.
[Unit]
Description=AgentAnycast node
Documentation=man:agentanycastd(1)

[Service]
Type=notify
ExecStart={}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
# A bad setting does not mend itself.
RestartPreventExitStatus=2
RestartSec=2s
# A large store takes its time to open.
TimeoutStartSec=5min
# A stop drains for 5 s at most; what is not drained is on disk.
TimeoutStopSec=15s
WatchdogSec=60s
LimitNOFILE=65536

[Install]
WantedBy=default.target
",
        command.join(" ")
    )
}

/// A word of a unit's command line, which systemd reads back as it is.
fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // Specifiers and variables.
            '%' | '$' => quoted.extend([letter, letter]),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// This user, as `loginctl` takes it.
pub(super) fn user() -> String {
    rustix::process::geteuid().as_raw().to_string()
}

/// What gives the user a service manager of its own from the start of the system on.
pub(super) fn linger_command(user: &str) -> String {
    format!("sudo loginctl enable-linger {user}")
}

/// What `loginctl show-user --property=Linger --value` says.
pub(super) fn lingering(text: &str, user: &str) -> Lingering {
    match text.trim() {
        "yes" => Lingering::On,
        "no" => Lingering::Off(linger_command(user)),
        _ => Lingering::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_as_they_are() {
        let words = ["/opt/a b/anycast", "daemon", "--key=/h/100%/$HOME/\"x\"\\key"].map(ToOwned::to_owned);
        let unit = unit(&words);
        let expected = r#"ExecStart="/opt/a b/anycast" "daemon" "--key=/h/100%%/$$HOME/\"x\"\\key""#;
        assert!(unit.lines().any(|line| line == expected), "{unit}");
    }

    #[test]
    fn lingering_is_read() {
        assert_eq!(lingering("yes\n", "7"), Lingering::On);
        assert_eq!(
            lingering("no\n", "7"),
            Lingering::Off("sudo loginctl enable-linger 7".to_owned())
        );
        assert_eq!(lingering("", "7"), Lingering::Unknown);
    }
}
