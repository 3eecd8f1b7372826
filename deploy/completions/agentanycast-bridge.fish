complete -c agentanycast-bridge -l config -d 'Configuration in TOML, or AGENTANYCAST_BRIDGE_CONFIG in the environment' -r
complete -c agentanycast-bridge -l daemon -d 'The daemon, unix://PATH or tcp://HOST:PORT [default: "unix://~/.agentanycast/daemon.sock"]' -r
complete -c agentanycast-bridge -l mcp-listen -d 'Where MCP clients connect over HTTP, HOST:PORT; who may call is as for A2A' -r
complete -c agentanycast-bridge -l log-level -d 'error, warn, info, debug or trace [default: "info"]' -r
complete -c agentanycast-bridge -l log-format -d 'json or text [default: "json"]' -r
complete -c agentanycast-bridge -l listen -d 'Where HTTP clients of A2A connect, HOST:PORT [default: "127.0.0.1:8090"]' -r
complete -c agentanycast-bridge -l allow-remote -d 'Listen for them beyond loopback without TLS, or with callers that need not say who they are' -r
complete -c agentanycast-bridge -l tls-cert -d 'The certificate of TLS, PEM; read again when it changes' -r
complete -c agentanycast-bridge -l tls-key -d 'Its key, PEM' -r
complete -c agentanycast-bridge -l public-url -d 'How clients reach the bridge, as cards name it' -r
complete -c agentanycast-bridge -l card -d 'dual for the fields of both versions, or 1.0 [default: "dual"]' -r
complete -c agentanycast-bridge -l card-grpc -d 'How cards list gRPC: off, authority for HOST:PORT, or url [default: "off"]' -r
complete -c agentanycast-bridge -l key -d 'The key that cards are signed with' -r
complete -c agentanycast-bridge -l cors-origins -d 'Origins whose pages may call, comma list, * for any' -r
complete -c agentanycast-bridge -l tokens-file -d 'Callers, one a line: a name and its Bearer token' -r
complete -c agentanycast-bridge -l auth-issuer -d 'The issuer whose tokens are taken (OpenID Connect, OAuth 2.0)' -r
complete -c agentanycast-bridge -l auth-jwks-url -d 'Where its keys are, unless it says so itself' -r
complete -c agentanycast-bridge -l auth-audience -d 'Audiences of which a token has one, comma list' -r
complete -c agentanycast-bridge -l auth-scopes -d 'Scopes that a token needs, comma list' -r
complete -c agentanycast-bridge -l auth-leeway -d 'How much the issuer\'s clock may differ [default: "1m"]' -r
complete -c agentanycast-bridge -l client-ca -d 'Who signs the certificates of callers (mutual TLS), PEM' -r
complete -c agentanycast-bridge -l rate -d 'Requests a second of one caller, 0 for no limit [default: 1000]' -r
complete -c agentanycast-bridge -l burst -d 'Requests of one caller at once beyond that rate [default: 2000]' -r
complete -c agentanycast-bridge -l at-once -d 'Requests and streams of one caller that are open at a time [default: 512]' -r
complete -c agentanycast-bridge -l connections-per-address -d 'Connections from one address [default: 1024]' -r
complete -c agentanycast-bridge -l max-body -d 'Largest body of a request [default: "24MiB"]' -r
complete -c agentanycast-bridge -l allow-private-webhooks -d 'Tell webhooks on private networks and on this host too' -r
complete -c agentanycast-bridge -l webhook-patience -d 'How long a webhook may be out of reach before it is given up [default: "24h"]' -r
complete -c agentanycast-bridge -l extended-card -d 'What the own agent\'s card says besides to callers with a token, JSON' -r
complete -c agentanycast-bridge -l extensions -d 'Extensions of A2A that the agents understand, comma list' -r
complete -c agentanycast-bridge -l required-extensions -d 'Those that clients must declare, comma list' -r
complete -c agentanycast-bridge -l wait-limit -d 'How long an answer of A2A may wait for its task [default: "45s"]' -r
complete -c agentanycast-bridge -l upp-listen -d 'Where its clients connect, HOST:PORT' -r
complete -c agentanycast-bridge -l upp-allow-remote -d 'Listen for them beyond loopback without TLS, or with callers that need not say who they are' -r
complete -c agentanycast-bridge -l upp-tls-cert -d 'The certificate of TLS, PEM; read again when it changes' -r
complete -c agentanycast-bridge -l upp-tls-key -d 'Its key, PEM' -r
complete -c agentanycast-bridge -l upp-public-url -d 'How its clients reach it' -r
complete -c agentanycast-bridge -l upp-cors-origins -d 'Origins whose pages may call, comma list, * for any' -r
complete -c agentanycast-bridge -l upp-tokens-file -d 'Callers, one a line: a name and its Bearer token' -r
complete -c agentanycast-bridge -l upp-auth-issuer -d 'The issuer whose tokens are taken (OpenID Connect, OAuth 2.0)' -r
complete -c agentanycast-bridge -l upp-auth-jwks-url -d 'Where its keys are, unless it says so itself' -r
complete -c agentanycast-bridge -l upp-auth-audience -d 'Audiences of which a token has one, comma list' -r
complete -c agentanycast-bridge -l upp-auth-scopes -d 'Scopes that a token needs, comma list' -r
complete -c agentanycast-bridge -l upp-auth-leeway -d 'How much the issuer\'s clock may differ [default: "1m"]' -r
complete -c agentanycast-bridge -l upp-client-ca -d 'Who signs the certificates of callers (mutual TLS), PEM' -r
complete -c agentanycast-bridge -l upp-rate -d 'Requests a second of one caller, 0 for no limit [default: 1000]' -r
complete -c agentanycast-bridge -l upp-burst -d 'Requests of one caller at once beyond that rate [default: 2000]' -r
complete -c agentanycast-bridge -l upp-at-once -d 'Requests and streams of one caller that are open at a time [default: 512]' -r
complete -c agentanycast-bridge -l upp-connections-per-address -d 'Connections from one address [default: 1024]' -r
complete -c agentanycast-bridge -l upp-max-body -d 'Largest body of a request [default: "24MiB"]' -r
complete -c agentanycast-bridge -l print-config -d 'Print every setting with its source, and end'
complete -c agentanycast-bridge -s h -l help -d 'Print help'
complete -c agentanycast-bridge -s V -l version -d 'Print version'
