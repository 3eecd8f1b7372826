// An A2A 0.3 client on the official Go SDK for the tests in tests/tests/foreign/a2a.rs.
//
//	a2a-go HOST:PORT   sends files over gRPC and prints what comes back, a line each
package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	place := []a2a.AgentInterface{{URL: os.Args[1], Transport: a2a.TransportProtocolGRPC}}
	client, err := a2aclient.NewFromEndpoints(ctx, place, a2aclient.WithGRPCTransport(plain))
	check(err)
	image := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	// The second file has no sign of its own: the first one has told how this client sends files.
	for _, sent := range []struct {
		bytes []byte
		mime  string
	}{{image, "image/png"}, {[]byte("plain text"), "text/plain"}} {
		file := a2a.FileBytes{
			FileMeta: a2a.FileMeta{Name: "file", MimeType: sent.mime},
			Bytes:    base64.StdEncoding.EncodeToString(sent.bytes),
		}
		message := a2a.NewMessage(a2a.MessageRoleUser, a2a.TextPart{Text: "echo"}, a2a.FilePart{File: file})
		blocking := true
		params := &a2a.MessageSendParams{Message: message, Config: &a2a.MessageSendConfig{Blocking: &blocking}}
		answer, err := client.SendMessage(ctx, params)
		check(err)
		task := answer.(*a2a.Task)
		show(task)
		again, err := client.GetTask(ctx, &a2a.TaskQueryParams{ID: task.ID})
		check(err)
		show(again)
		for event, err := range client.SendStreamingMessage(ctx, params) {
			check(err)
			if update, is := event.(*a2a.TaskArtifactUpdateEvent); is {
				showParts(update.Artifact.Parts)
			}
		}
	}
	fmt.Println("done")
}

func show(task *a2a.Task) {
	for _, artifact := range task.Artifacts {
		showParts(artifact.Parts)
	}
}

func showParts(parts a2a.ContentParts) {
	for _, part := range parts {
		if file, is := part.(a2a.FilePart); is {
			bytes, err := base64.StdEncoding.DecodeString(file.File.(a2a.FileBytes).Bytes)
			check(err)
			fmt.Printf("%q\n", bytes)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
