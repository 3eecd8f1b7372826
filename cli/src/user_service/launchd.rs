//! The agent of launchd, macOS's service manager: its property list, and what `launchctl print` says. Pure, but for the
//! number of the user.

/// The property list of the agent for this command line.
pub(super) fn plist(label: &str, words: &[String]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| format!("    <string>{}</string>", escaped(word)))
        .collect();
    let words = words.join("\n");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<!-- Written by `anycast service install`; `anycast service uninstall` removes it. -->
<plist version=\"1.0\">
<dict>
  <key>Label</key>
  <string>{}</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ProcessType</key>
  <string>Background</string>
</dict>
</plist>
",
        escaped(label)
    )
}

/// Text of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Where agents of this user run.
pub(super) fn domain() -> String {
    format!("gui/{}", rustix::process::geteuid().as_raw())
}

/// The agent of that label.
pub(super) fn target(label: &str) -> String {
    format!("{}/{label}", domain())
}

/// The state that `launchctl print` says, such as `running`; `inactive` for an agent that is not loaded.
pub(super) fn state(printed: &str) -> &str {
    let said = |line: &'_ str| line.trim().starts_with("state = ");
    let line = printed.lines().find(|line| said(line));
    line.and_then(|line| line.trim().strip_prefix("state = "))
        .unwrap_or("inactive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_a_list_of_texts() {
        let plist = plist("io.x", &["/opt/a & b/anycast".to_owned(), "daemon".to_owned()]);
        let list =
            "<array>\n    <string>/opt/a &amp; b/anycast</string>\n    <string>daemon</string>\n  </array>";
        assert!(plist.contains(list), "{plist}");
        assert!(
            plist.contains("<key>Label</key>\n  <string>io.x</string>"),
            "{plist}"
        );
    }

    #[test]
    fn the_state_is_read() {
        assert_eq!(
            state("gui/501/io.x = {\n\tactive count = 1\n\tstate = running\n}\n"),
            "running"
        );
        assert_eq!(state("Could not find service"), "inactive");
    }
}
