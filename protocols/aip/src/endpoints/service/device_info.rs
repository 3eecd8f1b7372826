//! What a device is: asked for, or as it said last.

use serde_json::Value;
use tokio::time::timeout;

use super::{DeviceService, entry::ClientEntry};
use crate::{
    messages::{ClientMessage, ClientRole, MessageStatus, ServerMessage, ServerMessageType, timestamp_now},
    protocol::is_wire_id,
};

impl DeviceService {
    /// What a device of this service is. It is asked unless it said so lately; a device that does not answer is what
    /// it said last.
    pub async fn device_info(&self, device_id: &str) -> Option<Value> {
        let entry = self.0.registry.device(device_id)?;
        {
            let cached = entry.info();
            let fresh = cached.at.elapsed() < self.0.settings.device_info_fresh;
            if cached.never_answers || (fresh && cached.info.is_some()) {
                return cached.info.clone();
            }
        }
        self.ask(&entry).await
    }

    async fn ask(&self, entry: &ClientEntry) -> Option<Value> {
        let response_id = uuid::Uuid::new_v4().to_string();
        let message = ServerMessage {
            response_id: Some(response_id.clone()),
            timestamp: Some(timestamp_now()),
            ..ServerMessage::new(ServerMessageType::DeviceInfoRequest, MessageStatus::Ok)
        };
        if let Ok(mut reply) = entry.infos.open(&response_id) {
            let answered = async {
                entry.outbox.send(message).await.ok()?;
                reply.wait().await
            };
            match timeout(self.0.settings.device_info_wait, answered).await {
                Ok(Some(info)) => return Some(info),
                Ok(None) => {}
                Err(_) => entry.info().never_answers = true,
            }
        }
        entry.info().info.clone()
    }

    /// A DEVICE_INFO_REQUEST of a client. The answer, or the text of a refusal.
    pub(super) async fn answer_info_request(
        &self,
        entry: &ClientEntry,
        message: &ClientMessage,
    ) -> Result<ServerMessage, String> {
        if entry.registration.role != ClientRole::Constellation {
            return Err("DEVICE_INFO_REQUEST is permitted only for constellation clients".to_owned());
        }
        let ids = [&message.target_id, &message.request_id];
        if ids
            .into_iter()
            .flatten()
            .any(|id| !id.is_empty() && !is_wire_id(id))
        {
            return Err(
                "target_id and request_id have to have at most 256 bytes and no control characters"
                    .to_owned(),
            );
        }
        let declared = entry.registration.target_id.as_deref();
        let target = message
            .target_id
            .as_deref()
            .filter(|id| !id.is_empty())
            .or(declared);
        let target = target.ok_or("DEVICE_INFO_REQUEST requires target_id")?;
        if declared.is_some_and(|declared| declared != target) {
            return Err("Not authorized to request device info for this device".to_owned());
        }
        let may_use = self.0.hooks.may_use(target, entry.caller.as_ref()).await;
        let info = match self.device_info(target).await.filter(|_| may_use) {
            Some(info) => Some(info),
            None if may_use => self.0.hooks.target_info(target).await,
            None => None,
        };
        let known = info.is_some() || may_use && self.0.registry.device(target).is_some();
        if !known {
            return Err(format!("Target device '{target}' is not connected"));
        }
        Ok(ServerMessage {
            result: Some(info.unwrap_or_else(|| Value::Object(serde_json::Map::new()))),
            response_id: message.request_id.clone(),
            timestamp: Some(timestamp_now()),
            ..ServerMessage::new(ServerMessageType::DeviceInfoResponse, MessageStatus::Ok)
        })
    }

    /// A DEVICE_INFO_RESPONSE of a device.
    pub(super) fn take_info(entry: &ClientEntry, message: &ClientMessage) -> Result<(), String> {
        if !entry.is_device() {
            return Err("DEVICE_INFO_RESPONSE is permitted only for device clients".to_owned());
        }
        let metadata = message.metadata.clone().unwrap_or_default();
        let info = match metadata.get("system_info") {
            Some(info) => info.clone(),
            None => Value::Object(metadata),
        };
        {
            let mut cached = entry.info();
            cached.info = Some(info.clone());
            cached.at = tokio::time::Instant::now();
            cached.never_answers = false;
        }
        // Unasked, it is a push of telemetry.
        let asked = message.prev_response_id.as_ref().or(message.request_id.as_ref());
        if let Some(id) = asked {
            entry.infos.resolve(id, info);
        }
        Ok(())
    }
}
