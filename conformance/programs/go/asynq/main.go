// Asynq: a server runs immediate, delayed, retried and grouped tasks from queues, and an inspector
// lists them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// patience is the time limit for each wait.
const patience = 20 * time.Second

var attempts, ticks atomic.Int64

func check(holds bool, words string, values ...any) {
	if !holds {
		log.Fatalf(words, values...)
	}
}

func must[T any](value T, err error) T {
	check(err == nil, "unexpected error: %v", err)
	return value
}

// eventually polls until a condition holds, because no event announces the condition.
func eventually(words string, holds func() bool) {
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		check(time.Now().Before(end), "not in time: %s", words)
	}
}

func add(_ context.Context, task *asynq.Task) error {
	var numbers []int
	if err := json.Unmarshal(task.Payload(), &numbers); err != nil {
		return err
	}
	sum := 0
	for _, number := range numbers {
		sum += number
	}
	_, err := task.ResultWriter().Write([]byte(fmt.Sprint(sum)))
	return err
}

func failOnce(context.Context, *asynq.Task) error {
	if attempts.Add(1) < 2 {
		return errors.New("the first time")
	}
	return nil
}

func fail(context.Context, *asynq.Task) error {
	return fmt.Errorf("always: %w", asynq.SkipRetry)
}

func tick(context.Context, *asynq.Task) error {
	ticks.Add(1)
	return nil
}

// together merges the numbers of a group's tasks into one task.
func together(_ string, tasks []*asynq.Task) *asynq.Task {
	var all []int
	for _, task := range tasks {
		var numbers []int
		check(json.Unmarshal(task.Payload(), &numbers) == nil, "a payload that is no list")
		all = append(all, numbers...)
	}
	return asynq.NewTask("add", must(json.Marshal(all)), asynq.Retention(time.Minute), asynq.TaskID("group"))
}

func main() {
	place := must(asynq.ParseRedisURI(os.Args[1]))
	client := asynq.NewClient(place)
	inspector := asynq.NewInspector(place)
	keep := asynq.Retention(time.Minute)
	task := func(numbers ...int) *asynq.Task { return asynq.NewTask("add", must(json.Marshal(numbers))) }
	result := func(queue, id string) string {
		var info *asynq.TaskInfo
		eventually("the task "+id, func() bool {
			info, _ = inspector.GetTaskInfo(queue, id)
			return info != nil && info.State == asynq.TaskStateCompleted
		})
		return string(info.Result)
	}

	var early []*asynq.TaskInfo
	for number := range 20 {
		early = append(early, must(client.Enqueue(task(number, 1), keep, asynq.Queue("low"))))
	}
	_, err := client.Enqueue(task(1), asynq.TaskID("once"), keep, asynq.ProcessIn(time.Hour))
	check(err == nil, "unexpected error: %v", err)
	_, err = client.Enqueue(task(1), asynq.TaskID("once"))
	check(errors.Is(err, asynq.ErrTaskIDConflict), "expected a conflict, got %v", err)
	_, err = client.Enqueue(task(2), asynq.Unique(time.Minute), asynq.ProcessIn(time.Hour))
	check(err == nil, "unexpected error: %v", err)
	_, err = client.Enqueue(task(2), asynq.Unique(time.Minute))
	check(errors.Is(err, asynq.ErrDuplicateTask), "expected a duplicate, got %v", err)

	server := asynq.NewServer(place, asynq.Config{
		Concurrency:              4,
		Queues:                   map[string]int{"default": 3, "low": 1},
		TaskCheckInterval:        100 * time.Millisecond,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 10 * time.Millisecond },
		GroupAggregator:          asynq.GroupAggregatorFunc(together),
		GroupGracePeriod:         time.Second,
		LogLevel:                 asynq.FatalLevel,
	})
	handlers := asynq.NewServeMux()
	handlers.HandleFunc("add", add)
	handlers.HandleFunc("fail once", failOnce)
	handlers.HandleFunc("fail", fail)
	handlers.HandleFunc("tick", tick)
	check(server.Start(handlers) == nil, "the server does not start")

	begun := time.Now()
	later := must(client.Enqueue(task(20, 22), keep, asynq.ProcessIn(time.Second)))
	check(later.State == asynq.TaskStateScheduled, "expected a scheduled task, got %v", later.State)
	for number, info := range early {
		check(result("low", info.ID) == fmt.Sprint(number+1), "a wrong sum of %d", number)
	}
	again := must(client.Enqueue(asynq.NewTask("fail once", nil), keep))
	result("default", again.ID)
	check(attempts.Load() == 2, "expected two attempts, got %d", attempts.Load())
	failed := must(client.Enqueue(asynq.NewTask("fail", nil)))
	eventually("a task in the archive", func() bool {
		info, _ := inspector.GetTaskInfo("default", failed.ID)
		return info != nil && info.State == asynq.TaskStateArchived
	})
	for number := range 3 {
		must(client.Enqueue(task(number), asynq.Group("numbers")))
	}
	check(result("default", later.ID) == "42", "a wrong sum of the later task")
	// Compare whole seconds, because Asynq schedules in whole seconds.
	check(time.Now().Unix() > begun.Unix(), "the later task ran early")
	check(result("default", "group") == "3", "a wrong sum of the group")

	scheduler := asynq.NewScheduler(place, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	must(scheduler.Register("@every 1s", asynq.NewTask("tick", nil)))
	check(scheduler.Start() == nil, "the scheduler does not start")
	eventually("a tick", func() bool { return ticks.Load() > 0 })
	scheduler.Shutdown()

	check(len(must(inspector.Servers())) == 1, "expected one server")
	queue := must(inspector.GetQueueInfo("default"))
	check(queue.Archived == 1 && queue.Scheduled == 2, "a wrong account of the queue: %+v", queue)
	check(inspector.DeleteTask("default", "once") == nil, "the task is not deleted")
	check(inspector.PauseQueue("low") == nil, "the queue is not paused")
	server.Shutdown()
	check(must(inspector.GetQueueInfo("low")).Paused, "the queue is not paused")
}
