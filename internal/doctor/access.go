package doctor

import (
	"context"
	"net"
	"slices"
	"strings"
)

// access says who else can reach the locks.
func access(_ context.Context, r *report, s *server) {
	client := s.options.Client
	switch {
	case isLocal(s.address) && client.Password == "" && s.open():
		r.add(Warning, "access", "no password, protected-mode no, bind "+s.config["bind"],
			"whoever reaches this machine can take and release every lock",
			"CONFIG SET protected-mode yes, or a password for the user default")
	case isLocal(s.address):
		r.ok("access", "by an address of this machine")
	case client.Password == "" && client.AuthCredentialsFn == nil:
		r.add(Warning, "access", "the server wants no password, and is not on this machine",
			"whoever reaches it can take and release every lock",
			"ACL SETUSER holdfast on >PASSWORD …, as in docs/stores.md; then ACL SETUSER default off")
	case client.TLSConfig == nil:
		r.add(Note, "access", "a password, no TLS", "whoever is on the way can read the password and the tokens", "rediss:// in the URL, and TLS on the server")
	case client.TLSConfig.InsecureSkipVerify:
		r.add(Note, "access", "TLS with skip_verify", "whoever is on the way can pretend to be the server", "?cacert=FILE in the URL in place of skip_verify")
	default:
		r.ok("access", "a password and TLS")
	}
}

// open says whether a server without a password lets other machines in.
func (s *server) open() bool {
	bind, known := s.config["bind"]
	return known && s.config["protected-mode"] == "no" && !slices.ContainsFunc(strings.Fields(bind), isLoopback)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(strings.TrimPrefix(host, "-"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// isLocal says whether an address can't be reached from other machines: a socket's
// path, or one of the loopback interface.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || strings.HasPrefix(address, "/") {
		return strings.HasPrefix(address, "/")
	}
	return isLoopback(host)
}
