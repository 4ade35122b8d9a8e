package open

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfastlock/holdfast/quorum"
	"github.com/holdfastlock/holdfast/redisstore"
)

const supported = "local, sqlite:///path/file.db, redis://host, rediss://host, unix:///path/redis.sock, " +
	"redis+sentinel://host,host/master, redis+cluster://host,host, quorum+redis://host,host,host, postgres://host/database"

// location is what a URL says.
type location struct {
	// path is that of the embedded store, or empty for its default place.
	path string
	// redis has the options of the store, or of each node of a quorum; it is nil
	// for the other stores.
	redis []redisstore.Options
	// quorum is not nil where redis has the nodes of one.
	quorum *quorum.Options
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
	case scheme == "sqlite":
		return parseFile(text)
	case isRedis(scheme):
		return parseRedis(scheme, rest)
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

// parsePostgres leaves the numbers, and the files that are named, to the client
// library, but not its errors, which may quote a password.
func parsePostgres(text, rest string) (location, error) {
	if _, _, err := splitHost(rest); err != nil {
		return location{}, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return location{}, bad("it can't be read; check the port, and " + escapes)
	}
	if _, err := parameters(u, postgresParameters); err != nil {
		return location{}, err
	}
	if _, err := pgxpool.ParseConfig(text); err != nil {
		return location{}, bad("what follows the ? can't be read; check its numbers, and that its files are there")
	}
	return location{postgres: text}, nil
}

var postgresParameters = []string{
	"sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs", "connect_timeout",
	"application_name", "search_path", "pool_max_conns", "default_query_exec_mode", "host", "passfile",
}

// escapes says how to write what ends a part of a URL.
const escapes = "in a password write / ? # @ %% as %%2F %%3F %%23 %%40 %%25"

// splitHost splits what follows scheme:// after the host or hosts. A raw / ? #
// in a password ends that part early, and the password is then read as something
// else, to be shown or sent elsewhere.
func splitHost(rest string) (authority, tail string, err error) {
	end := hostEnd(rest)
	if strings.Contains(rest[end:], "@") {
		return "", "", bad("an @ after the host; " + escapes + ", elsewhere @ as %%40")
	}
	return rest[:end], rest[end:], nil
}

func hostEnd(rest string) int {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return end
	}
	return len(rest)
}

// parameters returns the query, of which only these are known: others of the
// client library could break what the store relies on.
func parameters(u *url.URL, known []string) (url.Values, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return nil, bad("what follows the ? can't be read; write # & %% in it as %%23 %%26 %%25")
	}
	for name := range query {
		if !slices.Contains(known, name) {
			return nil, bad("unknown parameter after the ?; known are %s", strings.Join(known, ", "))
		}
	}
	return query, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
