//! Why a call to an agent outside failed, of errors that A2A has. PURE.

pub(crate) use agentanycast_egress::error::{EXCERPT, Kind, OutboundError, excerpt};

/// Of an error of A2A: the code of JSON-RPC, or the word that REST and gRPC say.
pub(crate) fn from_a2a(code: i64, word: &str, said: &str) -> OutboundError {
    let kind = match (code, word) {
        (-32001, _) | (_, "TASK_NOT_FOUND") => Kind::TaskGone,
        (-32004 | -32601, _) | (_, "UNSUPPORTED_OPERATION" | "METHOD_NOT_FOUND" | "UNIMPLEMENTED") => {
            Kind::Unsupported
        }
        (_, "UNAVAILABLE" | "RESOURCE_EXHAUSTED") => Kind::Busy,
        (_, "UNAUTHENTICATED" | "PERMISSION_DENIED") => Kind::Unauthorized,
        // It failed at it.
        (-32603, _) | (_, "INTERNAL" | "DATA_LOSS") => Kind::Final,
        _ => Kind::Refused,
    };
    let named = if word.is_empty() {
        code.to_string()
    } else {
        word.to_owned()
    };
    let said = if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    };
    OutboundError::new(kind, format!("it answered {named}{}{said}", kind.hint()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_kind() {
        assert_eq!(from_a2a(-32602, "", "no").kind(), Kind::Refused);
        assert_eq!(from_a2a(0, "INTERNAL", "").kind(), Kind::Final);
        assert_eq!(from_a2a(-32001, "", "gone").kind(), Kind::TaskGone);
        assert_eq!(from_a2a(0, "UNSUPPORTED_OPERATION", "").kind(), Kind::Unsupported);
        assert_eq!(
            from_a2a(-32603, "", "oh\nno").to_string(),
            "it answered -32603: oh no"
        );
    }
}
