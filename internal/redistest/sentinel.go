package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MasterSet is the name under which the sentinels watch their primary.
const MasterSet = "main"

// settleWithin bounds what servers do among themselves on a busy machine.
const settleWithin = 60 * time.Second

// SentinelOptions says how sentinels and what they watch are set up.
type SentinelOptions struct {
	// Server is how each of the servers is set up.
	Server Options
	// Password is that of the sentinels themselves.
	Password string
	// DownAfter is how long a primary may not answer; 0 means one second. A
	// failover that does not succeed is tried again after twenty times of it.
	DownAfter time.Duration
}

// Sentinels are three servers, a primary and two replicas at first, that three
// sentinels watch. Its methods are for one goroutine at a time.
type Sentinels struct {
	Servers   []*Process // the first was the primary at first
	Sentinels []*Process
}

// LaunchSentinels runs the servers and their sentinels with their data in
// folders in dir, and returns when a failover could be made. The caller ends
// them by Kill.
func LaunchSentinels(binary, dir string, options SentinelOptions) (*Sentinels, error) {
	s := &Sentinels{}
	if err := s.launch(binary, dir, options); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

func (s *Sentinels) launch(binary, dir string, options SentinelOptions) error {
	for i := range 3 {
		server := options.Server
		server.Config = "# what the server writes itself\n" // whom it follows
		server.Args = append([]string{"--repl-diskless-sync-delay", "0", "--replica-announce-ip", "127.0.0.1"}, server.Args...)
		if i > 0 {
			server.Config = fmt.Sprintf("replicaof 127.0.0.1 %d\n", s.Servers[0].Port())
		}
		if server.TLS != nil {
			server.Args = append(server.Args, "--tls-replication", "yes")
		}
		process, err := launchIn(dir, fmt.Sprintf("server%d", i), &Process{binary: binary, options: server})
		if err != nil {
			return err
		}
		s.Servers = append(s.Servers, process)
	}
	for i := range 3 {
		sentinel := Options{Config: sentinelConfig(s.Servers[0], options), TLS: options.Server.TLS, Password: options.Password}
		process, err := launchIn(dir, fmt.Sprintf("sentinel%d", i), &Process{binary: binary, options: sentinel, sentinel: true})
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, process)
	}
	return s.WaitSettled()
}

// launchIn launches a process with a new folder in dir.
func launchIn(dir, name string, process *Process) (*Process, error) {
	process.dir = filepath.Join(dir, name)
	if err := os.Mkdir(process.dir, 0o700); err != nil {
		return nil, err
	}
	return launch(process)
}

func sentinelConfig(primary *Process, options SentinelOptions) string {
	downAfter := options.DownAfter
	if downAfter == 0 {
		downAfter = time.Second
	}
	lines := []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", MasterSet, primary.Port()),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterSet, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", MasterSet, 10*downAfter.Milliseconds()),
		"sentinel announce-ip 127.0.0.1",
	}
	if options.Password != "" {
		lines = append(lines, "requirepass "+options.Password)
	}
	if password := options.Server.Password; password != "" {
		lines = append(lines, "sentinel auth-pass "+MasterSet+" "+password)
	}
	if options.Server.TLS != nil {
		lines = append(lines, "tls-replication yes")
	}
	return strings.Join(lines, "\n") + "\n"
}

// Addrs returns host:port of each sentinel.
func (s *Sentinels) Addrs() []string { return addrs(s.Sentinels) }

func addrs(processes []*Process) []string {
	list := make([]string, len(processes))
	for i, process := range processes {
		list[i] = process.Addr()
	}
	return list
}

// Kill ends all processes.
func (s *Sentinels) Kill() {
	for _, process := range append(s.Sentinels, s.Servers...) {
		process.Kill()
	}
}

// Primary returns the server that most sentinels name as the primary, whether
// it runs or not; nil if most do not agree.
func (s *Sentinels) Primary() *Process {
	votes := make(map[string]int)
	for _, sentinel := range s.Sentinels {
		at, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet).AsStrSlice()
		if err == nil && len(at) == 2 {
			votes[at[1]]++
		}
	}
	for _, server := range s.Servers {
		if 2*votes[strconv.Itoa(server.Port())] > len(s.Sentinels) {
			return server
		}
	}
	return nil
}

// Failover has the sentinels put a replica in the place of a primary that is
// well, and returns the new primary.
func (s *Sentinels) Failover() (*Process, error) {
	old := s.Primary()
	var refused error
	promoted, err := s.waitFailover(old, func() {
		// It refuses for a while after the last one, and may give up.
		if s.Primary() == old {
			refused = s.Sentinels[0].Do("SENTINEL", "FAILOVER", MasterSet).Error()
		}
	})
	if err != nil {
		err = errors.Join(err, refused)
	}
	return promoted, err
}

// WaitFailover waits until every sentinel that runs names another primary than
// the old one, and that takes writes, and returns it.
func (s *Sentinels) WaitFailover(old *Process) (*Process, error) {
	return s.waitFailover(old, func() {})
}

func (s *Sentinels) waitFailover(old *Process, again func()) (*Process, error) {
	var promoted *Process
	err := wait("the sentinels have made another server the primary", func() bool {
		again()
		promoted = s.Primary()
		return promoted != nil && promoted != old && s.allName(promoted) && role(promoted) == "master"
	})
	return promoted, err
}

func (s *Sentinels) allName(primary *Process) bool {
	for _, sentinel := range running(s.Sentinels) {
		at, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet).AsStrSlice()
		if err != nil || len(at) != 2 || at[1] != strconv.Itoa(primary.Port()) {
			return false
		}
	}
	return true
}

// WaitFollowed waits until each server that runs follows the primary, or is it.
// None may be paused.
func (s *Sentinels) WaitFollowed() error {
	return wait("servers follow the primary", s.followed)
}

// WaitSettled waits until each server that runs follows the primary, or is it,
// and each sentinel that runs has seen that and knows the other sentinels: then a
// failover can be made. None may be paused.
func (s *Sentinels) WaitSettled() error {
	for _, sentinel := range running(s.Sentinels) {
		hurry(sentinel)
	}
	return wait("servers and sentinels know each other", func() bool {
		return s.followed() && !slices.ContainsFunc(running(s.Sentinels), func(sentinel *Process) bool {
			return !s.seenBy(sentinel)
		})
	})
}

// hurry has a sentinel do things more often. Before Redis 7.0 it can't be.
func hurry(sentinel *Process) {
	// By default it tells the others every two seconds, and asks every ten.
	for _, period := range []string{"PUBLISH-PERIOD", "INFO-PERIOD", "ASK-PERIOD"} {
		sentinel.Do("SENTINEL", "DEBUG", period, "250")
	}
	// This is the least time between two pings, and between two attempts to connect.
	// By default it is a second, as DownAfter is: after a failover the new primary
	// might not be asked before it is taken to be down. A replica is promoted only
	// if its INFO is not older than five times this, and while the primary is down
	// they are asked for it every second.
	sentinel.Do("SENTINEL", "DEBUG", "PING-PERIOD", "400")
}

// seenBy says whether a sentinel has seen each server that runs follow the
// primary, and knows the other sentinels. One that it saw to be a primary it makes
// a replica again, though another sentinel promotes it now.
func (s *Sentinels) seenBy(sentinel *Process) bool {
	known, err := sentinel.Do("SENTINEL", "MASTER", MasterSet).AsStrMap()
	if err != nil || known["num-slaves"] != "2" || known["num-other-sentinels"] != "2" || known["flags"] != "master" {
		return false
	}
	following := map[string]bool{known["port"]: true}
	replicas, _ := sentinel.Do("SENTINEL", "REPLICAS", MasterSet).ToArray() // without: none follows
	for _, one := range replicas {
		replica, _ := one.AsStrMap()
		following[replica["port"]] = replica["flags"] == "slave" && replica["role-reported"] == "slave" &&
			replica["master-port"] == known["port"]
	}
	return !slices.ContainsFunc(running(s.Servers), func(server *Process) bool {
		return !following[strconv.Itoa(server.Port())]
	})
}

// running are those that were not ended.
func running(processes []*Process) []*Process {
	var list []*Process
	for _, process := range processes {
		if process.Running() {
			list = append(list, process)
		}
	}
	return list
}

// followed says whether all servers that run but the primary itself are its
// replicas and in touch with it, and every sentinel names it.
func (s *Sentinels) followed() bool {
	primary := s.Primary()
	if primary == nil || !s.allName(primary) || role(primary) != "master" {
		return false
	}
	return !slices.ContainsFunc(running(s.Servers), func(server *Process) bool {
		return server != primary && !follows(server, primary)
	})
}

func follows(server, primary *Process) bool {
	told := info(server, "replication")
	return told["role"] == "slave" && told["master_port"] == strconv.Itoa(primary.Port()) && told["master_link_status"] == "up"
}

func role(server *Process) string { return info(server, "replication")["role"] }

// info returns the fields of one section of INFO; none if it is not answered.
func info(server *Process, section string) map[string]string {
	text, _ := report(server, "INFO", section)
	return fields(text)
}

// report runs a command that answers with a text in lines.
func report(server *Process, args ...string) (string, error) {
	text, err := server.Do(args...).ToString()
	return strings.TrimPrefix(text, "txt:"), err // RESP3 says what kind of text it is
}

// fields reads lines of name:value.
func fields(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			all[name] = value
		}
	}
	return all
}

// wait waits until a condition of servers holds.
func wait(what string, holds func() bool) error {
	for deadline := time.Now().Add(settleWithin); !holds(); time.Sleep(4 * pollEvery) {
		if time.Now().After(deadline) {
			return fmt.Errorf("not true after %v: %s", settleWithin, what)
		}
	}
	return nil
}
