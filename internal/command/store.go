package command

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/driver"
	"github.com/holdfastlock/holdfast/open"
)

// systemConfig is the config file of all users.
const systemConfig = "/etc/holdfast/config.toml"

// session is an open store and a locker on it.
type session struct {
	url    string
	store  driver.Store
	locker *holdfast.Locker
	closer io.Closer
}

// open opens the chosen store. StoreTimeout of the config is set here.
func (a *app) open(ctx context.Context, cfg holdfast.Config) (*session, error) {
	url, err := a.chosenStore()
	if err != nil {
		return nil, err
	}
	if a.connectTimeout <= 0 {
		return nil, usage("--connect-timeout must be more than 0")
	}
	cfg.StoreTimeout = time.Duration(a.connectTimeout)
	cfg.NoLocalPassing = true // each lease is a grant: HOLDFAST_FENCE is the holder's fence
	ctx, cancel := context.WithTimeout(ctx, cfg.StoreTimeout)
	defer cancel()
	store, closer, err := open.Store(ctx, url, open.Options{Warn: a.warn})
	if err != nil {
		return nil, err
	}
	locker, err := holdfast.New(store, cfg)
	if err != nil {
		_ = closer.Close()
		return nil, err
	}
	return &session{url, store, locker, closer}, nil
}

// warn may be called from any goroutine.
func (a *app) warn(text string) { a.say("warning: %s", text) }

// close lets go of the store. What the locker has left to do there gets a
// moment; if the store can't be reached, leases end by their TTL.
func (s *session) close(ctx context.Context) {
	const moment = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moment)
	defer cancel()
	_ = s.locker.Close(ctx)
	_ = s.closer.Close()
}

// chosenStore returns the URL of the store: flag over environment over file.
func (a *app) chosenStore() (string, error) {
	if a.store != "" {
		return a.store, nil
	}
	if url := os.Getenv("HOLDFAST_STORE"); url != "" {
		return url, nil
	}
	url, err := a.configuredStore()
	if url != "" || err != nil {
		return url, err
	}
	return "", exitWith(codeMisconfigured, `no store chosen: give --store URL, set HOLDFAST_STORE, or write store = "URL" in %s; for locks on this machine alone: --store local`, userConfig())
}

func (a *app) configuredStore() (string, error) {
	if a.config != "" {
		return readConfig(a.config)
	}
	for _, path := range []string{userConfig(), systemConfig} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return readConfig(path)
		}
	}
	return "", nil
}

// userConfig returns the path of the user's config file, or the system's for a
// user without a home.
func userConfig() string {
	folder := os.Getenv("XDG_CONFIG_HOME")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return systemConfig
		}
		folder = filepath.Join(home, ".config")
	}
	return filepath.Join(folder, "holdfast", "config.toml")
}

// readConfig returns the store that a config file names.
func readConfig(path string) (string, error) {
	var file struct {
		Store string `toml:"store"`
	}
	meta, err := toml.DecodeFile(path, &file)
	var syntax toml.ParseError
	switch {
	case errors.As(err, &syntax):
		// The error's own text may quote the line, with the password in it.
		return "", exitWith(codeMisconfigured, "config file %s: line %d is not valid TOML", path, syntax.Position.Line)
	case err != nil:
		return "", exitWith(codeMisconfigured, "config file %s: %v", path, err)
	case len(meta.Undecoded()) > 0:
		return "", exitWith(codeMisconfigured, "config file %s: unknown key %q; known is store", path, meta.Undecoded()[0])
	}
	return file.Store, nil
}
