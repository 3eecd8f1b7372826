complete -c agentanycast-relay -l config -d 'Configuration in TOML, or AGENTANYCAST_RELAY_CONFIG in the environment' -r
complete -c agentanycast-relay -l listen -d 'Multiaddrs to listen on, comma list; QUIC is added on the same port number [default: ["/ip4/0.0.0.0/tcp/4001", "/ip6/::/tcp/4001"]]' -r
complete -c agentanycast-relay -l announce -d 'Multiaddrs that peers are told instead, comma list' -r
complete -c agentanycast-relay -l key -d 'The relay\'s key, made if it is missing; without it a new identity at each start' -r
complete -c agentanycast-relay -l max-reservations -d 'Most reservations at once [default: 128]' -r
complete -c agentanycast-relay -l max-reservations-per-ip -d 'Most reservations of one address at once; half of all unless set [default: 64]' -r
complete -c agentanycast-relay -l max-circuits -d 'Most circuits at once [default: 1024]' -r
complete -c agentanycast-relay -l max-circuits-per-peer -d 'Most circuits of one peer at once [default: 16]' -r
complete -c agentanycast-relay -l max-circuits-per-ip -d 'Most circuits that one address has asked for at once; a quarter of all unless set [default: 256]' -r
complete -c agentanycast-relay -l circuit-duration -d 'Longest life of a circuit [default: "1h"]' -r
complete -c agentanycast-relay -l circuit-bytes -d 'Most bytes that a circuit carries, both ways together [default: "1GiB"]' -r
complete -c agentanycast-relay -l reservations-per-ip -d 'Reservations of one address in an hour [default: 256]' -r
complete -c agentanycast-relay -l circuits-per-ip -d 'Circuits of one address in an hour [default: 1024]' -r
complete -c agentanycast-relay -l max-connections -d 'Most connections of peers at once [default: 16384]' -r
complete -c agentanycast-relay -l connections-per-ip -d 'Most connections of one address at once [default: 1024]' -r
complete -c agentanycast-relay -l registry-listen -d 'Where the registry is, HOST:PORT or :PORT [default: ":50052"]' -r
complete -c agentanycast-relay -l announce-registry -d 'Registry that nodes are told, HOST:PORT or https://HOST:PORT; its port unless set' -r
complete -c agentanycast-relay -l registry-ttl -d 'How long a registration lives without a heartbeat [default: "30s"]' -r
complete -c agentanycast-relay -l registry-auth -d 'open, or signed to take only what the peer has signed [default: "open"]' -r
complete -c agentanycast-relay -l registry-entries -d 'Most entries that are registered here [default: 65536]' -r
complete -c agentanycast-relay -l federated-entries -d 'Most entries of other relays [default: 65536]' -r
complete -c agentanycast-relay -l entries-per-ip -d 'Most entries of one address without signature, and as many with [default: 1024]' -r
complete -c agentanycast-relay -l entry-bytes-per-ip -d 'Most bytes of those [default: "8MiB"]' -r
complete -c agentanycast-relay -l requests-per-ip -d 'Requests a second of one address, 0 for any [default: 1000]' -r
complete -c agentanycast-relay -l store -d 'Directory that keeps the registry over a restart' -r
complete -c agentanycast-relay -l federation-peers -d 'Registries of other relays, HOST:PORT, comma list' -r
complete -c agentanycast-relay -l federation-sync-interval -d 'How often they are asked what is new [default: "10s"]' -r
complete -c agentanycast-relay -l metrics-listen -d 'Where health and metrics are; empty for nowhere [default: ":9090"]' -r
complete -c agentanycast-relay -l api-listen -d 'Where the directory and the dashboard are; empty for nowhere [default: ":8081"]' -r
complete -c agentanycast-relay -l api-cors-origins -d 'Origins that browsers may call the directory from, comma list' -r
complete -c agentanycast-relay -l mcp-listen -d 'Where the directory is served as tools of MCP, at /mcp; empty for nowhere' -r
complete -c agentanycast-relay -l otlp-endpoint -d 'Send traces of calls to an OpenTelemetry collector, HOST:PORT or http(s)://HOST:PORT' -r
complete -c agentanycast-relay -l otlp-sample-rate -d 'Of the traces that begin here, the share that is sent, 0 to 1 [default: 1.0]' -r
complete -c agentanycast-relay -l enable-webtransport -d 'Not available' -r
complete -c agentanycast-relay -l log-level -d 'error, warn, info, debug or trace [default: "info"]' -r
complete -c agentanycast-relay -l log-format -d 'json or text [default: "json"]' -r
complete -c agentanycast-relay -l print-config -d 'Print every setting with its source, and end'
complete -c agentanycast-relay -s h -l help -d 'Print help'
complete -c agentanycast-relay -s V -l version -d 'Print version'
