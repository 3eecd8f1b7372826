//! A service manager of a user that is played by scripts: they write down how they are called, and start the unit's command.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

/// `systemctl --user`: starts the command of the unit, and says whether it runs.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "systemctl $*" >>"$0.calls"
[ -e "$0.broken" ] && { echo "Failed to connect to bus: No medium found" >&2; exit 1; }
unit=$HOME/.config/systemd/user/$3
[ "$3" = --now ] && unit=$HOME/.config/systemd/user/$4
running() { [ -e "$0.pid" ] && kill -0 "$(cat "$0.pid")" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$(cat "$0.pid")/status"; }
stop() { running && kill "$(cat "$0.pid")" && while running; do sleep 0.05; done; rm -f "$0.pid"; }
start() {
    command=$(sed -n 's/^ExecStart=//p' "$unit")
    eval "setsid env ANYCAST_TEST_UNIT=1 $command >/dev/null 2>&1 &
        echo \$! >'$0.pid'"
    while ! [ -S "$HOME/.agentanycast/daemon.sock" ]; do sleep 0.05; done
}
case $2 in
    restart) stop; start ;;
    start) running || { rm -f "$HOME/.agentanycast/daemon.sock"; start; } ;;
    disable) stop ;;
    is-enabled) echo enabled ;;
    is-active) if running; then echo active; else echo failed; exit 3; fi ;;
esac
exit 0
"#;

/// A user who may not switch lingering on, unless there is the file that says so.
const LOGINCTL: &str = r#"#!/bin/sh
echo "loginctl $*" >>"$0.calls"
case $1 in
    show-user) if [ -e "$0.lingers" ]; then echo yes; else echo no; fi ;;
    enable-linger) if [ -e "$0.may" ]; then touch "$0.lingers"; else echo "Access denied" >&2; exit 1; fi ;;
esac
"#;

/// Puts the scripts `systemctl` and `loginctl` into a directory for `PATH`. What each was called with is in `NAME.calls` there;
/// files of the test's beside them (`systemctl.broken`, `loginctl.may`) say how they answer.
///
/// # Panics
/// When they cannot be written.
pub fn install(directory: &Path) {
    for (name, script) in [("systemctl", SYSTEMCTL), ("loginctl", LOGINCTL)] {
        let path = directory.join(name);
        fs::write(&path, script).expect("the script can be written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it can be run");
    }
}
