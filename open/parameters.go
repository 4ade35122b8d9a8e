package open

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/holdfastlock/holdfast/redisstore"
)

var (
	tlsParameters      = []string{"cacert", "cert", "key", "sni", "skip_verify"}
	sentinelParameters = []string{"sentinel_username", "sentinel_password"}
	quorumParameters   = []string{"node_timeout", "longest_ttl"}
	redisParameters    = slices.Concat([]string{
		"prefix", "db", "protocol", "wait_replicas", "wait_fsync", "wait_timeout", "no_eviction",
	}, tlsParameters, sentinelParameters, quorumParameters)
)

// unfit says why a known parameter makes no sense in this URL, or nothing.
func (u redisURL) unfit(name string) string {
	switch {
	case slices.Contains(tlsParameters, name) && !u.secure:
		return "there is no TLS without an s in the scheme, as in rediss:// or rediss+sentinel://"
	case slices.Contains(sentinelParameters, name) && u.scheme != sentinel:
		return "only redis+sentinel:// has sentinels"
	case slices.Contains(quorumParameters, name) && u.scheme != majority:
		return "only quorum+redis:// has a quorum"
	case name == "wait_replicas" && u.scheme == majority:
		return "a quorum's servers are independent, and have no replicas that could take over"
	}
	return ""
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
	if options.WaitFsync, err = boolean(query, "wait_fsync"); err != nil {
		return options, err
	}
	options.WaitTimeout, err = duration(query, "wait_timeout", 0)
	if err == nil && options.WaitTimeout > 0 && options.WaitReplicas == 0 && !options.WaitFsync {
		err = bad("wait_timeout without wait_replicas or wait_fsync: nothing is waited for")
	}
	return options, err
}

// oldProtocol says whether RESP2 is asked for.
func oldProtocol(query url.Values) (bool, error) {
	version := query.Get("protocol")
	if query.Has("protocol") && version != "2" && version != "3" {
		return false, bad("protocol is 2 or 3")
	}
	return version == "2", nil
}

func boolean(query url.Values, name string) (bool, error) {
	if !query.Has(name) {
		return false, nil
	}
	value, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		return false, bad("%s is true or false", name)
	}
	return value, nil
}

// duration reads a time, which is the usual one if it is not given.
func duration(query url.Values, name string, usual time.Duration) (time.Duration, error) {
	if !query.Has(name) {
		return usual, nil
	}
	value, err := time.ParseDuration(query.Get(name))
	if err != nil || value <= 0 {
		return 0, bad("%s must be a time such as 200ms", name)
	}
	return value, nil
}
