package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
	"github.com/holdfastlock/holdfast/redisstore"
)

const (
	// replyLimit is how long a server may take for one command.
	replyLimit = 5 * time.Second
	// retryPause is the pause before a server that can't be reached is tried
	// again.
	retryPause = 100 * time.Millisecond
)

// server is one Redis or Valkey server, and what it says of itself.
type server struct {
	options redisstore.Options
	address string
	client  rueidis.Client
	key     string // one of ours that does not exist; in a cluster it is the server's
	cluster bool

	info      map[string]string // INFO, empty where it is refused
	infoErr   error
	config    map[string]string // CONFIG GET, of settings; empty where it is refused
	configErr error
	clock     offset // of its clock

	lost error // why it can't be asked any more
}

// settings are those that INFO does not tell of.
var settings = []string{
	"appendfsync", "save", "stop-writes-on-bgsave-error", "min-replicas-to-write",
	"cluster-require-full-coverage", "cluster-node-timeout", "bind", "protected-mode",
}

// examineRedis examines what the URL leads to: a server, one found by Sentinel, a
// cluster, or several servers that decide by majority.
func examineRedis(ctx context.Context, r *report, url string) error {
	all, err := open.RedisOptions(url)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Prefix == "" {
			all[i].Prefix = redisstore.DefaultPrefix
		}
	}
	r = r.without(secrets(all))
	switch {
	case len(all) > 1:
		err = examineQuorum(ctx, r, all)
	case all[0].Client.Sentinel.MasterSet != "":
		err = examineSentinel(ctx, r, all[0])
	default:
		err = examineServer(ctx, r, all[0])
	}
	return explain(ctx, url, err)
}

// secrets are the passwords, as pairs for a replacer: a server that does not know a
// command repeats its arguments.
func secrets(all []redisstore.Options) (pairs []string) {
	for _, options := range all {
		for _, secret := range []string{options.Client.Password, options.Client.Sentinel.Password} {
			if secret != "" {
				pairs = append(pairs, secret, "***")
			}
		}
	}
	return pairs
}

// examineServer examines one server, or the cluster that it belongs to.
func examineServer(ctx context.Context, r *report, options redisstore.Options) error {
	s, err := connect(ctx, r, options.Client, options, options.Client.InitAddress...)
	if err != nil {
		return err
	}
	defer s.client.Close()
	s.look(ctx)
	if s.cluster {
		return examineCluster(ctx, r, s)
	}
	if options.Cluster || len(options.Client.InitAddress) > 1 {
		r.add(Failure, "cluster", s.address+" belongs to no cluster", "the URL is for a cluster, and here is none",
			"redis://HOST for one server, quorum+redis://HOST1,HOST2,HOST3 for several")
	}
	return s.examine(ctx, r)
}

// examine looks at everything that one server can tell.
func (s *server) examine(ctx context.Context, r *report) error {
	for _, check := range []func(context.Context, *report, *server){
		version, role, rights, native, eviction, memory, persistence, saving, replicas, access,
		clock, roundTrip,
	} {
		if s.lost == nil {
			check(ctx, r, s)
		}
	}
	return s.lost
}

// connect makes a client for that one of the addresses which answers first. It
// tries until the time to connect is over, unless a server answers and refuses.
func connect(ctx context.Context, r *report, client rueidis.ClientOption, options redisstore.Options, addresses ...string) (*server, error) {
	ctx, cancel := context.WithTimeout(ctx, r.ConnectTimeout)
	defer cancel()
	client = plain(client, r.ConnectTimeout)
	for {
		var failed error
		for _, address := range addresses {
			s := &server{options: options, address: address}
			client.InitAddress = []string{address}
			if failed = s.connect(ctx, client); failed == nil || said(failed) {
				return s, failed
			}
		}
		select {
		case <-ctx.Done():
			return nil, failed
		case <-time.After(retryPause):
		}
	}
}

// plain is a client for one server, as it answers by itself.
func plain(client rueidis.ClientOption, limit time.Duration) rueidis.ClientOption {
	client.Sentinel = rueidis.SentinelOption{}
	client.ForceSingleClient, client.DisableCache, client.DisableRetry = true, true, true
	client.PipelineMultiplex, client.ClientSetInfo = -1, rueidis.DisableClientSetInfo
	client.ConnWriteTimeout = min(limit, replyLimit)
	client.Dialer.Timeout = min(limit, replyLimit)
	return client
}

func (s *server) connect(ctx context.Context, option rueidis.ClientOption) error {
	client, err := rueidis.NewClient(option)
	if err != nil {
		if client != nil { // in this mode it returns both
			client.Close()
		}
		return err
	}
	s.client = client
	err = s.do(ctx, "PING").Error()
	if err != nil && !isNoPerm(err) {
		client.Close()
		return err
	}
	return nil
}

// do sends a command in words.
func (s *server) do(ctx context.Context, args ...string) rueidis.RedisResult {
	return s.send(ctx, s.client.B().Arbitrary(args...).Build())
}

// send sends a command and notes if the server can't be asked any more, after
// which nothing is sent.
func (s *server) send(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if s.lost != nil {
		return rueidis.NewErrorResult(s.lost)
	}
	limited, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	result := s.client.Do(limited, command)
	if err := result.NonRedisError(); err != nil {
		s.lost = err
	}
	return result
}

// look reads what the server says of itself.
func (s *server) look(ctx context.Context) {
	s.key = s.options.Prefix + "~d:" + rand.Text()
	text, err := s.do(ctx, "INFO").ToString()
	s.info, s.infoErr = fields(text), err
	if err != nil {
		s.greet(ctx)
	}
	s.cluster = s.mode() == "cluster"
	s.config = make(map[string]string)
	for _, name := range settings {
		pair, err := s.do(ctx, "CONFIG", "GET", name).AsStrMap()
		if err != nil {
			s.configErr = err
			return
		}
		if value, found := pair[name]; found {
			s.config[name] = value
		}
	}
}

// greet asks for the little that a server tells every user.
func (s *server) greet(ctx context.Context) {
	hello, _ := s.do(ctx, "HELLO").AsMap()
	for name, field := range map[string]string{"mode": "redis_mode", "role": "role"} {
		if value, found := hello[name]; found {
			s.info[field], _ = value.ToString()
		}
	}
}

// fields reads the lines "name:value" of INFO and the like. The client leaves the
// kind of the text before it.
func fields(text string) map[string]string {
	text = strings.TrimPrefix(text, "txt:")
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); found {
			values[name] = value
		}
	}
	return values
}

// said tells whether an error is something that the server said.
func said(err error) bool {
	_, is := errors.AsType[*rueidis.RedisError](err)
	return is
}

// explain gives an error its place among those of package driver. Of what a
// server said, the store itself knows the meaning, so it is asked for its own.
func explain(ctx context.Context, url string, err error) error {
	if known := (*driver.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	if !said(err) {
		return driver.NoAnswer(ctx, err)
	}
	return storesOwn(ctx, url)
}

// version says what the server is. Valkey calls itself Redis 7.2.4, too.
func version(_ context.Context, r *report, s *server) {
	if s.infoErr != nil {
		fix := ""
		if isNoPerm(s.infoErr) {
			fix = s.allow("+info")
		}
		r.unseen("version", s.infoErr, "version, memory, persistence and replicas", fix)
		return
	}
	flavour, number := s.product()
	found := flavour + " " + number
	if mode := s.mode(); mode != "" {
		found += ", " + mode
	}
	if flavour == "Redis" && older(number, 6, 2) {
		r.add(Failure, "version", found, "holdfast needs 6.2 or later", "upgrade the server")
		return
	}
	r.ok("version", found)
}

// mode is standalone or cluster, under the name that Redis or Valkey gives it.
func (s *server) mode() string { return cmp.Or(s.info["redis_mode"], s.info["server_mode"]) }

// product is the name and the version of the server.
func (s *server) product() (flavour, number string) {
	if s.info["valkey_version"] != "" {
		return "Valkey", s.info["valkey_version"]
	}
	return "Redis", s.info["redis_version"]
}

// older compares a version as in "7.0.15". One that can't be read is not older.
func older(number string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(number, "%d.%d", &a, &b); n < 2 {
		return false
	}
	return a < major || a == major && b < minor
}

// role fails for a replica, which takes no writes, or gives them to nobody.
func role(_ context.Context, r *report, s *server) {
	switch s.info["role"] {
	case "master":
		r.ok("role", "primary")
		return
	case "slave", "replica": // by INFO, by HELLO
	default:
		return // version has said that INFO is refused
	}
	found := "replica"
	if host := s.info["master_host"]; host != "" {
		found += " of " + host + ":" + s.info["master_port"]
	}
	r.add(Failure, "role", found, "a replica grants no lock", "use the address of its primary, or redis+sentinel://…")
}
