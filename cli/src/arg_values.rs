//! Values of options, as they are typed: times, intervals, dates and labels. Used by the commands.

use std::time::{Duration, SystemTime};

use agentanycast_daemon_kit::duration;

/// A time such as `250ms`, `30s`, `1h30m` or `2d`; a bare number counts seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse_seconds(text).ok_or_else(|| format!("expected {}", duration::ALLOWED))
}

/// Not so short that watching becomes work, nor so long that it looks dead.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_mins(1)).contains(&interval) {
        Ok(interval)
    } else {
        Err("expected 100ms to 60s".to_owned())
    }
}

/// A time from now on as [`parse_duration`] reads it, or a date of RFC 3339.
pub(crate) fn parse_deadline(text: &str) -> Result<SystemTime, String> {
    if let Ok(date) = text.parse::<jiff::Timestamp>() {
        return Ok(date.into());
    }
    let from_now = duration::parse_seconds(text).filter(|time| !time.is_zero());
    let deadline = from_now.and_then(|time| SystemTime::now().checked_add(time));
    deadline.ok_or_else(|| {
        "expected a time from now such as 10m or 2d, or a date such as 2030-01-31T12:00:00Z".to_owned()
    })
}

/// A label, `KEY=VALUE`.
pub(crate) fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_hours(2)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse_duration("5d"), Ok(Duration::from_hours(120)));
        assert!(parse_duration("soon").is_err());
    }
}
