package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// rawToken has the length of a token of holdfast's. It is the same each time:
// the bare client does no more than send the commands.
const rawToken = "00000000000000000000000000000000@host/12345"

// Arguments of the scripts, as redisstore passes them for lockTTL.
var (
	rawTTL     = strconv.FormatInt(lockTTL.Milliseconds(), 10)
	rawKeepTTL = strconv.FormatInt((24 * time.Hour).Milliseconds(), 10)
)

// rawLocks is the bare client, sending the commands that holdfast sends and
// doing nothing else: no new token, no deadline, no keep-alive, no retry.
type rawLocks struct {
	client           rueidis.Client
	acquire, release *rueidis.Lua
}

// openRaw makes a client with the options that redisstore sets.
func openRaw(addr string, p plan) (*rawLocks, error) {
	acquire, err := os.ReadFile(filepath.Join(p.scripts, "acquire.lua"))
	if err != nil {
		return nil, err
	}
	release, err := os.ReadFile(filepath.Join(p.scripts, "release.lua"))
	if err != nil {
		return nil, err
	}
	option := rueidis.ClientOption{
		InitAddress: []string{addr}, AlwaysPipelining: true, DisableRetry: true, DisableCache: true,
		PipelineMultiplex: -1, MaxFlushDelay: 20 * time.Microsecond, ConnWriteTimeout: 500 * time.Millisecond,
	}
	option.Dialer.Timeout, option.Dialer.KeepAlive = time.Second, 250*time.Millisecond
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	return &rawLocks{
		client:  client,
		acquire: rueidis.NewLuaScript(string(acquire)), release: rueidis.NewLuaScript(string(release)),
	}, nil
}

func (r *rawLocks) Close() { r.client.Close() }

// free runs redisstore's script release.
func (r *rawLocks) free(ctx context.Context, key string) error {
	keys := []string{"lock:" + key, "lock:~x:{lock:" + key + "}:" + rawToken}
	args := []string{rawToken, "0", "lock:~c:{lock:" + key + "}"}
	answer, err := r.release.Exec(ctx, r.client, keys, args).ToString()
	if err == nil && answer != "mine" {
		err = fmt.Errorf("release of %s: %s", key, answer)
	}
	return err
}

// rawFenced acquires by redisstore's script acquire.
type rawFenced struct{ *rawLocks }

func openRawFenced(addr string, p plan) (locks, error) {
	r, err := openRaw(addr, p)
	return rawFenced{r}, err
}

func (r rawFenced) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	keys := []string{"lock:" + key, "lock:~f:{lock:" + key + "}", "lock:~x:{lock:" + key + "}:" + rawToken}
	args := []string{rawToken, rawTTL, rawKeepTTL, "", "15"}
	answer, err := r.acquire.Exec(ctx, r.client, keys, args).ToArray()
	if err != nil {
		return nil, err
	}
	if status, _ := answer[0].ToString(); status != "granted" {
		return nil, fmt.Errorf("acquire of %s: %s", key, status)
	}
	return func(ctx context.Context) error { return r.free(ctx, key) }, nil
}

// rawBare acquires by SET NX PX.
type rawBare struct{ *rawLocks }

func openRawBare(addr string, p plan) (locks, error) {
	r, err := openRaw(addr, p)
	return rawBare{r}, err
}

func (r rawBare) Acquire(ctx context.Context, key string) (func(context.Context) error, error) {
	set := r.client.B().Set().Key("lock:" + key).Value(rawToken).Nx().PxMilliseconds(lockTTL.Milliseconds()).Build()
	if err := r.client.Do(ctx, set).Error(); err != nil {
		return nil, fmt.Errorf("acquire of %s: %w", key, err)
	}
	return func(ctx context.Context) error { return r.free(ctx, key) }, nil
}
