// Package goredis lets holdfast's redisstore use a client of go-redis
// (github.com/redis/go-redis/v9) that the program has already: one server,
// Sentinel or Cluster.
//
//	conn, err := goredis.Conn(client)
//	…
//	store, err := redisstore.New(redisstore.Options{Conn: conn})
//
// The client stays the program's, which closes it after the store.
//
// # What holds whatever the client's options are
//
// No command is sent twice: the option MaxRetries, 3 by default, does not count
// for what a store sends. A call waits at most a second for a connection and then
// at most a second for an answer. A subscription that is dropped is made again by
// the store, and those who wait look again.
//
// # What the options should be
//
// ContextTimeoutEnabled should be set. A client of Redis Cluster needs it, or a
// ReadTimeout of two seconds at most. With it a store that waits for replicas
// (WaitReplicas, WaitFsync) notices a server that is lost in that moment when the
// wait is over, without it ten seconds later. PoolSize bounds how many calls are
// under way at once; grants that wait for replicas take one connection each.
package goredis
