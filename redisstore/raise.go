package redisstore

import (
	"context"

	"github.com/holdfastlock/holdfast/driver"
)

// RaiseFence implements driver.FenceRaiser: one script, one round trip. It is not
// waited for with WaitReplicas or WaitFsync.
func (s *Store) RaiseFence(ctx context.Context, req driver.RaiseRequest) (driver.Answer, error) {
	k, err := keysOf(s.prefix, req.Name)
	if err != nil {
		return 0, err
	}
	if err := s.restart.look(ctx, s.connection); err != nil {
		return 0, err
	}
	r := run{keys: []string{k.lock, k.companion()}, args: []string{req.Token, decimal(req.Last)}}
	return either(ctx, s, k.lock, func() (driver.Answer, error) {
		return ask(ctx, s.connection, func(ctx context.Context, conn Conn) (driver.Answer, error) {
			return answerOf(call(ctx, conn, raiseScript, r))
		})
	}, func() (driver.Answer, error) { return s.raisePlain(ctx, k, req) })
}
