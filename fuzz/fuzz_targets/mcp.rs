#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agentanycast_mcp::fuzz::mcp(data));
