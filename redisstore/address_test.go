package redisstore

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
)

// What becomes of an address that is not what it was taken for is tested in
// package open, by URL.

func TestALeaseLongerThanARestartedServerAbstainsIsRefused(t *testing.T) {
	nowhere := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}} // it is not asked
	store := openWith(t, Options{Client: nowhere, AbstainAfterRestart: time.Second})
	req := request("x")
	req.TTL = time.Second + 1
	_, err := store.Acquire(within(t), req)
	wantKind(t, err, driver.ErrMisconfigured)
	extension := driver.ExtendRequest{Name: req.Name, Token: req.Token, TTL: req.TTL}
	wantKind(t, store.Extend(within(t), []driver.ExtendRequest{extension})[0].Err, driver.ErrMisconfigured)
}

func TestAConnAndClusterContradictEachOther(t *testing.T) {
	_, err := New(Options{Conn: rueidisConn{}, Cluster: true})
	wantKind(t, err, driver.ErrMisconfigured)
}
