_agentanycast__bridge() {
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
                cmd="agentanycast__bridge"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        agentanycast__bridge)
            opts="-h -V --config --daemon --mcp-listen --log-level --log-format --listen --allow-remote --tls-cert --tls-key --public-url --card --card-grpc --key --cors-origins --tokens-file --auth-issuer --auth-jwks-url --auth-audience --auth-scopes --auth-leeway --client-ca --rate --burst --at-once --connections-per-address --max-body --allow-private-webhooks --webhook-patience --extended-card --extensions --required-extensions --wait-limit --upp-listen --upp-allow-remote --upp-tls-cert --upp-tls-key --upp-public-url --upp-cors-origins --upp-tokens-file --upp-auth-issuer --upp-auth-jwks-url --upp-auth-audience --upp-auth-scopes --upp-auth-leeway --upp-client-ca --upp-rate --upp-burst --upp-at-once --upp-connections-per-address --upp-max-body --print-config --help --version"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --daemon)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --mcp-listen)
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
                --listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --allow-remote)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-cert)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tls-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --public-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --card)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --card-grpc)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cors-origins)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tokens-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --auth-issuer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --auth-jwks-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --auth-audience)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --auth-scopes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --auth-leeway)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --client-ca)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --burst)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --at-once)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --connections-per-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-body)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --allow-private-webhooks)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --webhook-patience)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --extended-card)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --extensions)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --required-extensions)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --wait-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-listen)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-allow-remote)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-tls-cert)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-tls-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-public-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-cors-origins)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-tokens-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-auth-issuer)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-auth-jwks-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-auth-audience)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-auth-scopes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-auth-leeway)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-client-ca)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-rate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-burst)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-at-once)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-connections-per-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --upp-max-body)
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
    complete -F _agentanycast__bridge -o nosort -o bashdefault -o default agentanycast-bridge
else
    complete -F _agentanycast__bridge -o bashdefault -o default agentanycast-bridge
fi
