//! PURE: times as people write them, `90s`, `1h30m` or `2d`, in settings and on command lines.
//!
//! The rule: [`parse`] reads back what [`format()`] writes as the same time, to the millisecond.

use std::time::Duration;

/// Units of time, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Longest time that is read: 100 years, so that adding it to a clock cannot overflow.
pub const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// What is allowed, for errors.
pub const ALLOWED: &str = "a time such as 500ms, 30s, 5m, 1h30m or 7d, at most 100 years";

/// One or more whole numbers, each with its unit (`d`, `h`, `m`, `s` or `ms`), which are added up; `0` needs none.
/// None: it is no such text, or more than [`LONGEST`].
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut millis) = (text, 0_u64);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
        millis = number
            .parse::<u64>()
            .ok()?
            .checked_mul(*size)?
            .checked_add(millis)?;
        rest = after;
    }
    let time = Duration::from_millis(millis);
    (!text.is_empty() && time <= LONGEST).then_some(time)
}

/// As [`parse`]; a number without a unit counts seconds.
pub fn parse_seconds(text: &str) -> Option<Duration> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let time = Duration::from_secs(text.parse().ok()?);
        return (time <= LONGEST).then_some(time);
    }
    parse(text)
}

/// The time in the largest unit that it is a whole number of, but for one day, which is written as 24 hours; parts of a
/// millisecond are left out.
pub fn format(time: Duration) -> String {
    let millis = time.as_millis() as u64;
    let fits = |&&(unit, size): &&(&str, u64)| millis.is_multiple_of(size) && (unit != "d" || millis > size);
    match UNITS.iter().find(fits) {
        Some((unit, size)) if millis > 0 => format!("{}{unit}", millis / size),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read() {
        for (text, millis) in [
            ("0", 0),
            ("250ms", 250),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1d2h3m4s5ms", 93_784_005),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
            assert_eq!(parse_seconds(text), parse(text), "{text}");
        }
        for text in [
            "",
            "soon",
            "5",
            "1h30",
            "m",
            "-1s",
            "1.5h",
            " 5s",
            "5 s",
            "5S",
            "36501d",
            "99999999999999999999s",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_bare_number_counts_seconds_where_that_is_allowed() {
        assert_eq!(parse_seconds("90"), Some(Duration::from_secs(90)));
        for text in ["", "+5", "1h30", "99999999999999999999", "3153600001"] {
            assert_eq!(parse_seconds(text), None, "{text:?}");
        }
        assert_eq!(parse_seconds("3153600000"), Some(LONGEST));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 0..=3_153_600_000_000_u64) {
            let time = Duration::from_millis(millis);
            prop_assert_eq!(parse(&format(time)), Some(time));
        }

        #[test]
        fn parts_add_up(hours in 0..800_u64, minutes in 0..9_999_u64, seconds in 0..9_999_u64) {
            let text = format!("{hours}h{minutes}m{seconds}s");
            prop_assert_eq!(parse(&text), Some(Duration::from_secs(hours * 3600 + minutes * 60 + seconds)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-z ]{0,24}") {
            let read = parse_seconds(&text);
            prop_assert!(read.is_none_or(|time| time <= LONGEST));
        }
    }
}
