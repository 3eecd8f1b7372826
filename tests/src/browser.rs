//! A real browser without a window: Chromium, driven over its DevTools protocol. Where it is missing a test says so
//! and is skipped, or fails if `AGENTANYCAST_REQUIRE_LAB=1`.
//!
//! One browser has one page. The one rule: what goes wrong in the page is kept, and [`Browser::complaints`] tells it.

mod pipe;

use std::{path::Path, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::wait;
use pipe::Pipe;

/// How often a page is asked whether a condition holds.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A browser with one page; dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    pipe: Pipe,
    session: String,
    complaints: Vec<String>,
}

/// A size of the window, in CSS pixels.
#[derive(Clone, Copy, Debug)]
pub struct Viewport {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
    /// Whether it is touched, and a page is fitted to it as on a phone.
    pub phone: bool,
}

impl Viewport {
    /// A usual desktop.
    pub const DESKTOP: Self = Self {
        width: 1280,
        height: 900,
        phone: false,
    };
    /// A small phone, held upright.
    pub const PHONE: Self = Self {
        width: 360,
        height: 740,
        phone: true,
    };
}

/// A part of a page as a screen reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessibleNode {
    /// What it is, as `button` or `main`.
    pub role: String,
    /// What it is called.
    pub name: String,
}

impl Browser {
    /// A new one; none, after saying so, where there is no Chromium.
    ///
    /// # Panics
    /// When there is none and `AGENTANYCAST_REQUIRE_LAB=1`, or it does not start.
    pub async fn open() -> Option<Self> {
        let Some(program) = pipe::program() else {
            wait::skip_unless_required("no chromium is installed (Debian: apt-get install chromium)");
            return None;
        };
        let mut pipe = Pipe::open(&program);
        let target = pipe
            .call(None, "Target.createTarget", &json!({ "url": "about:blank" }))
            .await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = pipe.call(None, "Target.attachToTarget", &attach).await;
        let mut browser = Self {
            pipe,
            session: session["sessionId"].as_str().expect("a session").to_owned(),
            complaints: Vec::new(),
        };
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser.set_viewport(Viewport::DESKTOP).await;
        Some(browser)
    }

    /// Opens a page and waits until it has been loaded.
    pub async fn goto(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({ "url": url })).await;
        assert_eq!(answer["errorText"], Value::Null, "{url}");
        self.eventually(
            "the page has been loaded",
            &format!("document.readyState === 'complete' && location.href.startsWith('{url}')"),
        )
        .await;
    }

    /// The value of an expression in the page; a promise is awaited.
    ///
    /// # Panics
    /// When it throws.
    pub async fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked).await;
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression in the page is true.
    ///
    /// # Panics
    /// When it is not in time.
    pub async fn eventually(&mut self, what: &str, expression: &str) {
        let holds = async {
            while self.eval(expression).await != true {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        wait::within(what, holds).await;
    }

    /// Sets the size of the window.
    pub async fn set_viewport(&mut self, screen: Viewport) {
        let metrics = json!({
            "width": screen.width, "height": screen.height, "mobile": screen.phone,
            "deviceScaleFactor": if screen.phone { 2 } else { 1 },
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Whether the page shall be dark.
    pub async fn dark(&mut self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media).await;
    }

    /// Presses and releases a key, named as the web does: `Tab`, `Enter`.
    pub async fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "/" => (191, "/"),
            other => panic!("no code of the key {other} is known here"),
        };
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", down).await;
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", up).await;
    }

    /// Types a text where the focus is.
    pub async fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Everything that a screen reader is told of, in the order of the page.
    pub async fn accessibility_tree(&mut self) -> Vec<AccessibleNode> {
        let tree = self.call("Accessibility.getFullAXTree", json!({})).await;
        let nodes = tree["nodes"].as_array().expect("nodes").iter();
        let seen = nodes.filter(|node| node["ignored"] != true);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        seen.map(|node| AccessibleNode {
            role: text(&node["role"]),
            name: text(&node["name"]),
        })
        .collect()
    }

    /// Writes what the window shows into a PNG file.
    pub async fn screenshot(&mut self, file: &Path) {
        let shot = self
            .call("Page.captureScreenshot", json!({ "format": "png" }))
            .await;
        let bytes = BASE64_STANDARD.decode(shot["data"].as_str().expect("a picture"));
        std::fs::write(file, bytes.expect("base64"))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// What went wrong in the page so far: exceptions, errors and warnings of the console, failed requests, and
    /// requests that left for another host than `host`.
    pub async fn complaints(&mut self, host: &str) -> Vec<String> {
        // Whatever was said before this is answered has been read by then.
        self.eval("0").await;
        let mut all = std::mem::take(&mut self.complaints);
        all.retain(|complaint| !complaint.starts_with(&format!("requested http://{host}/")));
        all
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.pipe.call(Some(&self.session), method, &params).await;
        let events = self.pipe.events();
        self.complaints.extend(events.iter().filter_map(complaint));
        answer
    }
}

/// What an event of the browser says that a test may want to fail for.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(format!("exception {}", params["exceptionDetails"])),
        "Runtime.consoleAPICalled"
            if ["error", "warning", "assert"]
                .iter()
                .any(|kind| params["type"] == *kind) =>
        {
            Some(format!("console {}", params["args"]))
        }
        "Log.entryAdded" if params["entry"]["level"] == "error" || params["entry"]["level"] == "warning" => {
            Some(format!("log {}", params["entry"]))
        }
        "Network.requestWillBeSent" => {
            let url = params["request"]["url"].as_str().unwrap_or_default();
            (!url.starts_with("data:")).then(|| format!("requested {url}"))
        }
        _ => None,
    }
}
