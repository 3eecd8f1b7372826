//! Times of messages: ISO 8601 in UTC with microseconds and an offset, as upstream programs write them.

use jiff::Timestamp;

/// `at` as a message has it.
pub fn timestamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// The current time as a message has it.
pub fn timestamp_now() -> String {
    timestamp(Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_like_recorded_ones() {
        let at = Timestamp::from_microsecond(1_795_215_338_959_928).unwrap();
        assert_eq!(timestamp(at), "2026-11-20T22:55:38.959928+00:00");
    }
}
