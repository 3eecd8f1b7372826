complete -c agentanycastd -l config -d 'Configuration in TOML, or AGENTANYCAST_CONFIG in the environment [default: "~/.agentanycast/config.toml", if it is there]' -r
complete -c agentanycastd -l key -d 'The node\'s key; made if it is missing [default: "~/.agentanycast/key"]' -r
complete -c agentanycastd -l listen -d 'Multiaddrs to listen on, comma list [default: ["/ip4/0.0.0.0/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1", "/ip6/::/tcp/0", "/ip6/::/udp/0/quic-v1"]]' -r
complete -c agentanycastd -l grpc-listen -d 'Where agents connect: unix://PATH or tcp://HOST:PORT [default: "unix://~/.agentanycast/daemon.sock"]' -r
complete -c agentanycastd -l grpc-token-file -d 'Callers must send this file\'s content as Bearer token' -r
complete -c agentanycastd -l grpc-tls-cert -d 'Certificate chain (PEM) of a tcp:// gRPC address' -r
complete -c agentanycastd -l grpc-tls-key -d 'Private key (PEM) of --grpc-tls-cert' -r
complete -c agentanycastd -l grpc-allow-remote -d 'Listen beyond loopback without token and TLS' -r
complete -c agentanycastd -l bootstrap-peers -d 'Multiaddrs of peers to keep connected to, comma list' -r
complete -c agentanycastd -l wss-ca-file -d 'Certificate authorities (PEM) of wss addresses, besides those of the web' -r
complete -c agentanycastd -l enable-webtransport -d 'Not available' -r
complete -c agentanycastd -l store-path -d 'Directory of tasks, cards and artifacts [default: "~/.agentanycast/data"]' -r
complete -c agentanycastd -l log-level -d 'error, warn, info, debug or trace [default: "info"]' -r
complete -c agentanycastd -l log-file -d 'Write the log to this file instead of standard error, at most 64 MiB with the files before it' -r
complete -c agentanycastd -l transport -d 'auto or libp2p [default: "auto"]' -r
complete -c agentanycastd -l namespace -d 'default [default: "default"]' -r
complete -c agentanycastd -l agent-sockets -d 'Give agents sockets of their own, each a Unix socket or a loopback address' -r
complete -c agentanycastd -l metrics-listen -d 'Show metrics, health and readiness over HTTP at HOST:PORT [default: "127.0.0.1:9464"]' -r
complete -c agentanycastd -l mcp-listen -d 'Turn on MCP over HTTP at HOST:PORT; who may call is as for the bridge' -r
complete -c agentanycastd -l mcp -d 'Serve MCP on standard input and output too; the start-up lines go to standard error, and the end of the input ends the daemon' -r
complete -c agentanycastd -l mcp-proxy -d 'Make an agent, mcp-proxy, of the MCP server of this command, whose words are quoted as for a shell' -r
complete -c agentanycastd -l open -d 'Let every peer use the agent of --mcp-proxy' -r
complete -c agentanycastd -l anp-listen -d 'Turn on the ANP bridge at HOST:PORT (not available yet)' -r
complete -c agentanycastd -l did-web -d 'The did:web of this node, whose document its bridge has' -r
complete -c agentanycastd -l did-dns -d 'The domain whose TXT records name this node\'s key (did:dns)' -r
complete -c agentanycastd -l otlp-endpoint -d 'Send traces to an OpenTelemetry collector, HOST:PORT or http(s)://HOST:PORT' -r
complete -c agentanycastd -l nats-broker -d 'Turn on the NATS transport (not available yet)' -r
complete -c agentanycastd -l bridge-listen -d 'Where HTTP clients of A2A connect, HOST:PORT [default: "127.0.0.1:8090"]' -r
complete -c agentanycastd -l bridge-allow-remote -d 'Listen for them beyond loopback without TLS, or with callers that need not say who they are' -r
complete -c agentanycastd -l bridge-tls-cert -d 'The certificate of TLS, PEM; read again when it changes' -r
complete -c agentanycastd -l bridge-tls-key -d 'Its key, PEM' -r
complete -c agentanycastd -l bridge-public-url -d 'How clients reach the bridge, as cards name it' -r
complete -c agentanycastd -l bridge-card -d 'dual for the fields of both versions, or 1.0 [default: "dual"]' -r
complete -c agentanycastd -l bridge-card-grpc -d 'How cards list gRPC: off, authority for HOST:PORT, or url [default: "off"]' -r
complete -c agentanycastd -l bridge-key -d 'The key that cards are signed with' -r
complete -c agentanycastd -l bridge-cors-origins -d 'Origins whose pages may call, comma list, * for any' -r
complete -c agentanycastd -l bridge-tokens-file -d 'Callers, one a line: a name and its Bearer token' -r
complete -c agentanycastd -l bridge-auth-issuer -d 'The issuer whose tokens are taken (OpenID Connect, OAuth 2.0)' -r
complete -c agentanycastd -l bridge-auth-jwks-url -d 'Where its keys are, unless it says so itself' -r
complete -c agentanycastd -l bridge-auth-audience -d 'Audiences of which a token has one, comma list' -r
complete -c agentanycastd -l bridge-auth-scopes -d 'Scopes that a token needs, comma list' -r
complete -c agentanycastd -l bridge-auth-leeway -d 'How much the issuer\'s clock may differ [default: "1m"]' -r
complete -c agentanycastd -l bridge-client-ca -d 'Who signs the certificates of callers (mutual TLS), PEM' -r
complete -c agentanycastd -l bridge-rate -d 'Requests a second of one caller, 0 for no limit [default: 1000]' -r
complete -c agentanycastd -l bridge-burst -d 'Requests of one caller at once beyond that rate [default: 2000]' -r
complete -c agentanycastd -l bridge-at-once -d 'Requests and streams of one caller that are open at a time [default: 512]' -r
complete -c agentanycastd -l bridge-connections-per-address -d 'Connections from one address [default: 1024]' -r
complete -c agentanycastd -l bridge-max-body -d 'Largest body of a request [default: "24MiB"]' -r
complete -c agentanycastd -l bridge-allow-private-webhooks -d 'Tell webhooks on private networks and on this host too' -r
complete -c agentanycastd -l bridge-webhook-patience -d 'How long a webhook may be out of reach before it is given up [default: "24h"]' -r
complete -c agentanycastd -l bridge-extended-card -d 'What the own agent\'s card says besides to callers with a token, JSON' -r
complete -c agentanycastd -l bridge-extensions -d 'Extensions of A2A that the agents understand, comma list' -r
complete -c agentanycastd -l bridge-required-extensions -d 'Those that clients must declare, comma list' -r
complete -c agentanycastd -l bridge-wait-limit -d 'How long an answer of A2A may wait for its task [default: "45s"]' -r
complete -c agentanycastd -l aip-listen -d 'Where its clients connect, HOST:PORT' -r
complete -c agentanycastd -l aip-allow-remote -d 'Listen for them beyond loopback without TLS, or with callers that need not say who they are' -r
complete -c agentanycastd -l aip-tls-cert -d 'The certificate of TLS, PEM; read again when it changes' -r
complete -c agentanycastd -l aip-tls-key -d 'Its key, PEM' -r
complete -c agentanycastd -l aip-public-url -d 'How its clients reach it' -r
complete -c agentanycastd -l aip-cors-origins -d 'Origins whose pages may call, comma list, * for any' -r
complete -c agentanycastd -l aip-tokens-file -d 'Callers, one a line: a name and its Bearer token' -r
complete -c agentanycastd -l aip-auth-issuer -d 'The issuer whose tokens are taken (OpenID Connect, OAuth 2.0)' -r
complete -c agentanycastd -l aip-auth-jwks-url -d 'Where its keys are, unless it says so itself' -r
complete -c agentanycastd -l aip-auth-audience -d 'Audiences of which a token has one, comma list' -r
complete -c agentanycastd -l aip-auth-scopes -d 'Scopes that a token needs, comma list' -r
complete -c agentanycastd -l aip-auth-leeway -d 'How much the issuer\'s clock may differ [default: "1m"]' -r
complete -c agentanycastd -l aip-client-ca -d 'Who signs the certificates of callers (mutual TLS), PEM' -r
complete -c agentanycastd -l aip-rate -d 'Requests a second of one caller, 0 for no limit [default: 1000]' -r
complete -c agentanycastd -l aip-burst -d 'Requests of one caller at once beyond that rate [default: 2000]' -r
complete -c agentanycastd -l aip-at-once -d 'Requests and streams of one caller that are open at a time [default: 512]' -r
complete -c agentanycastd -l aip-connections-per-address -d 'Connections from one address [default: 1024]' -r
complete -c agentanycastd -l aip-max-body -d 'Largest body of a request [default: "24MiB"]' -r
complete -c agentanycastd -l aip-open -d 'Let every peer use the agents that it attaches' -r
complete -c agentanycastd -l aip-agent-names -d 'Agents on devices whose tools become skills, comma list [default: ["LinuxAgent"]]' -r
complete -c agentanycastd -l aip-planner -d 'The agent that plans tasks for devices: PEER, PEER/NAME, self/NAME or skill:ID' -r
complete -c agentanycastd -l aip-max-agents -d 'Agents of this node that devices are [default: 1000]' -r
complete -c agentanycastd -l aip-device-grace -d 'How long the agent of a device that is gone stays registered [default: "10m"]' -r
complete -c agentanycastd -l aip-command-timeout -d 'How long a device may take for a batch of commands [default: "5m"]' -r
complete -c agentanycastd -l aip-task-timeout -d 'How long a task of a constellation may take [default: "1000s"]' -r
complete -c agentanycastd -l aip-aliases -d 'What constellations may call agents of the mesh' -r
complete -c agentanycastd -l aip-keys -d 'Clients that show a JWT signed with the key of their did:key' -r
complete -c agentanycastd -l uamp-listen -d 'Where its clients connect, HOST:PORT' -r
complete -c agentanycastd -l uamp-allow-remote -d 'Listen for them beyond loopback without TLS, or with callers that need not say who they are' -r
complete -c agentanycastd -l uamp-tls-cert -d 'The certificate of TLS, PEM; read again when it changes' -r
complete -c agentanycastd -l uamp-tls-key -d 'Its key, PEM' -r
complete -c agentanycastd -l uamp-public-url -d 'How its clients reach it' -r
complete -c agentanycastd -l uamp-cors-origins -d 'Origins whose pages may call, comma list, * for any' -r
complete -c agentanycastd -l uamp-tokens-file -d 'Callers, one a line: a name and its Bearer token' -r
complete -c agentanycastd -l uamp-auth-issuer -d 'The issuer whose tokens are taken (OpenID Connect, OAuth 2.0)' -r
complete -c agentanycastd -l uamp-auth-jwks-url -d 'Where its keys are, unless it says so itself' -r
complete -c agentanycastd -l uamp-auth-audience -d 'Audiences of which a token has one, comma list' -r
complete -c agentanycastd -l uamp-auth-scopes -d 'Scopes that a token needs, comma list' -r
complete -c agentanycastd -l uamp-auth-leeway -d 'How much the issuer\'s clock may differ [default: "1m"]' -r
complete -c agentanycastd -l uamp-client-ca -d 'Who signs the certificates of callers (mutual TLS), PEM' -r
complete -c agentanycastd -l uamp-rate -d 'Requests a second of one caller, 0 for no limit [default: 1000]' -r
complete -c agentanycastd -l uamp-burst -d 'Requests of one caller at once beyond that rate [default: 2000]' -r
complete -c agentanycastd -l uamp-at-once -d 'Requests and streams of one caller that are open at a time [default: 512]' -r
complete -c agentanycastd -l uamp-connections-per-address -d 'Connections from one address [default: 1024]' -r
complete -c agentanycastd -l uamp-max-body -d 'Largest body of a request [default: "24MiB"]' -r
complete -c agentanycastd -l uamp-key -d 'The key that signs what the gateway says: a node\'s key, or an Ed25519 or P-256 key in PEM' -r
complete -c agentanycastd -l uamp-trust-anchors -d 'A JWKS or hub document with keys of senders that are not did:key; read again when it changes' -r
complete -c agentanycastd -l uamp-did-web -d 'Verify senders that are did:web by their documents, fetched over https from public hosts' -r
complete -c agentanycastd -l uamp-skew -d 'How much the clock of a sender may differ [default: "5m"]' -r
complete -c agentanycastd -l uamp-max-receivers -d 'Receivers of one envelope [default: 16]' -r
complete -c agentanycastd -l uamp-max-replays -d 'Envelopes that are remembered against replay [default: 524288]' -r
complete -c agentanycastd -l uamp-require-cap-token -d 'Take envelopes with a capability token only' -r
complete -c agentanycastd -l uamp-emit-sig -d 'How signatures are written: detached or attached [default: "detached"]' -r
complete -c agentanycastd -l uamp-compat-uamp-js-hash -d 'Senders whose signatures may be over the hash of uamp-js, which leaves the body out, comma list' -r
complete -c agentanycastd -l uamp-refuse-http1 -d 'Answer HTTP/1.1 with 426, and no WebSockets' -r
complete -c agentanycastd -l uamp-http3 -d 'Answer HTTP/3 on the same port of UDP' -r
complete -c agentanycastd -l uamp-description -d 'What the manifest says of the agent [default: "Agents of an AgentAnycast mesh"]' -r
complete -c agentanycastd -l uamp-aliases -d 'What senders may call agents of the mesh' -r
complete -c agentanycastd -l uamp-outbound-private -d 'Let uamp+https URLs lead to this host and private networks' -r
complete -c agentanycastd -l uamp-outbound-tokens -d 'Files with the tokens that are shown to hosts of uamp+https URLs' -r
complete -c agentanycastd -l uamp-outbound-ca -d 'Roots that their certificates may lead to besides the usual ones, PEM' -r
complete -c agentanycastd -l uap-hub-listen -d 'Where its clients connect, HOST:PORT' -r
complete -c agentanycastd -l uap-hub-allow-remote -d 'Listen for them beyond loopback without TLS, or with callers that need not say who they are' -r
complete -c agentanycastd -l uap-hub-tls-cert -d 'The certificate of TLS, PEM; read again when it changes' -r
complete -c agentanycastd -l uap-hub-tls-key -d 'Its key, PEM' -r
complete -c agentanycastd -l uap-hub-public-url -d 'How its clients reach it' -r
complete -c agentanycastd -l uap-hub-cors-origins -d 'Origins whose pages may call, comma list, * for any' -r
complete -c agentanycastd -l uap-hub-tokens-file -d 'Callers, one a line: a name and its Bearer token' -r
complete -c agentanycastd -l uap-hub-auth-issuer -d 'The issuer whose tokens are taken (OpenID Connect, OAuth 2.0)' -r
complete -c agentanycastd -l uap-hub-auth-jwks-url -d 'Where its keys are, unless it says so itself' -r
complete -c agentanycastd -l uap-hub-auth-audience -d 'Audiences of which a token has one, comma list' -r
complete -c agentanycastd -l uap-hub-auth-scopes -d 'Scopes that a token needs, comma list' -r
complete -c agentanycastd -l uap-hub-auth-leeway -d 'How much the issuer\'s clock may differ [default: "1m"]' -r
complete -c agentanycastd -l uap-hub-client-ca -d 'Who signs the certificates of callers (mutual TLS), PEM' -r
complete -c agentanycastd -l uap-hub-rate -d 'Requests a second of one caller, 0 for no limit [default: 1000]' -r
complete -c agentanycastd -l uap-hub-burst -d 'Requests of one caller at once beyond that rate [default: 2000]' -r
complete -c agentanycastd -l uap-hub-at-once -d 'Requests and streams of one caller that are open at a time [default: 512]' -r
complete -c agentanycastd -l uap-hub-connections-per-address -d 'Connections from one address [default: 1024]' -r
complete -c agentanycastd -l uap-hub-max-body -d 'Largest body of a request [default: "24MiB"]' -r
complete -c agentanycastd -l uap-hub-open -d 'Let every peer use the agents that it attaches' -r
complete -c agentanycastd -l uap-hub-agent -d 'The agent of this node that all execution agents together are [default: "uap-hub"]' -r
complete -c agentanycastd -l uap-hub-sessions-per-client -d 'Sessions that one execution agent has at a time [default: 1]' -r
complete -c agentanycastd -l uap-hub-retry -d 'How often a task of a skill is given to another session when its session is lost' -r
complete -c agentanycastd -l print-config -d 'Print every setting with its source, and end'
complete -c agentanycastd -s h -l help -d 'Print help'
complete -c agentanycastd -s V -l version -d 'Print version'
