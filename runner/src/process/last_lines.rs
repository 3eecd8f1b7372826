//! The last lines of a text that may be long: what a program said before it failed. PURE.

use std::collections::VecDeque;

/// Most lines that are kept.
const MOST_LINES: usize = 20;

/// Most bytes of the last lines that are kept.
const MOST_BYTES: usize = 3 << 10;

/// Keeps the last 20 lines of at most 3 KiB in all.
#[derive(Debug, Default)]
pub struct LastLines {
    lines: VecDeque<String>,
    bytes: usize,
}

impl LastLines {
    /// Takes the next line; an empty one is left out.
    pub fn push(&mut self, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        let line = &line[..line.floor_char_boundary(MOST_BYTES)];
        self.bytes += line.len();
        self.lines.push_back(line.to_owned());
        while self.lines.len() > MOST_LINES || self.bytes > MOST_BYTES {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
    }

    /// The lines that are kept, oldest first, one below the other.
    pub fn text(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_kept_is_the_end_of_what_came(lines in prop::collection::vec("[a-zä]{1,900}", 0..40)) {
            let mut last = LastLines::default();
            for line in &lines {
                last.push(line);
            }
            let text = last.text();
            prop_assert!(text.len() <= MOST_BYTES + MOST_LINES && text.lines().count() <= MOST_LINES);
            prop_assert!(lines.join("\n").ends_with(&text));
            prop_assert_eq!(text.is_empty(), lines.is_empty());
        }
    }
}
