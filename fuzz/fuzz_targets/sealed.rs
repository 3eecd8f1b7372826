#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agentanycast_node::fuzz::sealed(data));
