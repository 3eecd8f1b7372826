//! The tools that a server lists: what is good is kept, what is not has a reason. PURE.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{failure::McpFailure, param_headers};

/// Most tools of a server, which is what a card may have.
pub const MOST_TOOLS: usize = 1000;

/// Most pages that list them.
pub(crate) const MOST_PAGES: usize = 100;

/// Most bytes of all pages.
pub(crate) const MOST_BYTES: usize = 32 << 20;

/// Longest name of a tool, in bytes, and most bytes of one tool.
const MOST_NAME: usize = 256;
const MOST_TOOL: usize = 1 << 20;

/// Most faults that are known as said.
const MOST_TOLD: usize = 1000;

/// Most reasons of one list.
const MOST_REASONS: usize = 50;

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// The schema of its arguments. A tool that has none takes any object.
    pub input_schema: Map<String, Value>,
    /// The schema of its structured result.
    pub output_schema: Option<Map<String, Value>>,
    /// Hints, as the server gives them.
    pub annotations: Option<Value>,
    /// Metadata, as the server gives it.
    pub meta: Option<Value>,
}

/// The tools of a server, as it lists them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolList {
    /// What is good.
    pub tools: Vec<Tool>,
    /// What is not, and why, for people.
    pub faults: Vec<String>,
    /// A page is missing: the server did not answer it, or refused it.
    pub is_cut: bool,
    /// What the faults are known by from list to list.
    fault_keys: Vec<String>,
    names: BTreeSet<String>,
    cursors: BTreeSet<String>,
    bytes: usize,
    pages: usize,
}

impl ToolList {
    /// Takes a page; the cursor of the next one. `is_http`: parameters may become headers.
    pub(crate) fn take(&mut self, page: Value, is_http: bool) -> Option<String> {
        self.pages += 1;
        let Value::Object(mut page) = page else {
            let fault = "a page of its tools is no object";
            self.fault_with(fault, &shown(&page));
            return None;
        };
        match page.remove("tools") {
            Some(Value::Array(tools)) => {
                for tool in tools {
                    if self.tools.len() == MOST_TOOLS {
                        self.fault(format!(
                            "it has more than {MOST_TOOLS} tools; the rest is left out"
                        ));
                        return None;
                    }
                    self.take_tool(tool, is_http);
                }
            }
            Some(other) => self.fault_with("its tools are no list", &shown(&other)),
            None => self.fault("a page of its tools has no list of tools".to_owned()),
        }
        let cursor = match page.remove("nextCursor") {
            None | Some(Value::Null) => return None,
            Some(Value::String(cursor)) if cursor.is_empty() => return None,
            Some(Value::String(cursor)) => cursor,
            Some(other) => {
                self.fault_with("the cursor of its next page is no text", &shown(&other));
                return None;
            }
        };
        if self.cursors.contains(&cursor) {
            self.fault("a cursor of its list of tools comes twice; the list ends there".to_owned());
            return None;
        }
        if self.pages == MOST_PAGES || self.bytes > MOST_BYTES {
            self.fault(format!(
                "its list of tools has more than {MOST_PAGES} pages or {MOST_BYTES} bytes; the rest is left out"
            ));
            return None;
        }
        self.cursors.insert(cursor.clone());
        Some(cursor)
    }

    fn take_tool(&mut self, tool: Value, is_http: bool) {
        let length = tool.to_string().len();
        self.bytes += length;
        let Value::Object(mut object) = tool else {
            return self.fault(format!("a tool is no object and is left out: {}", shown(&tool)));
        };
        let name = match object.remove("name") {
            Some(Value::String(name)) if !name.trim().is_empty() && name.len() <= MOST_NAME => name,
            other => {
                let name = shown(&other.unwrap_or_default());
                return self.fault(format!(
                    "a tool has no name of 1 to {MOST_NAME} bytes and is left out: {name}"
                ));
            }
        };
        if length > MOST_TOOL {
            return self.fault(format!(
                "the tool {name} has more than {MOST_TOOL} bytes and is left out"
            ));
        }
        if self.names.contains(&name) {
            return self.fault(format!("the tool {name} is listed twice; the first one counts"));
        }
        let input_schema = match object.remove("inputSchema") {
            Some(Value::Object(schema)) => schema,
            other => {
                let schema = shown(&other.unwrap_or_default());
                self.fault(format!(
                    "the tool {name} has no input schema ({schema}); it is called with any object"
                ));
                Map::from_iter([("type".to_owned(), "object".into())])
            }
        };
        if is_http && let Err(reason) = param_headers::check(&input_schema) {
            return self.fault(format!("the tool {name} is left out: {reason}"));
        }
        let output_schema = match object.remove("outputSchema") {
            None | Some(Value::Null) => None,
            Some(Value::Object(schema)) => Some(schema),
            Some(other) => {
                self.fault(format!(
                    "the output schema of the tool {name} is no object: {}",
                    shown(&other)
                ));
                None
            }
        };
        let mut text = |key: &str| match object.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (title, description) = (text("title"), text("description"));
        self.names.insert(name.clone());
        self.tools.push(Tool {
            title,
            description,
            input_schema,
            output_schema,
            annotations: object.remove("annotations").filter(Value::is_object),
            meta: object.remove("_meta").filter(Value::is_object),
            name,
        });
    }

    fn fault(&mut self, fault: String) {
        self.known_fault(fault.clone(), fault);
    }

    /// A fault with words of the server, which may be others in each list.
    fn fault_with(&mut self, fault: &str, words: &str) {
        self.known_fault(fault.to_owned(), format!("{fault}: {words}"));
    }

    fn known_fault(&mut self, key: String, fault: String) {
        if self.faults.len() < MOST_REASONS {
            self.fault_keys.push(key);
            self.faults.push(fault);
        }
    }

    /// The server has no method that lists tools.
    pub(crate) fn no_tools(&mut self, failure: &McpFailure) {
        self.fault_with("it has no tools", &failure.to_string());
    }

    /// A page does not come, for this reason. It is known by its kind: its words may name the request.
    pub(crate) fn missing_page(&mut self, failure: &McpFailure) {
        self.is_cut = true;
        let fault = "a further page of its tools is missing";
        let key = format!("{fault}: {:?} {:?}", failure.kind(), failure.code());
        self.known_fault(key, format!("{fault}: {failure}"));
    }
}

/// The faults of the lists of a server that were said, each until a list is without it.
#[derive(Debug, Default)]
pub(crate) struct ToldFaults(BTreeSet<String>);

impl ToldFaults {
    /// The faults of its newest list that are to be said.
    pub(crate) fn untold<'a>(&mut self, list: &'a ToolList) -> Vec<&'a str> {
        if !list.is_cut {
            // What a missing page holds is not known to be right.
            self.0.retain(|key| list.fault_keys.contains(key));
        }
        let mut untold = Vec::new();
        for (key, fault) in list.fault_keys.iter().zip(&list.faults) {
            if self.0.len() < MOST_TOLD && self.0.insert(key.clone()) {
                untold.push(fault.as_str());
            }
        }
        untold
    }
}

fn shown(value: &Value) -> String {
    agentanycast_readers::excerpt::excerpt(value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(list: &ToolList) -> Vec<&str> {
        list.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn what_is_good_is_kept_and_the_rest_is_named() {
        let mut list = ToolList::default();
        let next = list.take(
            json!({"tools": [
                {"name": "good", "inputSchema": {"type": "object"}, "description": "does", "title": 7},
                {"name": "bare"},
                {"name": "odd", "inputSchema": [], "outputSchema": "x"},
                {"inputSchema": {}}, "text", null, {"name": ""}, {"name": "n".repeat(300)},
                {"name": "good", "inputSchema": {}},
                {"name": "huge", "inputSchema": {"x": "y".repeat(MOST_TOOL)}},
            ], "nextCursor": 5}),
            false,
        );
        assert_eq!((next, names(&list)), (None, vec!["good", "bare", "odd"]));
        assert_eq!(
            list.tools[1].input_schema,
            *json!({"type": "object"}).as_object().unwrap()
        );
        assert_eq!(
            (list.tools[0].title.as_ref(), list.tools[2].output_schema.as_ref()),
            (None, None)
        );
        let faults = list.faults.join("\n");
        for fault in [
            "the tool bare has no input schema",
            "listed twice",
            "tool huge",
            "cursor",
            "text",
        ] {
            assert!(faults.contains(fault), "{fault}: {faults}");
        }
        for odd in [json!("x"), json!({}), json!({"tools": {}})] {
            let mut list = ToolList::default();
            assert_eq!((list.take(odd, false), list.faults.len()), (None, 1));
        }
    }

    #[test]
    fn cursors_that_do_not_advance_end_the_list() {
        let page = || json!({"tools": [{"name": "a", "inputSchema": {}}], "nextCursor": "same"});
        let mut list = ToolList::default();
        assert_eq!(list.take(page(), false).as_deref(), Some("same"));
        assert_eq!(list.take(page(), false), None);
        assert_eq!(names(&list), ["a"]);
        assert!(list.faults.iter().any(|fault| fault.contains("comes twice")));
    }

    #[test]
    fn a_list_is_bounded_in_tools_pages_and_bytes() {
        let mut list = ToolList::default();
        let many: Vec<_> = (0..=MOST_TOOLS)
            .map(|n| json!({"name": format!("t{n}"), "inputSchema": {}}))
            .collect();
        assert_eq!(list.take(json!({"tools": many, "nextCursor": "x"}), false), None);
        assert_eq!(list.tools.len(), MOST_TOOLS);
        let mut list = ToolList::default();
        let pages = (0..).take_while(|n| {
            list.take(json!({"tools": [], "nextCursor": n.to_string()}), false)
                .is_some()
        });
        assert_eq!(pages.count(), MOST_PAGES - 1);
        let mut list = ToolList::default();
        let pages = (0..).take_while(|n| {
            let large = json!({"name": format!("t{n}"), "inputSchema": {"x": "y".repeat(MOST_TOOL / 2)}});
            list.take(json!({"tools": [large], "nextCursor": n.to_string()}), false)
                .is_some()
        });
        assert!(pages.count() < 70);
    }

    #[test]
    fn a_fault_is_said_once_until_it_is_right_again() {
        let list = |page: serde_json::Value, missing: Option<McpFailure>| {
            let mut list = ToolList::default();
            list.take(page, false);
            if let Some(failure) = missing {
                list.missing_page(&failure);
            }
            list
        };
        let bad = |id: u64| McpFailure::unreadable(format!(r#"a line cannot be read: {{"id":{id}}}"#));
        let tools = || json!({"tools": [{"name": "a"}]});
        let good = || json!({"tools": [{"name": "a", "inputSchema": {}}]});
        let mut told = ToldFaults::default();
        let mut said = |list: &ToolList| told.untold(list).len();
        assert_eq!(said(&list(tools(), Some(bad(3)))), 2);
        assert_eq!(said(&list(tools(), Some(bad(5)))), 0);
        assert_eq!(said(&list(good(), Some(bad(7)))), 0);
        // Another fault of the same page.
        assert_eq!(said(&list(tools(), Some(McpFailure::refused(-1, "no")))), 1);
        assert_eq!(said(&list(tools(), None)), 0);
        assert_eq!(said(&list(tools(), Some(bad(9)))), 1);
        assert_eq!(said(&list(good(), None)), 0);
        assert_eq!(said(&list(tools(), None)), 1);
        let cursor = |cursor: u64| json!({"tools": [], "nextCursor": cursor});
        assert_eq!(said(&list(cursor(1), None)), 1);
        assert_eq!(said(&list(cursor(2), None)), 0);
    }
}
