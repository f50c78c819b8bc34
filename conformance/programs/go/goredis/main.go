// go-redis over TLS: both sides present certificates; values, pipelines, messages, a user.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is the time limit for the program's connections.
const patience = 20 * time.Second

var files = os.Getenv("PROGRAM_CERTIFICATES")

func check(holds bool, words string, values ...any) {
	if !holds {
		log.Fatalf(words, values...)
	}
}

func must[T any](value T, err error) T {
	check(err == nil, "unexpected error: %v", err)
	return value
}

// connect returns a client of the server that the program tests.
func connect(configuration *tls.Config) *redis.Client {
	options := must(redis.ParseURL(os.Args[1]))
	configuration.ServerName = "localhost"
	options.TLSConfig = configuration
	options.MaxRetries = -1
	return redis.NewClient(options)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	authorities := x509.NewCertPool()
	check(authorities.AppendCertsFromPEM(must(os.ReadFile(filepath.Join(files, "ca.pem")))), "no authority")
	own := must(tls.LoadX509KeyPair(filepath.Join(files, "client.pem"), filepath.Join(files, "client.key")))
	both := func() *tls.Config {
		return &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{own}}
	}

	client := connect(both())
	for _, size := range []int{0, 1, 16_383, 16_384, 16_385, 1_000_000} {
		value := make([]byte, size)
		must(rand.Read(value))
		check(client.Set(ctx, "value", value, 0).Err() == nil, "SET of %d bytes", size)
		check(bytes.Equal(must(client.Get(ctx, "value").Bytes()), value), "GET of %d bytes", size)
	}
	var replies []*redis.StringCmd
	must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 2_000 {
			pipe.Set(ctx, "key:"+strconv.Itoa(number), number, 0)
			replies = append(replies, pipe.Get(ctx, "key:"+strconv.Itoa(number)))
		}
		return nil
	}))
	for number, reply := range replies {
		check(must(reply.Int()) == number, "a pipeline's reply %d", number)
	}

	subscriber := client.Subscribe(ctx, "news")
	must(subscriber.Receive(ctx))
	check(must(client.Publish(ctx, "news", strings.Repeat("m", 50_000)).Result()) == 1, "PUBLISH")
	check(must(subscriber.ReceiveMessage(ctx)).Payload == strings.Repeat("m", 50_000), "a message")

	must(client.Do(ctx, "ACL", "SETUSER", "ann", "on", ">secret", "~a:*", "+get", "+hello", "+client").Result())
	ann := connect(both())
	ann.Options().Username, ann.Options().Password = "ann", "secret"
	check(errors.Is(ann.Get(ctx, "a:1").Err(), redis.Nil), "ann may read a:1")
	err := ann.Get(ctx, "b:1").Err()
	check(err != nil && strings.HasPrefix(err.Error(), "NOPERM"), "expected NOPERM, got %v", err)
	must(client.Do(ctx, "ACL", "DELUSER", "ann").Result())

	err = connect(&tls.Config{Certificates: []tls.Certificate{own}}).Ping(ctx).Err()
	var unknown x509.UnknownAuthorityError
	check(errors.As(err, &unknown), "expected an unknown authority, got %v", err)
	err = connect(&tls.Config{RootCAs: authorities}).Ping(ctx).Err()
	check(err != nil, "a client without a certificate was accepted")
}
