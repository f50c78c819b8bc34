// Machinery: a worker runs tasks, chains, groups and chords, retries them, and delays some.
package main

import (
	"errors"
	"io"
	standard "log"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/RichardKnop/machinery/v2"
	backend "github.com/RichardKnop/machinery/v2/backends/redis"
	broker "github.com/RichardKnop/machinery/v2/brokers/redis"
	"github.com/RichardKnop/machinery/v2/config"
	lock "github.com/RichardKnop/machinery/v2/locks/eager"
	"github.com/RichardKnop/machinery/v2/log"
	"github.com/RichardKnop/machinery/v2/tasks"
)

var attempts atomic.Int64

func check(holds bool, words string, values ...any) {
	if !holds {
		standard.Fatalf(words, values...)
	}
}

func must[T any](value T, err error) T {
	check(err == nil, "unexpected error: %v", err)
	return value
}

func add(numbers ...int64) (int64, error) {
	var sum int64
	for _, number := range numbers {
		sum += number
	}
	return sum, nil
}

func failOnce() (int64, error) {
	if attempts.Add(1) < 2 {
		return 0, tasks.NewErrRetryTaskLater("the first time", 100*time.Millisecond)
	}
	return attempts.Load(), nil
}

func fail() (int64, error) {
	return 0, errors.New("always")
}

func task(name string, numbers ...int64) *tasks.Signature {
	signature := &tasks.Signature{Name: name}
	for _, number := range numbers {
		signature.Args = append(signature.Args, tasks.Arg{Type: "int64", Value: number})
	}
	return signature
}

func main() {
	place := strings.TrimSuffix(strings.TrimPrefix(os.Args[1], "redis://"), "/0")
	log.Set(standard.New(io.Discard, "", 0))
	settings := &config.Config{
		DefaultQueue:    "queue",
		ResultsExpireIn: 60,
		Redis:           &config.RedisConfig{NormalTasksPollPeriod: 100, DelayedTasksPollPeriod: 100},
	}
	addresses := []string{place}
	server := machinery.NewServer(settings, broker.NewGR(settings, addresses, 0),
		backend.NewGR(settings, addresses, 0), lock.New())
	check(server.RegisterTasks(map[string]any{"add": add, "fail once": failOnce, "fail": fail}) == nil,
		"the tasks are not known")
	ends := make(chan error, 1)
	worker := server.NewWorker("worker", 4)
	worker.LaunchAsync(ends)
	const often = 10 * time.Millisecond
	const patience = 20 * time.Second

	begun := time.Now()
	soon := begun.UTC().Add(time.Second)
	timed := task("add", 20, 22)
	timed.ETA = &soon
	later := must(server.SendTask(timed))
	for number := range int64(20) {
		result := must(must(server.SendTask(task("add", number, 1))).GetWithTimeout(patience, often))
		check(result[0].Int() == number+1, "a wrong sum of %d", number)
	}
	chain := must(server.SendChain(must(tasks.NewChain(task("add", 1, 2), task("add", 10), task("add", 100)))))
	check(must(chain.GetWithTimeout(patience, often))[0].Int() == 113, "a wrong sum of the chain")
	parts := func() *tasks.Group { return must(tasks.NewGroup(task("add", 1), task("add", 2), task("add", 3))) }
	for number, result := range must(server.SendGroup(parts(), 2)) {
		sum := must(result.GetWithTimeout(patience, often))[0].Int()
		check(sum == int64(number)+1, "a wrong sum in the group: %d", sum)
	}
	chord := must(server.SendChord(must(tasks.NewChord(parts(), task("add"))), 2))
	check(must(chord.GetWithTimeout(patience, often))[0].Int() == 6, "a wrong sum of the chord")
	again := must(server.SendTask(task("fail once")))
	check(must(again.GetWithTimeout(patience, often))[0].Int() == 2, "expected two attempts")
	_, err := must(server.SendTask(task("fail"))).GetWithTimeout(patience, often)
	check(err != nil && err.Error() == "always", "expected an error, got %v", err)
	check(must(later.GetWithTimeout(patience, often))[0].Int() == 42, "a wrong sum of the later task")
	check(time.Since(begun) >= time.Second, "the later task ran early")
	check(len(must(server.GetBroker().GetPendingTasks("queue"))) == 0, "a task was left")
	worker.Quit()
	<-ends
}
