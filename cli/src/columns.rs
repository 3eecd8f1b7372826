//! PURE, but for [`of_terminal`]: how many columns of a terminal a text takes, and texts cut to fit. A
//! character may take two columns, or none.

use std::os::fd::AsFd;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The columns of a terminal that does not say how many it has.
const USUAL: usize = 80;

/// What stands for what was cut off.
const CUT: char = '…';

/// The columns of the terminal behind a descriptor.
pub(crate) fn of_terminal(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    match size.map(|size| usize::from(size.ws_col)) {
        Ok(columns @ 1..) => columns,
        _ => USUAL,
    }
}

/// The columns that a text on one line takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, or its beginning and `…` where it is wider.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    let (mut kept, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        kept.push(c);
    }
    // Characters together may be wider than each by itself.
    while width(&kept) > room {
        kept.pop();
    }
    kept.push(CUT);
    kept
}

/// The text with spaces behind it up to so many columns.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(missing))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(width("日本"), 4);
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!((cut("abc", 1).as_str(), cut("abc", 0).as_str()), ("…", ""));
        assert_eq!(padded("日", 4), "日  ");
    }

    proptest! {
        #[test]
        fn a_text_that_was_cut_fits(text in "\\PC{0,40}", columns in 0..30_usize) {
            prop_assert!(width(&cut(&text, columns)) <= columns);
        }
    }
}
