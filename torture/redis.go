package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/internal/redistest"
	"github.com/holdfastlock/holdfast/redisstore"
	"github.com/holdfastlock/holdfast/torture/history"
	"github.com/holdfastlock/holdfast/torture/nemesis"
)

// prefix begins the key of each lock.
const prefix = redisstore.DefaultPrefix

// onDisk are the options of one of many servers that share a disk: what it has
// answered survives its end, not that of the machine.
func onDisk() redistest.Options {
	return redistest.Options{AppendOnly: true, Args: []string{"--appendfsync", "no"}}
}

// locksOf returns the locks that any of the servers has, and by whom they are held.
func locksOf(servers ...*redistest.Process) (map[string]string, error) {
	left := make(map[string]string)
	for _, server := range servers {
		keys, err := server.Do("KEYS", prefix+"*").AsStrSlice()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix+"~") {
				continue
			}
			token, err := server.Do("GET", key).ToString()
			if err == nil { // else it has just ended
				left[strings.TrimPrefix(key, prefix)] = "held by " + token
			}
		}
	}
	return left, nil
}

// placesOf returns the places in queues that any of the servers has, but for those
// of owners who were killed.
func placesOf(killed map[string]bool, servers ...*redistest.Process) (map[string]string, error) {
	left := make(map[string]string)
	for _, server := range servers {
		queues, err := server.Do("KEYS", prefix+"~q:*").AsStrSlice()
		if err != nil {
			return nil, err
		}
		for _, queue := range queues {
			waiters, err := server.Do("ZRANGE", queue, "0", "-1").AsStrSlice()
			if err != nil {
				return nil, err
			}
			for _, waiter := range waiters {
				_, token, _ := strings.Cut(waiter, "\n")
				if !killed[driver.Holder{Token: token}.Owner()] {
					left[queue] = "a place for " + token
				}
			}
		}
	}
	return left, nil
}

// versionsOf returns what a server is and its version.
func versionsOf(server *redistest.Process) map[string]string {
	info, _ := server.Do("INFO", "server").ToString() // without: unknown
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[key] = value
	}
	if version := fields["valkey_version"]; version != "" {
		return map[string]string{"valkey": version}
	}
	return map[string]string{"redis": fields["redis_version"]}
}

func isPrimary(server *redistest.Process) bool {
	role, _ := server.Do("ROLE").ToArray() // without: it is not known to be one
	if len(role) == 0 {
		return false
	}
	name, _ := role[0].ToString()
	return name == "master"
}

// untilPromoted waits until one of the replicas is a primary. None was one at
// since, and it returns the last time of which it knows that: two servers may have
// been used from then on.
func untilPromoted(since int64, replicas ...*redistest.Process) (int64, error) {
	for deadline := time.Now().Add(syncWithin); ; time.Sleep(syncPoll) {
		asked := history.Now()
		if slices.ContainsFunc(replicas, isPrimary) {
			return since, nil
		}
		since = asked
		if time.Now().After(deadline) {
			return since, fmt.Errorf("no replica was promoted within %v", syncWithin)
		}
	}
}

// promotion is the event that a fault has had another server in a server's place,
// not before since.
func promotion(f nemesis.Fault, since int64) history.Event {
	return history.Event{At: since, Kind: history.Promoted, Process: nemesis.Process, Op: f.Op, Fault: f.Kind.Name}
}
