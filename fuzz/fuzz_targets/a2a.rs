#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agentanycast_a2a::fuzz::a2a(data));
