_agentanycast__relay() {
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
                cmd="agentanycast__relay"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        agentanycast__relay)
            opts="-h -V --config --listen --announce --key --max-reservations --max-reservations-per-ip --max-circuits --max-circuits-per-peer --max-circuits-per-ip --circuit-duration --circuit-bytes --reservations-per-ip --circuits-per-ip --max-connections --connections-per-ip --registry-listen --announce-registry --registry-ttl --registry-auth --registry-entries --federated-entries --entries-per-ip --entry-bytes-per-ip --requests-per-ip --store --federation-peers --federation-sync-interval --metrics-listen --api-listen --api-cors-origins --mcp-listen --otlp-endpoint --otlp-sample-rate --enable-webtransport --log-level --log-format --print-config --help --version"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --announce)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-reservations)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-reservations-per-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-circuits)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-circuits-per-peer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-circuits-per-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --circuit-duration)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --circuit-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --reservations-per-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --circuits-per-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-connections)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --connections-per-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --registry-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --announce-registry)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --registry-ttl)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --registry-auth)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --registry-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --federated-entries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --entries-per-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --entry-bytes-per-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --requests-per-ip)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --store)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --federation-peers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --federation-sync-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --metrics-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --api-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --api-cors-origins)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mcp-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --otlp-endpoint)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --otlp-sample-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --enable-webtransport)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-format)
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
    complete -F _agentanycast__relay -o nosort -o bashdefault -o default agentanycast-relay
else
    complete -F _agentanycast__relay -o bashdefault -o default agentanycast-relay
fi
