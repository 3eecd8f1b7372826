//! Examples of the commands about the agents of this node, and who may use them.

use super::CommandExamples;

pub(super) const EXAMPLES: &[CommandExamples] = &[
    (
        "agents set",
        [
            (
                "anycast agents set translator --private",
                "only this node, and peers that are let in",
            ),
            (
                "anycast agents set translator --open",
                "every peer that the policy lets in",
            ),
        ],
    ),
    (
        "trust",
        [
            ("anycast trust bob", "bob's node may use every agent here"),
            (
                "anycast trust bob --agent translator --skill translate",
                "one agent alone, for one skill",
            ),
        ],
    ),
    (
        "trust ls",
        [
            ("anycast trust ls", "which peers may use private agents here"),
            ("anycast trust ls --full", "with whole ids"),
        ],
    ),
    (
        "untrust",
        [
            (
                "anycast untrust bob",
                "take back all that bob's node was trusted with",
            ),
            (
                "anycast untrust bob --agent translator",
                "only the trust for this agent",
            ),
        ],
    ),
    (
        "requests",
        [
            ("anycast requests", "who was refused, and may be let in"),
            ("anycast --json requests", "with the id of each request, as JSON"),
        ],
    ),
    (
        "agents",
        [
            ("anycast agents", "everybody who is known, and what each can do"),
            (
                "anycast agents --skill translate --local",
                "who can translate here and nearby",
            ),
        ],
    ),
    (
        "agents rm",
        [
            (
                "anycast agents rm translator",
                "an agent of this node that is gone for good",
            ),
            (
                "anycast --json agents rm translator",
                "how many tasks failed by it, as JSON",
            ),
        ],
    ),
    (
        "invite",
        [
            ("anycast invite", "a string that lets one peer in, within a day"),
            (
                "anycast invite --skill translate --uses 5 --expires 1h",
                "five peers, for one skill",
            ),
        ],
    ),
    (
        "invite ls",
        [
            ("anycast invite ls", "what was given out, and who has accepted it"),
            ("anycast invite ls --full", "with whole ids"),
        ],
    ),
    (
        "invite revoke",
        [
            ("anycast invite revoke team", "take back what has this label"),
            ("anycast invite revoke team guests", "several at once"),
        ],
    ),
    (
        "join",
        [
            (
                "anycast join banycastbexample",
                "know the node that gave out this string",
            ),
            (
                "anycast join banycastbexample --as bob",
                "under a name of its own",
            ),
        ],
    ),
];
