//! `anycast id`: who this node is.

use serde_json::json;

use crate::{
    context::Context,
    did,
    failure::{Code, Failure},
    output,
};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let unnamed = || Failure::new(Code::General, "Protocol", "the daemon did not say who it is");
    let peer = context
        .connect()
        .await?
        .info()
        .await?
        .peer_id
        .ok_or_else(unnamed)?;
    let did = did::from_peer(&peer).unwrap_or_default();
    if context.json {
        return Ok(output::json(&json!({"peer_id": peer.as_str(), "did_key": did}))?);
    }
    Ok(output::fields(&[("peer id", peer.to_string()), ("did", did)])?)
}
