#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agentanycast_relay::fuzz::registry(data));
