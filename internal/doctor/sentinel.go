package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/redisstore"
)

// watcher is one Sentinel, and what it says of the primary.
type watcher struct {
	*server
	primary string            // host:port
	state   map[string]string // SENTINEL MASTER
	others  []string          // the other sentinels that it knows
}

// examineSentinel examines the sentinels, and the primary that they name.
func examineSentinel(ctx context.Context, r *report, options redisstore.Options) error {
	master := options.Client.Sentinel.MasterSet
	named := options.Client.InitAddress
	watchers, silent, err := sentinels(ctx, r, options)
	if err != nil {
		return err
	}
	defer func() {
		for _, w := range watchers {
			w.client.Close()
		}
	}()
	watch := r.at("sentinels")
	answering(watch, watchers, silent)
	agreement(watch, watchers)
	canFailOver(ctx, watch, watchers[0], master)
	standby(watch, watchers[0])
	ms, _ := strconv.ParseInt(watchers[0].state["down-after-milliseconds"], 10, 64)
	judgeFailover(watch, "down-after-milliseconds", time.Duration(ms)*time.Millisecond, "SENTINEL SET "+master+" down-after-milliseconds %d")
	if all := len(watchers) + len(silent); len(named) < min(all, 2) {
		watch.add(Note, "named", fmt.Sprintf("the URL names %d of %d sentinels", len(named), all),
			"while that one is down, a program that starts does not find the primary", "name all of them in the URL")
	}
	return examinePrimary(ctx, r, options, watchers[0].primary)
}

// examinePrimary examines the server that the sentinels name.
func examinePrimary(ctx context.Context, r *report, options redisstore.Options, address string) error {
	own := r.at(address)
	s, err := connect(ctx, own, options.Client, options, address)
	if err != nil {
		return err
	}
	defer s.client.Close()
	s.look(ctx)
	return s.examine(ctx, own)
}

// sentinels asks those of the URL, and those of which they know, until the time to
// connect is over or one answers. The second result are the addresses of those
// that do not. An error says that none does, or why they can't be used.
func sentinels(ctx context.Context, r *report, options redisstore.Options) (answered []*watcher, silent []string, err error) {
	limit := *r
	limit.ConnectTimeout = min(r.ConnectTimeout, time.Second) // for each
	for began := time.Now(); ; {
		answered, silent, err = askAll(ctx, &limit, options)
		if len(answered) > 0 {
			return answered, silent, nil
		}
		_, known := errors.AsType[*driver.Error](err)
		if known || said(err) || ctx.Err() != nil || time.Since(began) >= r.ConnectTimeout {
			return nil, nil, err
		}
	}
}

// askAll asks all once. The error is that of the last one that does not answer.
func askAll(ctx context.Context, r *report, options redisstore.Options) (answered []*watcher, silent []string, failed error) {
	client := options.Client
	client.TLSConfig, client.Dialer = client.Sentinel.TLSConfig, client.Sentinel.Dialer
	client.Username, client.Password, client.SelectDB = client.Sentinel.Username, client.Sentinel.Password, 0
	asked := make(map[string]bool) // by run id
	addresses := slices.Clone(options.Client.InitAddress)
	for i := 0; i < len(addresses); i++ {
		w, err := askSentinel(ctx, r, client, options, addresses[i])
		switch {
		case err != nil:
			failed = err
			silent = append(silent, addresses[i])
		case asked[w.info["run_id"]]: // by another address
			w.client.Close()
		default:
			asked[w.info["run_id"]] = true
			answered = append(answered, w)
			for _, other := range w.others {
				addresses = appendOnce(addresses, other)
			}
		}
	}
	return answered, silent, failed
}

func askSentinel(ctx context.Context, r *report, client rueidis.ClientOption, options redisstore.Options, address string) (*watcher, error) {
	s, err := connect(ctx, r, client, options, address)
	if err != nil {
		return nil, err
	}
	w := &watcher{server: s}
	if err := w.read(ctx); err != nil {
		s.client.Close()
		return nil, err
	}
	return w, nil
}

// read asks what the sentinel knows of the primary.
func (w *watcher) read(ctx context.Context) error {
	master := w.options.Client.Sentinel.MasterSet
	text, _ := w.do(ctx, "INFO", "server").ToString()
	w.info = fields(text)
	state, err := w.do(ctx, "SENTINEL", "MASTER", master).AsStrMap()
	if err != nil && strings.Contains(err.Error(), "No such master") {
		return &driver.Error{Kind: driver.ErrMisconfigured, Err: fmt.Errorf("the sentinel %s knows no master %q", w.address, master),
			Hint: "SENTINEL MASTERS has their names"}
	}
	if err != nil {
		return err
	}
	w.state = state
	w.primary = net.JoinHostPort(state["ip"], state["port"])
	others, err := w.do(ctx, "SENTINEL", "SENTINELS", master).ToArray()
	for _, one := range others {
		if other, err := one.AsStrMap(); err == nil {
			w.others = append(w.others, net.JoinHostPort(other["ip"], other["port"]))
		}
	}
	return err
}

// answering says how many sentinels there are, and which do not answer.
func answering(r *report, watchers []*watcher, silent []string) {
	all := len(watchers) + len(silent)
	found := fmt.Sprintf("%d of %d answer", len(watchers), all)
	switch {
	case len(silent) > 0:
		r.add(Warning, "sentinels", found+"; not "+strings.Join(silent, ", "),
			"a failover needs a majority of them, and programs look for the primary there", "see whether they run, and whether this machine reaches these addresses")
	case all < 3:
		r.add(Warning, "sentinels", found, "with fewer than 3, none may be lost: a failover needs a majority", "run 3 sentinels, on 3 machines")
	default:
		r.ok("sentinels", found)
	}
}

// agreement says whether all name the same primary.
func agreement(r *report, watchers []*watcher) {
	var primaries []string
	for _, w := range watchers {
		primaries = appendOnce(primaries, w.primary)
	}
	if len(primaries) > 1 {
		r.add(Failure, "agreement", "they name "+strings.Join(primaries, " and ")+" as the primary",
			"two programs may lock on two servers, and both hold the lock", "wait for the failover to end; then SENTINEL RESET on those that are wrong")
		return
	}
	if flags := watchers[0].state["flags"]; flags != "master" {
		r.add(Failure, "agreement", primaries[0]+" is the primary, and "+flags, "locks can't be had until another takes over", "see the logs of the sentinels")
		return
	}
	r.ok("agreement", "all name "+primaries[0]+" as the primary")
}

// canFailOver asks whether the sentinels in touch with each other suffice.
func canFailOver(ctx context.Context, r *report, w *watcher, master string) {
	quorum := "quorum " + w.state["quorum"]
	said, err := w.do(ctx, "SENTINEL", "CKQUORUM", master).ToString()
	switch {
	case err == nil:
		r.ok("sentinel-quorum", quorum+", "+strings.TrimPrefix(said, "OK "))
	case strings.HasPrefix(err.Error(), "NOQUORUM"):
		r.add(Failure, "sentinel-quorum", quorum+": "+strings.TrimPrefix(err.Error(), "NOQUORUM "), "no failover is possible: if the primary is lost, so are all locks until it is back",
			"let the sentinels reach each other, or SENTINEL SET "+master+" quorum N")
	default:
		r.unseen("sentinel-quorum", err, "whether a failover is possible", "")
	}
}

// standby says whether there is a replica to fail over to.
func standby(r *report, w *watcher) {
	if w.state["num-slaves"] == "0" {
		r.add(Warning, "standby", "no replica", "a failover has nowhere to go: if the primary is lost, there are no locks until it is back", "REPLICAOF "+strings.ReplaceAll(w.primary, ":", " ")+", on another server")
		return
	}
	r.ok("standby", w.state["num-slaves"]+" replicas")
}
