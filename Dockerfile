# The programs of AgentAnycast as images, one target each: relay, node (daemon and command), agent (an echo agent).
#   docker build --target relay --build-arg REVISION="$(git rev-parse --short HEAD)" -t agentanycast-relay .
# docker-compose.yml runs all of them. tests/tests/deploy checks what is in here.

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# What --version shows besides the version.
ARG REVISION=""
ENV AGENTANYCAST_REVISION=$REVISION
RUN cargo build --locked --release -p anycast --features full --bin anycast
# One program, which is each of these by its name.
RUN mkdir -p /out && cp target/release/anycast /out/ && ln -s anycast /out/agentanycastd && ln -s anycast /out/agentanycast-relay

FROM debian:bookworm-slim AS base
ARG VERSION="0.1.0"
ARG REVISION=""
LABEL org.opencontainers.image.title="AgentAnycast" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/agentanycast/agentanycast" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION
# The authorities by which registries and collectors behind TLS are believed: what ca-certificates makes there.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/ /usr/local/bin/
# One user for all: a daemon lets in only its own user, and agents in other containers share its socket.
RUN groupadd --system --gid 10001 agentanycast && useradd --system --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/agentanycast agentanycast
RUN install -d -m 0700 -o agentanycast -g agentanycast /var/lib/agentanycast /run/agentanycast
ENV HOME=/var/lib/agentanycast
WORKDIR /var/lib/agentanycast
# By number, so that an orchestrator can tell that it is not root.
USER 10001:10001
STOPSIGNAL SIGTERM

FROM base AS relay
VOLUME /var/lib/agentanycast
# Nodes; agents and other relays; monitor; directory and dashboard.
EXPOSE 4001/tcp 4001/udp 50052/tcp 9090/tcp 8081/tcp
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9090 && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '200 OK' <&3"]
ENTRYPOINT ["agentanycast-relay"]
CMD ["--key=/var/lib/agentanycast/relay.key", "--store=/var/lib/agentanycast/registry"]

FROM base AS node
VOLUME /var/lib/agentanycast
EXPOSE 4002/tcp 4002/udp
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
  CMD ["anycast", "--daemon=unix:///run/agentanycast/daemon.sock", "status"]
ENTRYPOINT ["agentanycastd"]
CMD ["--key=/var/lib/agentanycast/node.key", "--store-path=/var/lib/agentanycast/data", \
     "--grpc-listen=unix:///run/agentanycast/daemon.sock", \
     "--listen=/ip4/0.0.0.0/tcp/4002,/ip4/0.0.0.0/udp/4002/quic-v1,/ip6/::/tcp/4002,/ip6/::/udp/4002/quic-v1"]

FROM base AS agent
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
  CMD ["anycast", "--daemon=unix:///run/agentanycast/daemon.sock", "card"]
ENTRYPOINT ["anycast"]
CMD ["--daemon=unix:///run/agentanycast/daemon.sock", "demo"]
