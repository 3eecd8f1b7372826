// A peer on go-libp2p for the tests of interoperability (tests/tests/foreign/golang.rs). It prints a line of JSON
// for all that happens, and ends with its standard input.
//
// Usage: interop relay          a circuit relay on the loopback
//
//	interop peer RELAY     a peer that reserves a place at this relay, and takes agent cards
//
// Says:  ready {peer_id, addresses}, card {hex}
package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/multiformats/go-multiaddr"
)

const card = "/agentanycast/card/1.0"

// A frame is no longer than this.
const maxFrame = 1 << 20

func say(event string, facts map[string]any) {
	facts["event"] = event
	line, err := json.Marshal(facts)
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var here host.Host
	var err error
	addresses := func() []string {
		var all []string
		for _, address := range here.Network().ListenAddresses() {
			all = append(all, fmt.Sprintf("%s/p2p/%s", address, here.ID()))
		}
		return all
	}
	if len(os.Args) == 2 && os.Args[1] == "relay" {
		// A relay of this kind names public addresses only, and a test has none.
		public := multiaddr.StringCast("/ip4/45.10.0.9/tcp/4001")
		here, err = libp2p.New(
			libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"),
			libp2p.DisableRelay(), // The client, which would list an address of its own.
			libp2p.ForceReachabilityPublic(),
			libp2p.AddrsFactory(func(own []multiaddr.Multiaddr) []multiaddr.Multiaddr {
				return append(own, public)
			}),
		)
		check(err)
		_, err = relay.New(here)
		check(err)
		say("ready", map[string]any{"peer_id": here.ID().String(), "addresses": addresses()})
	} else if len(os.Args) == 3 && os.Args[1] == "peer" {
		here, err = libp2p.New(libp2p.NoListenAddrs, libp2p.EnableRelay())
		check(err)
		here.SetStreamHandler(card, takeCard)
		at, err := peer.AddrInfoFromString(os.Args[2])
		check(err)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		check(here.Connect(ctx, *at))
		_, err = client.Reserve(ctx, here, *at)
		check(err)
		circuit := fmt.Sprintf("%s/p2p-circuit/p2p/%s", os.Args[2], here.ID())
		say("ready", map[string]any{"peer_id": here.ID().String(), "addresses": []string{circuit}})
	} else {
		check(fmt.Errorf("usage: interop relay | interop peer RELAY"))
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	check(here.Close())
}

// The opener writes its card; a peer without one closes.
func takeCard(stream network.Stream) {
	var length uint32
	if binary.Read(stream, binary.BigEndian, &length) != nil || length > maxFrame {
		_ = stream.Reset()
		return
	}
	bytes := make([]byte, length)
	if _, err := io.ReadFull(stream, bytes); err != nil {
		_ = stream.Reset()
		return
	}
	say("card", map[string]any{"hex": hex.EncodeToString(bytes)})
	_ = stream.Close()
}
