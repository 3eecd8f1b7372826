//! Points in time: RFC 3339 in JSON, UTC with `Z` and milliseconds when written. PURE.

use jiff::{SignedDuration, Timestamp, Unit, fmt::temporal::DateTimePrinter};

/// Reads RFC 3339 of any offset.
pub fn read_time(text: &str) -> Option<prost_types::Timestamp> {
    let time: Timestamp = text.parse().ok()?;
    let since = time.duration_since(Timestamp::UNIX_EPOCH);
    let (mut seconds, mut nanos) = (since.as_secs(), since.subsec_nanos());
    if nanos < 0 {
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    Some(prost_types::Timestamp { seconds, nanos })
}

/// Writes it; more than milliseconds only where there is more. `None` beyond the year 9999.
pub fn write_time(time: &prost_types::Timestamp) -> Option<String> {
    let since = SignedDuration::new(time.seconds, time.nanos);
    let time = Timestamp::UNIX_EPOCH.checked_add(since).ok()?;
    let fine = time.subsec_nanosecond() % 1_000_000 != 0;
    let precision = if fine { 9 } else { 3 };
    let mut text = String::new();
    DateTimePrinter::new()
        .precision(Some(precision))
        .print_timestamp(&time, &mut text)
        .ok()?;
    Some(text)
}

/// Unix time in milliseconds.
pub fn millis(time: &prost_types::Timestamp) -> i64 {
    time.seconds
        .saturating_mul(1000)
        .saturating_add(i64::from(time.nanos) / 1_000_000)
}

/// This moment, to the millisecond.
pub fn rounded(now: std::time::SystemTime) -> Option<prost_types::Timestamp> {
    let time = Timestamp::try_from(now).ok()?.round(Unit::Millisecond).ok()?;
    read_time(&time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_and_z() {
        for (given, written) in [
            ("2025-01-02T03:04:05Z", "2025-01-02T03:04:05.000Z"),
            ("2025-01-02T03:04:05.12Z", "2025-01-02T03:04:05.120Z"),
            ("2025-01-02T05:04:05.5+02:00", "2025-01-02T03:04:05.500Z"),
            ("1969-12-31T23:59:59.250Z", "1969-12-31T23:59:59.250Z"),
            ("2025-01-02T03:04:05.000001Z", "2025-01-02T03:04:05.000001000Z"),
        ] {
            assert_eq!(write_time(&read_time(given).unwrap()).unwrap(), written);
        }
        assert_eq!(read_time("yesterday"), None);
        assert_eq!(
            write_time(&prost_types::Timestamp {
                seconds: i64::MAX,
                nanos: 0
            }),
            None
        );
    }

    #[test]
    fn milliseconds_are_those_since_1970() {
        assert_eq!(millis(&read_time("1970-01-01T00:00:01.234Z").unwrap()), 1234);
    }
}
