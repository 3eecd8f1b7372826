#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agentanycast_bridge::fuzz::a2a_answer(data));
