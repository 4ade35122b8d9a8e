package open

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/redisstore"
)

// The schemes of Redis; rediss in place of redis asks for TLS.
const (
	single   = "redis"
	socket   = "unix"
	sentinel = "redis+sentinel"
	cluster  = "redis+cluster"
	majority = "quorum+redis"
)

const (
	serverPort   = "6379"
	sentinelPort = "26379"
)

// RedisOptions returns the options of the store of a Redis URL, or those of each
// node of a quorum. For another store it returns nil. Its errors are those of
// Store.
func RedisOptions(url string) ([]redisstore.Options, error) {
	where, err := parse(url)
	return where.redis, err
}

// plain returns the scheme without the s for TLS, and whether it had it.
func plain(scheme string) (base string, secure bool) {
	base = strings.Replace(scheme, "rediss", "redis", 1)
	return base, base != scheme
}

func isRedis(scheme string) bool {
	base, _ := plain(scheme)
	return slices.Contains([]string{single, socket, sentinel, cluster, majority}, base)
}

// redisURL is a URL of Redis in its parts.
type redisURL struct {
	scheme  string // without the s for TLS
	secure  bool
	servers []server
	path    string
	query   url.Values
}

type server struct{ address, user, password string }

func parseRedis(scheme, rest string) (location, error) {
	u, err := splitRedis(scheme, rest)
	if err != nil {
		return location{}, err
	}
	options, err := u.options()
	if err != nil {
		return location{}, err
	}
	if u.scheme == majority {
		return u.quorum(options)
	}
	return location{redis: []redisstore.Options{options}}, nil
}

func splitRedis(scheme, rest string) (u redisURL, err error) {
	u.scheme, u.secure = plain(scheme)
	authority, tail, err := splitHost(rest)
	if err != nil {
		return u, err
	}
	if u.servers, err = u.hosts(authority); err != nil {
		return u, err
	}
	place, err := url.Parse("redis://host" + tail)
	if err != nil {
		return u, bad("what follows the host can't be read; write %% in it as %%25")
	}
	u.path = place.Path
	if u.query, err = parameters(place, redisParameters); err != nil {
		return u, err
	}
	for name := range u.query {
		if reason := u.unfit(name); reason != "" {
			return u, bad("%s: %s", name, reason)
		}
	}
	return u, nil
}

// hosts reads the servers, with a user and password before the first, for all,
// or in a quorum before each.
func (u redisURL) hosts(authority string) (servers []server, err error) {
	pieces, err := u.pieces(authority)
	if err != nil {
		return nil, err
	}
	for i, piece := range pieces {
		s, err := u.host(piece)
		if err != nil {
			return nil, err
		}
		if i > 0 && !strings.Contains(piece, "@") {
			s.user, s.password = servers[0].user, servers[0].password
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func (u redisURL) pieces(authority string) ([]string, error) {
	if u.scheme == single || u.scheme == socket {
		if strings.Contains(authority[strings.LastIndexByte(authority, '@')+1:], ",") {
			return nil, bad("%s:// names one server; for several there are redis+sentinel, redis+cluster and quorum+redis", u.scheme)
		}
		return []string{authority}, nil
	}
	pieces := strings.Split(authority, ",")
	var users []int
	for i, piece := range pieces {
		if strings.Contains(piece, "@") {
			users = append(users, i)
		}
	}
	switch {
	case len(users) == 0, len(users) == 1 && users[0] == 0:
	case u.scheme != majority:
		return nil, bad("%s:// has one user and password, before its first host; in a password write , as %%2C", u.scheme)
	case len(users) < len(pieces):
		return nil, bad("a quorum has one user and password, before its first host, or one before each; in a password write , as %%2C")
	}
	return pieces, nil
}

func (u redisURL) host(piece string) (server, error) {
	h, err := url.Parse("redis://" + piece)
	switch {
	case err != nil || h.Port() != "" && !isNumber(h.Port()):
		return server{}, bad("its host can't be read; check that the port is a number below 65536, and " + escapes)
	case u.scheme == socket && h.Host != "":
		return server{}, bad("unix:// needs the socket's absolute path after it: unix:///path/redis.sock")
	case u.scheme != socket && u.scheme != single && h.Hostname() == "":
		return server{}, bad("a host is missing; write %s://host1:port,host2:port", u.scheme)
	}
	port := h.Port()
	switch {
	case port == "" && u.scheme == sentinel:
		port = sentinelPort
	case port == "":
		port = serverPort
	}
	name := h.Hostname()
	if name == "" {
		name = "localhost"
	}
	s := server{address: net.JoinHostPort(name, port), user: h.User.Username()}
	s.password, _ = h.User.Password()
	return s, nil
}

// options returns those of the store, of a quorum those of its first node.
func (u redisURL) options() (options redisstore.Options, err error) {
	if options, err = safetyOf(u.query); err != nil {
		return options, err
	}
	options.Prefix, options.Cluster = u.query.Get("prefix"), u.scheme == cluster
	client := &options.Client
	client.Username, client.Password = u.servers[0].user, u.servers[0].password
	for _, s := range u.servers {
		client.InitAddress = append(client.InitAddress, s.address)
	}
	if client.AlwaysRESP2, err = oldProtocol(u.query); err != nil {
		return options, err
	}
	if client.TLSConfig, err = u.security(); err != nil {
		return options, err
	}
	err = u.place(client)
	return options, err
}

// place reads the path: it has the socket, or the master of the sentinels, and
// the database.
func (u redisURL) place(client *rueidis.ClientOption) (err error) {
	database := strings.TrimPrefix(u.path, "/")
	switch u.scheme {
	case socket:
		if len(u.path) < 2 {
			return bad("unix:// needs the socket's absolute path after it: unix:///path/redis.sock")
		}
		client.InitAddress, client.DialCtxFn = []string{u.path}, dialSocket
		database = ""
	case sentinel:
		client.Sentinel.MasterSet, database, _ = strings.Cut(database, "/")
		client.Sentinel.Username = u.query.Get("sentinel_username")
		client.Sentinel.Password = u.query.Get("sentinel_password")
		client.Sentinel.TLSConfig = client.TLSConfig
		if !isMaster(client.Sentinel.MasterSet) {
			return bad("redis+sentinel:// needs the master's name, as the sentinels have it, after the hosts: redis+sentinel://host1,host2/mymaster/0")
		}
	}
	if u.query.Has("db") {
		database = u.query.Get("db")
		if !isNumber(database) {
			return bad("db must be a number")
		}
	}
	switch {
	case database == "":
		return nil
	case !isNumber(database):
		return bad("what follows the host must be the number of a database, as in redis://host/0")
	}
	client.SelectDB, _ = strconv.Atoi(database)
	if client.SelectDB != 0 && u.scheme == cluster {
		return bad("a cluster is used by its database 0, the only one of most: keep programs apart by ?prefix=app:")
	}
	return nil
}

// isMaster knows the names that the documentation of Sentinel allows.
func isMaster(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("._-", r)
	})
}
