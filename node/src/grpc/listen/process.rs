//! The process on the other end of a Unix socket.

use std::{
    fs,
    sync::{Arc, OnceLock},
};

/// Names a process of this host among all that were and will be: the boot, its id and when it started. None: it is not
/// visible from here, as a process of another container is.
pub(super) fn process_name(pid: i32) -> Option<Arc<str>> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let boot = BOOT.get_or_init(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").ok());
    if pid <= 0 {
        return None;
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let started = start_time(&stat)?;
    Some(Arc::from(format!("{}/{pid}/{started}", boot.as_ref()?.trim())))
}

/// Field 22 of `/proc/PID/stat`. The name of the program before it may have any character.
fn start_time(stat: &str) -> Option<&str> {
    stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().nth(19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_one_that_has_its_id_later() {
        let stat = "4242 (a) b (c)) S 1 4242 4242 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8765 1 1";
        assert_eq!(start_time(stat), Some("8765"));
        let own = process_name(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(own.split('/').count(), 3, "{own}");
        assert_eq!(process_name(0), None);
    }
}
