package open

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"github.com/holdfastlock/holdfast/redisstore"
)

const supported = "local, sqlite:///path/file.db, redis://host, rediss://host, unix:///path/redis.sock, postgres://host/database"

// later are the schemes that are planned; knowing them, we can say more than
// that they are unknown.
var later = []string{"redis+sentinel", "redis+cluster", "quorum+redis"}

// location is what a URL says.
type location struct {
	// path is that of the embedded store, or empty for its default place.
	path string
	// redis is nil for the other stores.
	redis  *rueidis.ClientOption
	prefix string
	// safety has what a grant of Redis must wait for, and whether its server may
	// evict.
	safety redisstore.Options
	// postgres is the URL, empty for the other stores.
	postgres string
}

// parse reads a URL. Its errors quote the scheme and the names of parameters
// only where these can't be part of a password.
func parse(text string) (location, error) {
	if text == Local {
		return location{}, nil
	}
	scheme, rest, found := strings.Cut(text, "://")
	switch {
	case !found:
		return location{}, bad("it is not of the form scheme://…; use one of %s", supported)
	case strings.ContainsFunc(text, unicode.IsControl):
		return location{}, bad("it has a control character")
	case slices.Contains(later, scheme):
		return location{}, bad("%s:// is not supported by this version; it supports %s", scheme, supported)
	case scheme == "sqlite":
		return parseFile(text)
	case scheme == "redis", scheme == "rediss", scheme == "unix":
		return parseRedis(text, rest)
	case scheme == "postgres", scheme == "postgresql":
		return parsePostgres(text, rest)
	default:
		return location{}, bad("unknown scheme; use one of %s", supported)
	}
}

func parseFile(text string) (location, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return location{}, bad("it can't be read; in a path write %% ? # as %%25 %%3F %%23")
	case u.Host != "" || u.User != nil || len(u.Path) < 2:
		return location{}, bad("sqlite:// needs an absolute path after it: sqlite:///path/file.db")
	case u.RawQuery != "" || u.Fragment != "":
		return location{}, bad("sqlite:// takes no parameters; in a path write ? # as %%3F %%23")
	}
	return location{path: u.Path}, nil
}

func parseRedis(text, rest string) (location, error) {
	u, err := parseServer(text, rest)
	if err != nil {
		return location{}, err
	}
	query, err := parameters(u, "prefix", "db", "protocol", "skip_verify",
		"wait_replicas", "wait_fsync", "wait_timeout", "no_eviction")
	if err != nil {
		return location{}, err
	}
	safety, err := safetyOf(query)
	if err != nil {
		return location{}, err
	}
	if err := checkPlace(u); err != nil {
		return location{}, err
	}
	if u.Path == "/" {
		u.Path = "" // the client takes it for a database without a number
	}
	option, err := rueidis.ParseURL(u.String())
	if err != nil {
		return location{}, bad("its parameters can't be read; skip_verify is true or false")
	}
	return location{redis: &option, prefix: query.Get("prefix"), safety: safety}, nil
}

// parsePostgres leaves the numbers, and the files that are named, to the client
// library, but not its errors, which may quote a password.
func parsePostgres(text, rest string) (location, error) {
	u, err := parseServer(text, rest)
	if err != nil {
		return location{}, err
	}
	_, err = parameters(u, "sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "connect_timeout",
		"application_name", "search_path", "pool_max_conns", "default_query_exec_mode", "host", "passfile")
	if err != nil {
		return location{}, err
	}
	if _, err := pgxpool.ParseConfig(text); err != nil {
		return location{}, bad("what follows the ? can't be read; check its numbers, and that its files are there")
	}
	return location{postgres: text}, nil
}

// parseServer reads the URL of a server.
func parseServer(text, rest string) (*url.URL, error) {
	// A raw / ? # in a password ends the host part early, and the password is
	// then read as something else, to be shown or sent elsewhere.
	end := strings.IndexAny(rest, "/?#")
	if end >= 0 && strings.Contains(rest[end:], "@") {
		return nil, bad("an @ after the host; in a password write / ? # @ %% as %%2F %%3F %%23 %%40 %%25, elsewhere @ as %%40")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, bad("it can't be read; check the port, and in a password write / ? # @ %% as %%2F %%3F %%23 %%40 %%25")
	}
	return u, nil
}

// parameters returns the query, of which only these are known: others of the
// client library could break what the store relies on.
func parameters(u *url.URL, known ...string) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return nil, bad("what follows the ? can't be read; write # & %% in it as %%23 %%26 %%25")
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return nil, bad("unknown parameter after the ?; known are %s", strings.Join(known, ", "))
		}
	}
	if db := query.Get("db"); query.Has("db") && !isNumber(db) {
		return nil, bad("db must be a number")
	}
	return query, nil
}

// safetyOf reads the parameters that make a store of Redis safer.
func safetyOf(query url.Values) (options redisstore.Options, err error) {
	if query.Has("no_eviction") {
		options.RequireNoEviction = true
		if query.Get("no_eviction") != "required" {
			return options, bad("no_eviction has the one value required")
		}
	}
	if query.Has("wait_replicas") {
		if options.WaitReplicas, err = strconv.Atoi(query.Get("wait_replicas")); err != nil || options.WaitReplicas < 1 {
			return options, bad("wait_replicas must be a number from 1")
		}
	}
	if query.Has("wait_fsync") {
		if options.WaitFsync, err = strconv.ParseBool(query.Get("wait_fsync")); err != nil {
			return options, bad("wait_fsync is true or false")
		}
	}
	if !query.Has("wait_timeout") {
		return options, nil
	}
	options.WaitTimeout, err = time.ParseDuration(query.Get("wait_timeout"))
	switch {
	case err != nil || options.WaitTimeout <= 0:
		return options, bad("wait_timeout must be a time such as 200ms")
	case options.WaitReplicas == 0 && !options.WaitFsync:
		return options, bad("wait_timeout without wait_replicas or wait_fsync: nothing is waited for")
	}
	return options, nil
}

// checkPlace checks what names the server.
func checkPlace(u *url.URL) error {
	if u.Scheme == "unix" {
		if u.Host != "" || len(u.Path) < 2 {
			return bad("unix:// needs the socket's absolute path after it: unix:///path/redis.sock")
		}
		return nil
	}
	db := strings.TrimPrefix(u.Path, "/")
	switch {
	case strings.Contains(u.Host, ","):
		return bad("%s:// names one server", u.Scheme)
	case u.Port() != "" && !isNumber(u.Port()):
		return bad("the port must be a number below 65536")
	case db != "" && !isNumber(db):
		return bad("what follows the host must be the number of a database, as in redis://host/0")
	}
	return nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
