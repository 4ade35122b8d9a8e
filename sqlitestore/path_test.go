package sqlitestore

import (
	"errors"
	"os/user"
	"testing"

	"github.com/holdfastlock/holdfast/driver"
)

func TestTheDefaultPathIsOneOfAUserAndSurvivesAReboot(t *testing.T) {
	passwd := func(home string) func(string) (*user.User, error) {
		return func(uid string) (*user.User, error) {
			if uid != "1000" {
				return nil, user.UnknownUserError(uid)
			}
			return &user.User{HomeDir: home}, nil
		}
	}
	for _, c := range []struct {
		what string
		uid  int
		env  map[string]string
		home string // in the password file
		want string // empty: an error
	}{
		{"root", 0, map[string]string{"HOME": "/users/ann", "XDG_STATE_HOME": "/x"}, "", "/var/lib/holdfast/holdfast.db"},
		{"state home", 1000, map[string]string{"HOME": "/users/ann", "XDG_STATE_HOME": "/x"}, "/pw", "/x/holdfast/holdfast.db"},
		{"home", 1000, map[string]string{"HOME": "/users/ann"}, "/pw", "/users/ann/.local/state/holdfast/holdfast.db"},
		{"relative state home", 1000, map[string]string{"HOME": "/users/ann", "XDG_STATE_HOME": "x"}, "/pw", "/users/ann/.local/state/holdfast/holdfast.db"},
		{"no environment", 1000, nil, "/pw", "/pw/.local/state/holdfast/holdfast.db"},
		{"relative home", 1000, map[string]string{"HOME": "."}, "/pw", "/pw/.local/state/holdfast/holdfast.db"},
		{"no home in the password file", 1000, nil, "", ""},
		{"not in the password file", 1001, nil, "/pw", ""},
	} {
		env := func(key string) string { return c.env[key] }
		got, err := defaultPath(c.uid, env, passwd(c.home))
		if got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.what, got, err, c.want)
		}
		if c.want == "" && !errors.Is(err, driver.ErrMisconfigured) {
			t.Errorf("%s: error %v", c.what, err)
		}
	}
}
