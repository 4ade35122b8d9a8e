package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
)

// checkPrimary returns an error if the sentinels name another primary than the
// server that the client has connected to again. After a loss the client dials
// the address that it has, and asks no sentinel: if a primary was killed and
// replaced, and comes back, it would be given grants until the sentinels get
// round to telling the clients, and to making it a replica, about a second later.
//
// Before the first loss there is nothing to check: the client has just asked.
// Those who ask after the same loss share the answer.
func (c *connection) checkPrimary(losses int) error {
	if c.option.Sentinel.MasterSet == "" || losses == 0 {
		return nil
	}
	_, err, _ := c.checks.Do(strconv.Itoa(losses), func() (any, error) {
		used, named := c.primaryElsewhere()
		if named == "" {
			return nil, nil
		}
		c.leave()
		return nil, &driver.Error{
			Kind: driver.ErrUnreachable,
			Err:  fmt.Errorf("the sentinels name %s as the primary, no longer %s", named, used),
			Hint: "a failover is under way",
		}
	})
	return err
}

// primaryElsewhere returns the address that the client uses and the primary's,
// if most of the sentinels that answer name another; one that is cut off from
// the rest does not stop the locks. Nor do sentinels that are all down or silent:
// locks need the primary, which may be well, and nothing is held against it.
func (c *connection) primaryElsewhere() (used, named string) {
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	if client == nil {
		return "", ""
	}
	servers := slices.Collect(maps.Keys(client.Nodes()))
	if len(servers) != 1 { // it uses replicas too, and does not tell which is which
		return "", ""
	}
	used = servers[0]
	sentinels := c.option.InitAddress
	answers := make(chan string, len(sentinels))
	var asked sync.WaitGroup
	defer asked.Wait()
	ctx, cancel := context.WithTimeout(c.life, c.option.Sentinel.Dialer.Timeout)
	defer cancel()
	for _, sentinel := range sentinels {
		asked.Go(func() { answers <- c.primaryBy(ctx, sentinel) })
	}
	var same, other int
	for left := len(sentinels); left > 0 && max(same, other) <= len(sentinels)/2; left-- {
		switch answer := <-answers; {
		case answer == "":
		case c.differ(ctx, used, answer):
			other, named = other+1, answer
		default:
			same++
		}
	}
	if other <= same {
		return used, ""
	}
	return used, named
}

// primaryBy returns the address of the primary by one sentinel, "" if it does not
// tell before ctx ends. The connection is made as the client makes those to
// sentinels, but its end is no loss to the calls.
func (c *connection) primaryBy(ctx context.Context, sentinel string) string {
	option := c.option.Sentinel
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{sentinel}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		Username: option.Username, Password: option.Password, ClientName: option.ClientName,
		AuthCredentialsFn: c.option.AuthCredentialsFn, AlwaysRESP2: c.option.AlwaysRESP2,
		Dialer: option.Dialer, TLSConfig: option.TLSConfig,
		DialCtxFn: func(_ context.Context, address string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
			conn, err := c.unwatched(ctx, address, d, secure)
			if err == nil { // the greeting does not look at ctx
				context.AfterFunc(ctx, func() { _ = conn.Close() })
			}
			return conn, err
		},
	})
	if client != nil {
		defer client.Close()
	}
	if err != nil {
		return ""
	}
	at, err := client.Do(ctx, client.B().SentinelGetMasterAddrByName().Master(option.MasterSet).Build()).AsStrSlice()
	if err != nil || len(at) != 2 {
		return ""
	}
	return net.JoinHostPort(at[0], at[1])
}

// differ says whether two addresses are surely not the same. Some sentinels may
// tell names and others numbers.
func (c *connection) differ(ctx context.Context, one, other string) bool {
	host1, port1, err1 := net.SplitHostPort(one)
	host2, port2, err2 := net.SplitHostPort(other)
	if one == other || err1 != nil || err2 != nil {
		return false
	}
	if port1 != port2 {
		return true
	}
	addrs1, err1 := c.addrs(ctx, host1)
	addrs2, err2 := c.addrs(ctx, host2)
	common := slices.ContainsFunc(addrs1, func(addr netip.Addr) bool { return slices.Contains(addrs2, addr) })
	return err1 == nil && err2 == nil && !common
}

func (c *connection) addrs(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := c.option.Dialer.Resolver.LookupNetIP(ctx, "ip", host)
	for i, addr := range addrs {
		addrs[i] = addr.Unmap()
	}
	return addrs, err
}
