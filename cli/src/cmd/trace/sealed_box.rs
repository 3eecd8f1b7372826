//! PURE: what to do about a sealed box that was not taken.

/// What to do about a box that the agent's node did not take, by its reason; None: it was not about a box.
pub(super) fn about_box(reason: &str) -> Option<&'static str> {
    let (_, why) = reason.split_once("the message is not taken: ")?;
    let cases = [
        (
            "it is sealed for ",
            "whoever sealed it has to seal it for the node that the URL leads to, or send it to another URL; ask that node's \
             operator for its id, and do not take it from whoever carries the task",
        ),
        (
            "it has come before",
            "there is nothing to do if it was sent once: it was carried here twice, and the first one counts; `anycast trace` with \
             the sender's id at the agent's node says how that goes",
        ),
        (
            "it is not known any more",
            "so many sealed tasks came to the agent's node that it has forgotten some which are as old: send it again when it says",
        ),
        (
            "it was sealed more than",
            "whoever carried it was too late: whoever sealed it has to send it again",
        ),
        (
            "it was sealed in the future",
            "set the clock of the sender's node, or that of the agent's, then send it again",
        ),
        (
            "it was sealed ",
            "set the clock of the sender's node, or that of the agent's, then send it again; as it is it is taken when it says",
        ),
        (
            "the box cannot be opened",
            "does the agent's node still have the key that it was sealed for (`anycast id` there), and the sender's its own? Send it \
             again; if it is refused again, something on the way changes it",
        ),
        (
            "this node makes and opens no boxes",
            "the agent's node opens no boxes: send it in the clear, or by another way",
        ),
    ];
    let fits = cases.iter().find(|(start, _)| why.starts_with(start));
    Some(fits.map_or(
        "what is in the box, or beside it, is not as the sender's node made it: send it again; if it is refused again, something \
         on the way changes it, or the two nodes' versions do not fit",
        |(_, advice)| advice,
    ))
}
