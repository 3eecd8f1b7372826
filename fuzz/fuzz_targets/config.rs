#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    agentanycast_node::load_config::know(&anycast::COMPOSITION);
    agentanycast_node::fuzz::config(data);
});
