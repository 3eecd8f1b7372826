//! What a device says about itself when it registers.

use serde::{Deserialize, Serialize};

use super::{JsonObject, command::null_is_default};

/// The version of the schema of [`SystemInfo`].
pub(crate) const SCHEMA_VERSION: &str = "1.0";

/// What a device is. A field that a device leaves out is empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemInfo {
    /// The device's id.
    #[serde(deserialize_with = "null_is_default")]
    pub device_id: String,
    /// Its platform, such as `linux`.
    #[serde(deserialize_with = "null_is_default")]
    pub platform: String,
    /// Its operating system's version.
    #[serde(deserialize_with = "null_is_default")]
    pub os_version: String,
    /// Its processors.
    #[serde(deserialize_with = "null_is_default")]
    pub cpu_count: u32,
    /// Its memory, in GB.
    #[serde(deserialize_with = "null_is_default")]
    pub memory_total_gb: f64,
    /// Its host name.
    #[serde(deserialize_with = "null_is_default")]
    pub hostname: String,
    /// Its address.
    #[serde(deserialize_with = "null_is_default")]
    pub ip_address: String,
    /// What it supports, such as `gui`.
    #[serde(deserialize_with = "null_is_default")]
    pub supported_features: Vec<String>,
    /// What kind of machine it is, such as `computer`.
    #[serde(deserialize_with = "null_is_default")]
    pub platform_type: String,
    /// The version of this schema.
    #[serde(deserialize_with = "null_is_default")]
    pub schema_version: String,
    /// More, as its owner wants.
    #[serde(deserialize_with = "null_is_default")]
    pub custom_metadata: JsonObject,
}

impl SystemInfo {
    /// What this machine is, as far as Rust's standard library says.
    pub fn of_this_machine(device_id: &str) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            device_id: device_id.to_owned(),
            platform: std::env::consts::OS.to_owned(),
            os_version: version.trim().to_owned(),
            cpu_count: cpus,
            memory_total_gb: memory_gb(),
            hostname: hostname.trim().to_owned(),
            supported_features: vec!["cli".to_owned()],
            platform_type: "computer".to_owned(),
            schema_version: SCHEMA_VERSION.to_owned(),
            ..Self::default()
        }
    }
}

/// The memory of this machine in GB, with two digits; 0 where it is not known.
fn memory_gb() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(0.0, |kib| (kib as f64 / 1024.0 / 1024.0 * 100.0).round() / 100.0)
}

/// The metadata of a device's registration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegistrationMetadata {
    /// What the device is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_info: Option<SystemInfo>,
    /// When it registered, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_time: Option<String>,
    /// Its platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
}
