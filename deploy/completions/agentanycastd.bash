_agentanycastd() {
    local i cur prev opts cmd
    COMPREPLY=()
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        cur="$2"
    else
        cur="${COMP_WORDS[COMP_CWORD]}"
    fi
    prev="$3"
    cmd=""
    opts=""

    for i in "${COMP_WORDS[@]:0:COMP_CWORD}"
    do
        case "${cmd},${i}" in
            ",$1")
                cmd="agentanycastd"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        agentanycastd)
            opts="-h -V --config --key --listen --grpc-listen --grpc-token-file --grpc-tls-cert --grpc-tls-key --grpc-allow-remote --bootstrap-peers --wss-ca-file --enable-webtransport --store-path --log-level --log-file --transport --namespace --agent-sockets --metrics-listen --mcp-listen --mcp --mcp-proxy --open --anp-listen --did-web --did-dns --otlp-endpoint --nats-broker --bridge-listen --bridge-allow-remote --bridge-tls-cert --bridge-tls-key --bridge-public-url --bridge-card --bridge-card-grpc --bridge-key --bridge-cors-origins --bridge-tokens-file --bridge-auth-issuer --bridge-auth-jwks-url --bridge-auth-audience --bridge-auth-scopes --bridge-auth-leeway --bridge-client-ca --bridge-rate --bridge-burst --bridge-at-once --bridge-connections-per-address --bridge-max-body --bridge-allow-private-webhooks --bridge-webhook-patience --bridge-extended-card --bridge-extensions --bridge-required-extensions --bridge-wait-limit --aip-listen --aip-allow-remote --aip-tls-cert --aip-tls-key --aip-public-url --aip-cors-origins --aip-tokens-file --aip-auth-issuer --aip-auth-jwks-url --aip-auth-audience --aip-auth-scopes --aip-auth-leeway --aip-client-ca --aip-rate --aip-burst --aip-at-once --aip-connections-per-address --aip-max-body --aip-open --aip-agent-names --aip-planner --aip-max-agents --aip-device-grace --aip-command-timeout --aip-task-timeout --aip-aliases --aip-keys --uamp-listen --uamp-allow-remote --uamp-tls-cert --uamp-tls-key --uamp-public-url --uamp-cors-origins --uamp-tokens-file --uamp-auth-issuer --uamp-auth-jwks-url --uamp-auth-audience --uamp-auth-scopes --uamp-auth-leeway --uamp-client-ca --uamp-rate --uamp-burst --uamp-at-once --uamp-connections-per-address --uamp-max-body --uamp-key --uamp-trust-anchors --uamp-did-web --uamp-skew --uamp-max-receivers --uamp-max-replays --uamp-require-cap-token --uamp-emit-sig --uamp-compat-uamp-js-hash --uamp-refuse-http1 --uamp-http3 --uamp-description --uamp-aliases --uamp-outbound-private --uamp-outbound-tokens --uamp-outbound-ca --uap-hub-listen --uap-hub-allow-remote --uap-hub-tls-cert --uap-hub-tls-key --uap-hub-public-url --uap-hub-cors-origins --uap-hub-tokens-file --uap-hub-auth-issuer --uap-hub-auth-jwks-url --uap-hub-auth-audience --uap-hub-auth-scopes --uap-hub-auth-leeway --uap-hub-client-ca --uap-hub-rate --uap-hub-burst --uap-hub-at-once --uap-hub-connections-per-address --uap-hub-max-body --uap-hub-open --uap-hub-agent --uap-hub-sessions-per-client --uap-hub-retry --print-config --help --version"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grpc-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grpc-token-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grpc-tls-cert)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grpc-tls-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --grpc-allow-remote)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bootstrap-peers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --wss-ca-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --enable-webtransport)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --store-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --transport)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --namespace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --agent-sockets)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --metrics-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mcp-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mcp)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mcp-proxy)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --open)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --anp-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --did-web)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --did-dns)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --otlp-endpoint)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nats-broker)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-allow-remote)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-tls-cert)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-tls-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-public-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-card)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-card-grpc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-cors-origins)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-tokens-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-auth-issuer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-auth-jwks-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-auth-audience)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-auth-scopes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-auth-leeway)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-client-ca)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-burst)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-at-once)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-connections-per-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-max-body)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-allow-private-webhooks)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-webhook-patience)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-extended-card)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-extensions)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-required-extensions)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --bridge-wait-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-allow-remote)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-tls-cert)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-tls-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-public-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-cors-origins)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-tokens-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-auth-issuer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-auth-jwks-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-auth-audience)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-auth-scopes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-auth-leeway)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-client-ca)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-burst)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-at-once)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-connections-per-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-max-body)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-open)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-agent-names)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-planner)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-max-agents)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-device-grace)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-command-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-task-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-aliases)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --aip-keys)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-allow-remote)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-tls-cert)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-tls-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-public-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-cors-origins)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-tokens-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-auth-issuer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-auth-jwks-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-auth-audience)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-auth-scopes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-auth-leeway)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-client-ca)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-burst)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-at-once)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-connections-per-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-max-body)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-trust-anchors)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-did-web)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-skew)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-max-receivers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-max-replays)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-require-cap-token)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-emit-sig)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-compat-uamp-js-hash)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-refuse-http1)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-http3)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-description)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-aliases)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-outbound-private)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-outbound-tokens)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uamp-outbound-ca)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-allow-remote)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-tls-cert)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-tls-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-public-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-cors-origins)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-tokens-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-auth-issuer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-auth-jwks-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-auth-audience)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-auth-scopes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-auth-leeway)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-client-ca)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-burst)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-at-once)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-connections-per-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-max-body)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-open)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-agent)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-sessions-per-client)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --uap-hub-retry)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
    esac
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _agentanycastd -o nosort -o bashdefault -o default agentanycastd
else
    complete -F _agentanycastd -o bashdefault -o default agentanycastd
fi
