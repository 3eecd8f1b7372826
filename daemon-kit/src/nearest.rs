//! "Did you mean …": the word that is nearest to one that was typed. PURE.

/// Least likeness of a word that was perhaps meant, as clap has it for commands.
const ALIKE: f64 = 0.7;

/// The one of these words that is most like `typed`; none if none is like it.
pub fn nearest<'a>(typed: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let alike = words.filter(|word| !word.is_empty());
    let alike = alike.map(|word| {
        (
            strsim::jaro_winkler(&typed.to_lowercase(), &word.to_lowercase()),
            word,
        )
    });
    let best = alike.max_by(|(a, first), (b, second)| a.total_cmp(b).then(second.cmp(first)));
    best.filter(|(likeness, _)| *likeness > ALIKE)
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_hand_is_understood() {
        let words = ["translate", "summarize", ""];
        let near = |typed| nearest(typed, words.into_iter());
        assert_eq!(near("transalte"), Some("translate"));
        assert_eq!(near("Translate"), Some("translate"));
        assert_eq!(near("summarise"), Some("summarize"));
        assert_eq!(near("paint"), None);
        assert_eq!(nearest("x", [].into_iter()), None);
    }
}
