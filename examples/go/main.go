// Uses Undercroft from Go, with cgo only.
//
//	PKG_CONFIG_PATH=/usr/local/lib/pkgconfig go run . undercroft://demo
package main

/*
#cgo pkg-config: undercroft
#include <stdlib.h>
#include <undercroft.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"
)

// Store is an open store, which all goroutines can use concurrently.
type Store struct{ handle *C.uc_store }

// call calls a library function. The library stores the error text per thread, so the goroutine
// stays on its thread until the text is copied.
func call(work func() C.int) (C.int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := work()
	if status < 0 {
		return status, errors.New(C.GoString(C.uc_error_message()))
	}
	return status, nil
}

func pointer(bytes []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(bytes)) }

// Open opens a store, creating it if it does not exist.
func Open(url string) (*Store, error) {
	name := C.CString(url)
	defer C.free(unsafe.Pointer(name))
	store := &Store{}
	_, err := call(func() C.int { return C.uc_open(name, nil, &store.handle) })
	return store, err
}

// Close closes a store.
func (store *Store) Close() { C.uc_close(store.handle) }

// Set sets a key to a string.
func (store *Store) Set(key, value []byte) error {
	_, err := call(func() C.int {
		return C.uc_set(store.handle, pointer(key), C.size_t(len(key)), pointer(value), C.size_t(len(value)))
	})
	return err
}

// Get returns the string value of a key, or nil if the key does not exist.
func (store *Store) Get(key []byte) ([]byte, error) {
	buffer := make([]byte, 64)
	for {
		var length C.size_t
		status, err := call(func() C.int {
			return C.uc_get(store.handle, pointer(key), C.size_t(len(key)),
				pointer(buffer), C.size_t(len(buffer)), &length)
		})
		switch {
		case err != nil || status == C.UC_NONE:
			return nil, err
		case status == C.UC_OK:
			return buffer[:length], nil
		}
		buffer = make([]byte, length)
	}
}

// Incr adds a number to the integer value of a key.
func (store *Store) Incr(key []byte, by int64) (int64, error) {
	var sum C.int64_t
	_, err := call(func() C.int {
		return C.uc_incr(store.handle, pointer(key), C.size_t(len(key)), C.int64_t(by), &sum)
	})
	return int64(sum), err
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	return value
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . STORE, such as undercroft://demo")
		os.Exit(2)
	}
	store := must(Open(os.Args[1]))
	defer store.Close()
	long := make([]byte, 1000)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	must(0, store.Set([]byte("go:greeting"), []byte("hello from Go")))
	must(0, store.Set([]byte("go:long"), long))
	fmt.Println(string(must(store.Get([]byte("go:greeting")))))
	fmt.Println(len(must(store.Get([]byte("go:long")))), "bytes,",
		must(store.Get([]byte("go:none"))) == nil)

	var group sync.WaitGroup
	for range [8]int{} {
		group.Add(1)
		go func() {
			defer group.Done()
			for range [1000]int{} {
				must(store.Incr([]byte("go:count"), 1))
			}
		}()
	}
	group.Wait()
	fmt.Println(must(store.Incr([]byte("go:count"), 0)))
	_, err := store.Incr([]byte("go:greeting"), 1)
	fmt.Println(err)
}
