//! Short forms of ids for people: the last characters of a peer's, the first of a task's. PURE.

/// Characters of a short peer id.
const PEER: usize = 8;

/// Characters of a short task id: a UUID's up to its first dash.
const TASK: usize = 8;

/// The last 8 characters of a peer id; `--full` shows it whole.
pub(crate) fn peer(id: &str) -> &str {
    let begin = id.len().saturating_sub(PEER);
    id.get(begin..).unwrap_or(id)
}

/// The first 8 characters of a task id that is a UUID; other ids are shown whole.
pub(crate) fn task(id: &str) -> &str {
    match uuid::Uuid::try_parse(id) {
        Ok(_) => id.get(..TASK).unwrap_or(id),
        Err(_) => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_an_id() {
        let id = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK";
        assert_eq!(peer(id), "swrRJsNK");
        assert_eq!(peer("a"), "a");
        assert_eq!(peer("ä".repeat(20).as_str()), "ä".repeat(4));
        assert_eq!(task("6a5bf0d1-52f4-4d0b-a29e-6f1b2a6f0b7e"), "6a5bf0d1");
        assert_eq!(task("a task of another system"), "a task of another system");
    }
}
