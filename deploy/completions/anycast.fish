# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_anycast_global_optspecs
    string join \n home= daemon= json no-start relay= h/help V/version
end

function __fish_anycast_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_anycast_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_anycast_using_subcommand
    set -l cmd (__fish_anycast_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c anycast -n "__fish_anycast_needs_command" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_needs_command" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_needs_command" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_needs_command" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_needs_command" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c anycast -n "__fish_anycast_needs_command" -s V -l version -d 'Print version'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "daemon" -d 'Run the daemon in the foreground; takes the options of agentanycastd'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "relay" -d 'Run a relay in the foreground; takes the options of agentanycast-relay'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "bridge" -d 'Run the HTTP bridge in the foreground; takes the options of agentanycast-bridge'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "ps" -d 'List the programs that serve this node\'s agents'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "skills" -d 'List the skills of known agents'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "alias" -d 'Name peers, so that commands take the name for the peer\'s id'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "up" -d 'Start the home\'s daemon in the background, and wait until it is ready'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "down" -d 'Stop the home\'s daemon; what it has accepted is on disk, and goes on when it is started again'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "restart" -d 'Stop the home\'s daemon and start it again, with the settings as they are now'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "logs" -d 'Show what the home\'s daemon has logged'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "config" -d 'Look at and change the settings of the home\'s daemon'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "service" -d 'Have the system start the home\'s daemon at login: a user unit of systemd, or an agent of launchd'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "demo" -d 'Run an echo agent, or a whole exchange between two daemons'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "send" -d 'Send a task and wait for its result'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "reply" -d 'Answer a task that asks for input, and wait for its result'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "retry" -d 'Send a task once more: the same message to the same target'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "run" -d 'Make an agent of a program: it does the tasks that come for it, until Ctrl-C'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "chat" -d 'Talk with an agent: each line is a task in the same conversation'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "status" -d 'Show the daemon'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "peers" -d 'List the connected peers'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "ping" -d 'Ping a peer: whether it answers, how fast, directly or through a relay'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "discover" -d 'Find agents by skill'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "relays" -d 'Show how the daemon is reached through relays, and how it reaches each peer'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "card" -d 'Show an agent\'s card'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "tasks" -d 'List tasks, newest change first'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "task" -d 'Show one task, with what was said and what came out'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "trace" -d 'Say why a task is where it is: each hop, attempt, acknowledgement and refusal, and what to do next'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "top" -d 'Watch what the daemon is doing: tasks, peers, queue, refusals, log'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "cancel" -d 'Cancel a task'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "id" -d 'Show who this node is: peer id and did:key'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "mcp" -d 'Serve MCP on standard input and output: the agents of the network as tools, for a desktop client or an editor'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "doctor" -d 'Look for what keeps the daemon from working, and say what to do; exit code 1 if there is something'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "bugreport" -d 'Write an archive for a report of a fault: settings, log, figures; no keys, no tokens, nothing of what tasks say'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "completions" -d 'Print what a shell completes command lines of anycast with'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "man" -d 'Print a manual page, or write them all'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "policy" -d 'Look at who may send which task, as the daemon\'s settings, its invites and its trust in peers say'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "audit" -d 'Look at audit logs'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "key" -d 'Change the key of this node'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "credential" -d 'Issue and check Verifiable Credentials'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "seal" -d 'Make a box that only one peer and this node can open, for a way on which others can read; writes it to standard output'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "unseal" -d 'Open a box between a peer and this node; writes what is in it to standard output, or nothing'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "uamp" -d 'Sign and check envelopes of the Universal Agent Messaging Protocol, without a daemon'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "trust" -d 'Let a peer use private agents of this node, by its id, until `anycast untrust`'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "untrust" -d 'Take back what `anycast trust` let in. Tasks that an agent has begun go on; those that it has not begun, and that the peer may not send any more, are rejected'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "requests" -d 'List the peers that were refused since they may not use a private agent of this node'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "agents" -d 'List the agents that are known: this node\'s, those nearby, and those that registries tell of'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "invite" -d 'Invite another node: print a string that says how this one is reached, with the right to send it tasks'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "join" -d 'Accept an invite: keep its relay, its right and a name for its node, and see that it answers'
complete -c anycast -n "__fish_anycast_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand daemon" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand daemon" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand daemon" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand daemon" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand daemon" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand relay" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand relay" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand relay" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand relay" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand relay" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand bridge" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand bridge" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand bridge" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand bridge" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand bridge" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand ps" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand ps" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand ps" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand ps" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand ps" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand ps" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand skills" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand skills" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand skills" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand skills" -l local -d 'Only of this node\'s agent and those of connected peers: no registry is asked'
complete -c anycast -n "__fish_anycast_using_subcommand skills" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand skills" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand skills" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -f -a "add" -d 'Give a peer a name'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -f -a "ls" -d 'List the names that were given'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -f -a "rm" -d 'Forget names'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and not __fish_seen_subcommand_from add ls rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from add" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from add" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from add" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from add" -l force -d 'Take the name from the peer that has it'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from add" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from add" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from add" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from ls" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from ls" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from ls" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from ls" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from ls" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from ls" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from rm" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from rm" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from rm" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from rm" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from rm" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from help" -f -a "add" -d 'Give a peer a name'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from help" -f -a "ls" -d 'List the names that were given'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from help" -f -a "rm" -d 'Forget names'
complete -c anycast -n "__fish_anycast_using_subcommand alias; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand up" -l listen -d 'Keep in the home\'s settings where the daemon listens: multiaddrs such as /ip4/0.0.0.0/tcp/4002; a comma list, or repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand up" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand up" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand up" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand up" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand up" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand up" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand down" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand down" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand down" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand down" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand down" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand down" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand restart" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand restart" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand restart" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand restart" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand restart" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand restart" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand logs" -s n -l lines -d 'How many of the last lines' -r
complete -c anycast -n "__fish_anycast_using_subcommand logs" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand logs" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand logs" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand logs" -s f -l follow -d 'Go on with what is logged from now on, until Ctrl-C'
complete -c anycast -n "__fish_anycast_using_subcommand logs" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand logs" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand logs" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -f -a "get" -d 'Print the value of a setting, its default where nothing sets it; with --json also where it comes from'
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -f -a "set" -d 'Set a setting in the home\'s file, after a check of the whole; a daemon that runs takes over rules of [policy] at once, and everything else at its next start'
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -f -a "schema" -d 'Print a JSON Schema of the settings\' file, by which an editor completes and checks it: type, default, bounds and a description of each setting'
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -f -a "unset" -d 'Take a setting out of the home\'s file, so that its default counts'
complete -c anycast -n "__fish_anycast_using_subcommand config; and not __fish_seen_subcommand_from get set schema unset help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from get" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from get" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from get" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from get" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from get" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from get" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from set" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from set" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from set" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from set" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from set" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from schema" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from schema" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from schema" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from schema" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from schema" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from schema" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from unset" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from unset" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from unset" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from unset" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from unset" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from unset" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "get" -d 'Print the value of a setting, its default where nothing sets it; with --json also where it comes from'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "set" -d 'Set a setting in the home\'s file, after a check of the whole; a daemon that runs takes over rules of [policy] at once, and everything else at its next start'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "schema" -d 'Print a JSON Schema of the settings\' file, by which an editor completes and checks it: type, default, bounds and a description of each setting'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "unset" -d 'Take a setting out of the home\'s file, so that its default counts'
complete -c anycast -n "__fish_anycast_using_subcommand config; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -f -a "install" -d 'Make the service and start it; it starts at each login, and where this user may say so, with the system'
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -f -a "uninstall" -d 'Stop the service and remove it'
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -f -a "status" -d 'Show whether it is there, starts at login, runs, and goes on after the logout; exit code 1 if it does not run'
complete -c anycast -n "__fish_anycast_using_subcommand service; and not __fish_seen_subcommand_from install uninstall status help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from install" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from install" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from install" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from install" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from install" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from install" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from uninstall" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from uninstall" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from status" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from status" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from status" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from status" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from status" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "install" -d 'Make the service and start it; it starts at each login, and where this user may say so, with the system'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "uninstall" -d 'Stop the service and remove it'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show whether it is there, starts at login, runs, and goes on after the logout; exit code 1 if it does not run'
complete -c anycast -n "__fish_anycast_using_subcommand service; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand demo" -l name -d 'Name on the echo agent\'s card' -r
complete -c anycast -n "__fish_anycast_using_subcommand demo" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand demo" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand demo" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand demo" -l pair -d 'Start two daemons and two agents in temporary homes and send a task between them'
complete -c anycast -n "__fish_anycast_using_subcommand demo" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand demo" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand demo" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand send" -l data -d 'A part of JSON behind the others, for agents that take data: the JSON, @FILE for a file that has it, or - for standard input; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l skill -d 'TARGET is a skill: any agent that has it. Behind TARGET and with SKILL, as in TARGET --skill SKILL PART, TARGET is a peer and SKILL what it is asked for; --skill=SKILL is always that' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l seal-for -d 'With --url: seal the task for this peer (named as TARGET is), so that whoever carries it can neither read nor change it, and take only answers that it has sealed' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l timeout -d 'Give up waiting after this long, such as 30s, 1h30m or 2d; 0 waits for ever' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l output -d 'Write what comes back into files in this directory, texts too' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand send" -l deadline -d 'The task fails if it has not ended by then: a time from now, such as 10m or 2d, or a date such as 2030-01-31T12:00:00Z' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l context -d 'The conversation that the task belongs to, as `anycast task` shows it [default: a new one]' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l reply-to -d 'A new task in the conversation of this earlier one' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l meta -d 'Attach a label, such as priority=low; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand send" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand send" -l url -d 'TARGET is the URL of an A2A agent outside the network, which the daemon calls'
complete -c anycast -n "__fish_anycast_using_subcommand send" -l allow-private -d 'With --url: the agent may be on the daemon\'s host or on a private network; allow_private = true in [bridge.outbound] of the settings says so for all tasks'
complete -c anycast -n "__fish_anycast_using_subcommand send" -l no-wait -d 'Print the task\'s id and end; the task goes on, and `anycast task` shows what comes of it'
complete -c anycast -n "__fish_anycast_using_subcommand send" -l stream -d 'Print artifacts as they come (with --json: one JSON object per line)'
complete -c anycast -n "__fish_anycast_using_subcommand send" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand send" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand send" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l data -d 'A part of JSON behind the others, for agents that take data: the JSON, @FILE for a file that has it, or - for standard input; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l timeout -d 'Give up waiting after this long, such as 30s, 1h30m or 2d; 0 waits for ever' -r
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l output -d 'Write what comes back into files in this directory, texts too' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l no-wait -d 'Print the task\'s id and end; the task goes on, and `anycast task` shows what comes of it'
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l stream -d 'Print artifacts as they come (with --json: one JSON object per line)'
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand reply" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand reply" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l timeout -d 'Give up waiting after this long, such as 30s, 1h30m or 2d; 0 waits for ever' -r
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l output -d 'Write what comes back into files in this directory, texts too' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l no-wait -d 'Print the task\'s id and end; the task goes on, and `anycast task` shows what comes of it'
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l stream -d 'Print artifacts as they come (with --json: one JSON object per line)'
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand retry" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand retry" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand run" -l name -d 'The agent\'s name: a letter or digit, then letters, digits, dots, dashes and underscores, in lower case, at most 64' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l skill -d 'A skill on the agent\'s card; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l description -d 'What the agent\'s card says of it' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l protocol -d 'How the program and the runner talk' -r -f -a "process\t'One process per task: the text on standard input, the result on standard output'
jsonl\t'One process for all tasks, which speaks JSON lines (docs/run.md)'"
complete -c anycast -n "__fish_anycast_using_subcommand run" -l concurrency -d 'Most tasks that are done at a time; the rest waits, and is not claimed [default: the number of processors; 4 with --mcp]' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l timeout -d 'End a task that takes longer, such as 30s or 1h, without the time in which it waits for an answer; 0: no limit [default: 0; 60s with --mcp]' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l retry -d 'How often a task is given again whose program had been started when the runner ended; otherwise it fails' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l drain -d 'When told to end by Ctrl-C or SIGTERM, wait so long for the tasks that run; a second signal does not wait' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l type -d 'The media type of what the program prints [default: JSON, text or bytes, as it looks]' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l max-output -d 'Most that the program may print for a task, and that the task\'s files may take on the disk; a task beyond fails' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l max-processes -d 'Most processes and threads of a program at a time, where this process may make cgroups (version 2)' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l env -d 'Set a variable of the program\'s environment; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l pass-env -d 'Pass a variable of this environment, with --clean-env; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l cwd -d 'The directory that the program is started in [default: this one]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand run" -l http -d 'Do the tasks by this HTTP service, instead of a program; it may be on this host or a private network' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l style -d 'How the service is spoken to [default: a2a if the service has a card, else post]' -r -f -a "post\t'The message is the body of a request, and the answer is the result'
json\t'As post, for a service that takes JSON documents alone'
a2a\t'A2A 1.0 or 0.3, as the service\'s card says'
openai\t'Chat completions of OpenAI, below the URL'"
complete -c anycast -n "__fish_anycast_using_subcommand run" -l model -d 'The model that is asked for, with --style openai' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l api-key-env -d 'The variable with the key that the service wants as a bearer token; also for --mcp URL' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l mcp -d 'The program behind -- is an MCP server, or the server is at this URL: its tools are the agent\'s skills. Defaults then: --timeout 60s, --concurrency 4' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l permit -d 'Who answers when the agent asks for permission' -r -f -a "ask\t'The sender of the task'
read\t'Reading and searching are permitted; the sender is asked for everything else'
all\t'Everything is permitted, each time anew'
none\t'Everything is rejected'"
complete -c anycast -n "__fish_anycast_using_subcommand run" -l permit-timeout -d 'Without an answer until then it is no' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand run" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand run" -l open -d 'Let every peer that the policy lets in use the agent. Without, it is private: only this node and peers that a rule, an invite or trust lets in may use it. What `anycast agents set` has said of the agent stays'
complete -c anycast -n "__fish_anycast_using_subcommand run" -l progress -d 'Report the lines that the program writes to standard error as progress, at most one a second'
complete -c anycast -n "__fish_anycast_using_subcommand run" -l clean-env -d 'Of the variables of this environment, pass the program only PATH, HOME, LANG and the like (docs/run.md), and those of --pass-env'
complete -c anycast -n "__fish_anycast_using_subcommand run" -l acp -d 'The program behind -- is an agent of the Agent Client Protocol. What it does by itself is not confined: it has the files, the network and the rights of this user. --cwd bounds the files that are read and written for it'
complete -c anycast -n "__fish_anycast_using_subcommand run" -l terminal -d 'Run commands for the agent'
complete -c anycast -n "__fish_anycast_using_subcommand run" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand run" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l context -d 'Go on with this conversation, as `anycast task` shows it, and show what was said in it [default: a new one]' -r
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l timeout -d 'Give up waiting for an answer after this long, such as 30s, 1h30m or 2d; 0 waits for ever' -r
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l output -d 'Write what comes back into files in this directory, texts too' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l skill -d 'TARGET is a skill: any agent that has it'
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l url -d 'TARGET is the URL of an A2A agent outside the network, which the daemon calls'
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l allow-private -d 'With --url: the agent may be on the daemon\'s host or on a private network'
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand chat" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand chat" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand status" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand status" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand status" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand status" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand status" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand status" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand peers" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand peers" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand peers" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand peers" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand peers" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand peers" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand peers" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand ping" -s c -l count -d 'How many pings; 0 goes on until Ctrl-C' -r
complete -c anycast -n "__fish_anycast_using_subcommand ping" -s i -l interval -d 'Time between two pings, such as 500ms or 2s' -r
complete -c anycast -n "__fish_anycast_using_subcommand ping" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand ping" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand ping" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand ping" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand ping" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand ping" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand discover" -l tag -d 'Only agents whose skill has this tag, such as lang=de; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand discover" -l limit -d 'At most this many, 1 to 1000' -r
complete -c anycast -n "__fish_anycast_using_subcommand discover" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand discover" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand discover" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand discover" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand discover" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand discover" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand discover" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand relays" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand relays" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand relays" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand relays" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand relays" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand relays" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand relays" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand card" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand card" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand card" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand card" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand card" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand card" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l status -d 'Only tasks in this state; can be repeated' -r -f -a "submitted\t''
working\t''
input-required\t''
completed\t''
failed\t''
canceled\t''
rejected\t''"
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l limit -d 'At most this many; 0 = all' -r
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l watch -d 'Go on, and show each task again when it changes (with --json: one JSON object per line)'
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand tasks" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand task" -l timeout -d 'Give up waiting after this long, such as 30s, 1h30m or 2d; 0 waits for ever' -r
complete -c anycast -n "__fish_anycast_using_subcommand task" -l output -d 'Write what comes back into files in this directory, texts too' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand task" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand task" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand task" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand task" -l wait -d 'Wait for its end first, and end as `anycast send` does'
complete -c anycast -n "__fish_anycast_using_subcommand task" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand task" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand task" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand trace" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand trace" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand trace" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand trace" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand trace" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand trace" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand top" -l interval -d 'Time between two looks, such as 500ms or 2s' -r
complete -c anycast -n "__fish_anycast_using_subcommand top" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand top" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand top" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand top" -l once -d 'Show it once and end'
complete -c anycast -n "__fish_anycast_using_subcommand top" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand top" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand top" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand cancel" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand cancel" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand cancel" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand cancel" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand cancel" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand cancel" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand id" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand id" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand id" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand id" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand id" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand id" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand mcp" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand mcp" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand mcp" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand mcp" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand mcp" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand mcp" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand doctor" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand doctor" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand doctor" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand doctor" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand doctor" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand bugreport" -s o -l output -d 'Where it is written; a file that is there is not replaced [default: anycast-bugreport-TIME.tar.gz here]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand bugreport" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand bugreport" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand bugreport" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand bugreport" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand bugreport" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand bugreport" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand completions" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand completions" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand completions" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand completions" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand completions" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand completions" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand man" -s o -l output -d 'Write the pages of all commands into this directory' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand man" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand man" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand man" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand man" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand man" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand man" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -f -a "check" -d 'Say what would become of a task, and what decides: rules, and the agents, invites and trust of the daemon if it runs; exit code 1 if it would be denied'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -f -a "show" -d 'Show the rules in their order, and what the daemon that runs has beside them: how many invites, and the peers it trusts'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and not __fish_seen_subcommand_from check show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l source -d 'Who sends it: an alias, a peer id, did:key:…, did:web:…, did:dns:… or invited:LABEL (taken as proven), http:CALLER, or local; can be repeated for a peer with several names, a second key being one that it had before' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l skill -d 'The skill it is for; tasks sent to a peer by name have none' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l agent -d 'The agent of the node that it is for, by its name there; without, one that the daemon would choose; without a daemon, rules about agents do not match then' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l config -d 'The daemon\'s settings [default: config.toml in --home if it is there, else ~/.agentanycast/config.toml]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l vouched -d 'As if the peer had shown a credential of one of the trusted_issuers'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l private -d 'As if the agent were private: then another node needs a rule, an invite (--source invited:LABEL) or trust. Without, it is as the daemon has it'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from show" -l config -d 'The daemon\'s settings [default: config.toml in --home if it is there, else ~/.agentanycast/config.toml]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from show" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from show" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from show" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from show" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from show" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from help" -f -a "check" -d 'Say what would become of a task, and what decides: rules, and the agents, invites and trust of the daemon if it runs; exit code 1 if it would be denied'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show the rules in their order, and what the daemon that runs has beside them: how many invites, and the peers it trusts'
complete -c anycast -n "__fish_anycast_using_subcommand policy; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and not __fish_seen_subcommand_from verify help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand audit; and not __fish_seen_subcommand_from verify help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand audit; and not __fish_seen_subcommand_from verify help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand audit; and not __fish_seen_subcommand_from verify help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and not __fish_seen_subcommand_from verify help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and not __fish_seen_subcommand_from verify help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and not __fish_seen_subcommand_from verify help" -f -a "verify" -d 'Check that no line of a chained audit log was changed, removed or added; exit code 1 if one was'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and not __fish_seen_subcommand_from verify help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from verify" -l before -d 'A last hash that was shown before: its line has to be there still, or the files go on behind it' -r
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from verify" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from verify" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from verify" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from verify" -l chained -d 'It is an error if there is no line, or one without the hash of the one before'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from verify" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from verify" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Check that no line of a chained audit log was changed, removed or added; exit code 1 if one was'
complete -c anycast -n "__fish_anycast_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand key; and not __fish_seen_subcommand_from rotate help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand key; and not __fish_seen_subcommand_from rotate help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand key; and not __fish_seen_subcommand_from rotate help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand key; and not __fish_seen_subcommand_from rotate help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand key; and not __fish_seen_subcommand_from rotate help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand key; and not __fish_seen_subcommand_from rotate help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand key; and not __fish_seen_subcommand_from rotate help" -f -a "rotate" -d 'Make a new key, and a statement by both keys that it follows; the daemon must not run. Peers and registries take the new one for the old one for 30 days'
complete -c anycast -n "__fish_anycast_using_subcommand key; and not __fish_seen_subcommand_from rotate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from rotate" -l key -d 'The key file [default: the home\'s]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from rotate" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from rotate" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from rotate" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from rotate" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from rotate" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from rotate" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "rotate" -d 'Make a new key, and a statement by both keys that it follows; the daemon must not run. Peers and registries take the new one for the old one for 30 days'
complete -c anycast -n "__fish_anycast_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -f -a "issue" -d 'Say by a signature that an agent may be trusted and what it can do; prints the credential'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -f -a "verify" -d 'Check a credential: signature, time, and whether it was taken back; exit code 1 if it does not count'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -f -a "status-list" -d 'Sign the list of credentials that were taken back, to be served at its URL; prints the list'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and not __fish_seen_subcommand_from issue verify status-list help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l subject -d 'Whom it is about: an alias, a peer id, or a DID' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l capability -d 'What the subject can do, such as the id of a skill; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l days -d 'How many days it counts; 0 for ever' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l key -d 'The issuer\'s key file [default: the home\'s]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l issuer -d 'The issuer\'s did:web, whose document has the key [default: the did:key of the key]' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l suite -d 'How it is signed: Ed25519Signature2020 is what nodes of version 0.7 check' -r -f -a "eddsa-jcs-2022\t''
Ed25519Signature2020\t''"
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l status-list -d 'The https URL of the list that says whether it was taken back' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l status-index -d 'Its entry in that list, 0 to 131071' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from issue" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from verify" -l issuer -d 'It has to be of this issuer, a DID' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from verify" -l config -d 'The daemon\'s settings [default: config.toml in --home if it is there, else ~/.agentanycast/config.toml]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from verify" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from verify" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from verify" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from verify" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from verify" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l url -d 'Where it will be, as the credentials name it' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l revoke -d 'An entry that was taken back; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l days -d 'How many days it counts' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l key -d 'The issuer\'s key file [default: the home\'s]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l issuer -d 'The issuer\'s did:web [default: the did:key of the key]' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from status-list" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from help" -f -a "issue" -d 'Say by a signature that an agent may be trusted and what it can do; prints the credential'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Check a credential: signature, time, and whether it was taken back; exit code 1 if it does not count'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from help" -f -a "status-list" -d 'Sign the list of credentials that were taken back, to be served at its URL; prints the list'
complete -c anycast -n "__fish_anycast_using_subcommand credential; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand seal" -l for -d 'Who can open it: an alias, peer id or did:key, or what else names a peer to the daemon' -r
complete -c anycast -n "__fish_anycast_using_subcommand seal" -l key -d 'Whose box it is: a key file [default: the home\'s]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand seal" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand seal" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand seal" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand seal" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand seal" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand seal" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand unseal" -l from -d 'The other end of the box: an alias, peer id or did:key, or what else names a peer to the daemon' -r
complete -c anycast -n "__fish_anycast_using_subcommand unseal" -l key -d 'Who opens it: a key file, such as the one from before a change of keys [default: the home\'s]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand unseal" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand unseal" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand unseal" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand unseal" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand unseal" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand unseal" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -f -a "sign" -d 'Write a signed envelope to standard output, as JSON'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -f -a "verify" -d 'Check the signature of an envelope whose sender is a did:key; exit code 1 if it is wrong'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and not __fish_seen_subcommand_from sign verify help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l to -d 'Who it is for: a DID, an URI such as urn:agentanycast:skill:translate, or what names a peer; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l intent -d 'What it is for: ask, inform, propose, confirm, deny, progress, cancel, subscribe, notify or error' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l reply-to -d 'The envelope that it answers or cancels: its id, urn:uuid:…' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l stream-id -d 'Its stream' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l window -d 'How many frames of the answer may be sent without an acknowledgement, 1 or more; with 1, also the last one waits for it [default: the receiver\'s, 64]' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l type -d 'The media type of the content [default: text/plain for text, application/octet-stream for bytes]' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l ext -d 'An extension of the envelope, such as x-aa-skill=translate; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l cap-token -d 'A capability token (JWT)' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l key -d 'The sender\'s key: a node\'s key, or an Ed25519 or P-256 key in PEM [default: the home\'s]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l attached -d 'Write the signature with its payload in it, which some clients need'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from sign" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from verify" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from verify" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from verify" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from verify" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from verify" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from help" -f -a "sign" -d 'Write a signed envelope to standard output, as JSON'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Check the signature of an envelope whose sender is a did:key; exit code 1 if it is wrong'
complete -c anycast -n "__fish_anycast_using_subcommand uamp; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -l agent -d 'The agent of this node that the peer may use [default: all, also those that come later]' -r
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -l skill -d 'The skill that the peer may ask for [default: all]' -r
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -l request -d 'The peer and the agent of this request, as `anycast requests` shows it' -r
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -a "ls" -d 'List the peers that this node trusts'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and not __fish_seen_subcommand_from ls help" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from ls" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from ls" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from ls" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from ls" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from ls" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from ls" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from help" -f -a "ls" -d 'List the peers that this node trusts'
complete -c anycast -n "__fish_anycast_using_subcommand trust; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand untrust" -l agent -d 'Take back only the trust for this agent [default: all]' -r
complete -c anycast -n "__fish_anycast_using_subcommand untrust" -l skill -d 'Take back only the trust for this skill [default: all]' -r
complete -c anycast -n "__fish_anycast_using_subcommand untrust" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand untrust" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand untrust" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand untrust" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand untrust" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand untrust" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand requests" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand requests" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand requests" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand requests" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand requests" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand requests" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand requests" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -l skill -d 'Only agents that have this skill. Without it, registries are asked for the skills that are heard of here: they answer for one skill at a time' -r
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -l local -d 'Only this node\'s agent and those of connected peers: no registry is asked'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -f -a "set" -d 'Say who may use an agent of this node, until this says otherwise: no program that registers it changes that'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -f -a "rm" -d 'Remove an agent of this node for which nobody listens; its tasks that have not ended fail'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and not __fish_seen_subcommand_from set rm help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from set" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from set" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from set" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from set" -l private -d 'Only this node, and peers that a rule, an invite or trust lets in'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from set" -l open -d 'Every peer that the policy lets in'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from set" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from set" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from rm" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from rm" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from rm" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from rm" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from rm" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from help" -f -a "set" -d 'Say who may use an agent of this node, until this says otherwise: no program that registers it changes that'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from help" -f -a "rm" -d 'Remove an agent of this node for which nobody listens; its tasks that have not ended fail'
complete -c anycast -n "__fish_anycast_using_subcommand agents; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l agent -d 'The agent of this node that it is for; it is an error if there is none of that name. Without, it covers every open agent and the agents that this node has today: not a private one that comes later' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l skill -d 'The only skill that may be asked for with it; it is an error if the agent beside this node does not have it' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l uses -d 'How many peers it lets in; each may then send any number of tasks' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l expires -d 'How long peers can accept it, such as 30m, 1h or 24h; 0 for ever. Those that have accepted it stay until it is revoked' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l label -d 'What rules call those that accept it: invited:LABEL [default: the id of the invite]' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l no-right -d 'Say only how this node is reached, and let nobody in'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -f -a "ls" -d 'List the invites that this node has given out'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -f -a "revoke" -d 'Take invites back, with what they let in. Tasks that an agent has begun go on; those that it has not begun, and that their peers may not send any more, are rejected'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and not __fish_seen_subcommand_from ls revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from ls" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from ls" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from ls" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from ls" -l full -d 'Show ids whole'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from ls" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from ls" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from revoke" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from revoke" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from revoke" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from revoke" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from revoke" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from help" -f -a "ls" -d 'List the invites that this node has given out'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Take invites back, with what they let in. Tasks that an agent has begun go on; those that it has not begun, and that their peers may not send any more, are rejected'
complete -c anycast -n "__fish_anycast_using_subcommand invite; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand join" -l as -d 'The alias for that node [default: the name of its agent, if that is free]' -r
complete -c anycast -n "__fish_anycast_using_subcommand join" -l home -d 'Directory of the daemon\'s key, socket, data, log and settings (config.toml) [default: ~/.agentanycast]' -r -F
complete -c anycast -n "__fish_anycast_using_subcommand join" -l daemon -d 'Use the daemon at this address (unix:///PATH or tcp://HOST:PORT) instead of the home\'s' -r
complete -c anycast -n "__fish_anycast_using_subcommand join" -l relay -d 'Keep this relay in the home\'s settings, for the daemon that the command starts: a multiaddr that ends in /p2p/PEER_ID; can be repeated' -r
complete -c anycast -n "__fish_anycast_using_subcommand join" -l json -d 'Print JSON for scripts'
complete -c anycast -n "__fish_anycast_using_subcommand join" -l no-start -d 'Start no daemon where none runs'
complete -c anycast -n "__fish_anycast_using_subcommand join" -s h -l help -d 'Print help'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "daemon" -d 'Run the daemon in the foreground; takes the options of agentanycastd'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "relay" -d 'Run a relay in the foreground; takes the options of agentanycast-relay'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "bridge" -d 'Run the HTTP bridge in the foreground; takes the options of agentanycast-bridge'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "ps" -d 'List the programs that serve this node\'s agents'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "skills" -d 'List the skills of known agents'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "alias" -d 'Name peers, so that commands take the name for the peer\'s id'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "up" -d 'Start the home\'s daemon in the background, and wait until it is ready'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "down" -d 'Stop the home\'s daemon; what it has accepted is on disk, and goes on when it is started again'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "restart" -d 'Stop the home\'s daemon and start it again, with the settings as they are now'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "logs" -d 'Show what the home\'s daemon has logged'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "config" -d 'Look at and change the settings of the home\'s daemon'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "service" -d 'Have the system start the home\'s daemon at login: a user unit of systemd, or an agent of launchd'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "demo" -d 'Run an echo agent, or a whole exchange between two daemons'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "send" -d 'Send a task and wait for its result'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "reply" -d 'Answer a task that asks for input, and wait for its result'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "retry" -d 'Send a task once more: the same message to the same target'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "run" -d 'Make an agent of a program: it does the tasks that come for it, until Ctrl-C'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "chat" -d 'Talk with an agent: each line is a task in the same conversation'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "status" -d 'Show the daemon'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "peers" -d 'List the connected peers'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "ping" -d 'Ping a peer: whether it answers, how fast, directly or through a relay'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "discover" -d 'Find agents by skill'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "relays" -d 'Show how the daemon is reached through relays, and how it reaches each peer'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "card" -d 'Show an agent\'s card'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "tasks" -d 'List tasks, newest change first'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "task" -d 'Show one task, with what was said and what came out'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "trace" -d 'Say why a task is where it is: each hop, attempt, acknowledgement and refusal, and what to do next'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "top" -d 'Watch what the daemon is doing: tasks, peers, queue, refusals, log'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "cancel" -d 'Cancel a task'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "id" -d 'Show who this node is: peer id and did:key'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "mcp" -d 'Serve MCP on standard input and output: the agents of the network as tools, for a desktop client or an editor'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "doctor" -d 'Look for what keeps the daemon from working, and say what to do; exit code 1 if there is something'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "bugreport" -d 'Write an archive for a report of a fault: settings, log, figures; no keys, no tokens, nothing of what tasks say'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "completions" -d 'Print what a shell completes command lines of anycast with'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "man" -d 'Print a manual page, or write them all'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "policy" -d 'Look at who may send which task, as the daemon\'s settings, its invites and its trust in peers say'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "audit" -d 'Look at audit logs'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "key" -d 'Change the key of this node'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "credential" -d 'Issue and check Verifiable Credentials'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "seal" -d 'Make a box that only one peer and this node can open, for a way on which others can read; writes it to standard output'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "unseal" -d 'Open a box between a peer and this node; writes what is in it to standard output, or nothing'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "uamp" -d 'Sign and check envelopes of the Universal Agent Messaging Protocol, without a daemon'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "trust" -d 'Let a peer use private agents of this node, by its id, until `anycast untrust`'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "untrust" -d 'Take back what `anycast trust` let in. Tasks that an agent has begun go on; those that it has not begun, and that the peer may not send any more, are rejected'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "requests" -d 'List the peers that were refused since they may not use a private agent of this node'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "agents" -d 'List the agents that are known: this node\'s, those nearby, and those that registries tell of'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "invite" -d 'Invite another node: print a string that says how this one is reached, with the right to send it tasks'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "join" -d 'Accept an invite: keep its relay, its right and a name for its node, and see that it answers'
complete -c anycast -n "__fish_anycast_using_subcommand help; and not __fish_seen_subcommand_from daemon relay bridge ps skills alias up down restart logs config service demo send reply retry run chat status peers ping discover relays card tasks task trace top cancel id mcp doctor bugreport completions man policy audit key credential seal unseal uamp trust untrust requests agents invite join help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from alias" -f -a "add" -d 'Give a peer a name'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from alias" -f -a "ls" -d 'List the names that were given'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from alias" -f -a "rm" -d 'Forget names'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "get" -d 'Print the value of a setting, its default where nothing sets it; with --json also where it comes from'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "set" -d 'Set a setting in the home\'s file, after a check of the whole; a daemon that runs takes over rules of [policy] at once, and everything else at its next start'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "schema" -d 'Print a JSON Schema of the settings\' file, by which an editor completes and checks it: type, default, bounds and a description of each setting'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from config" -f -a "unset" -d 'Take a setting out of the home\'s file, so that its default counts'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "install" -d 'Make the service and start it; it starts at each login, and where this user may say so, with the system'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "uninstall" -d 'Stop the service and remove it'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from service" -f -a "status" -d 'Show whether it is there, starts at login, runs, and goes on after the logout; exit code 1 if it does not run'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from policy" -f -a "check" -d 'Say what would become of a task, and what decides: rules, and the agents, invites and trust of the daemon if it runs; exit code 1 if it would be denied'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from policy" -f -a "show" -d 'Show the rules in their order, and what the daemon that runs has beside them: how many invites, and the peers it trusts'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "verify" -d 'Check that no line of a chained audit log was changed, removed or added; exit code 1 if one was'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "rotate" -d 'Make a new key, and a statement by both keys that it follows; the daemon must not run. Peers and registries take the new one for the old one for 30 days'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from credential" -f -a "issue" -d 'Say by a signature that an agent may be trusted and what it can do; prints the credential'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from credential" -f -a "verify" -d 'Check a credential: signature, time, and whether it was taken back; exit code 1 if it does not count'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from credential" -f -a "status-list" -d 'Sign the list of credentials that were taken back, to be served at its URL; prints the list'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from uamp" -f -a "sign" -d 'Write a signed envelope to standard output, as JSON'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from uamp" -f -a "verify" -d 'Check the signature of an envelope whose sender is a did:key; exit code 1 if it is wrong'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from trust" -f -a "ls" -d 'List the peers that this node trusts'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from agents" -f -a "set" -d 'Say who may use an agent of this node, until this says otherwise: no program that registers it changes that'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from agents" -f -a "rm" -d 'Remove an agent of this node for which nobody listens; its tasks that have not ended fail'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from invite" -f -a "ls" -d 'List the invites that this node has given out'
complete -c anycast -n "__fish_anycast_using_subcommand help; and __fish_seen_subcommand_from invite" -f -a "revoke" -d 'Take invites back, with what they let in. Tasks that an agent has begun go on; those that it has not begun, and that their peers may not send any more, are rejected'
