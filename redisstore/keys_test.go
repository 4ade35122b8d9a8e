package redisstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfastlock/holdfast/driver"
)

// slot is how the Redis Cluster specification computes a key's hash slot:
// CRC16 (XMODEM) of the key or of its hash tag, modulo 16384.
func slot(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

func TestTheSlotOfAKnownKey(t *testing.T) {
	if got := slot("123456789"); got != 0x31c3 {
		t.Fatalf("slot %#x, want 0x31c3", got) // the check value of the specification
	}
}

func TestKeysThatCannotShareASlotAreRefused(t *testing.T) {
	for name, companion := range map[string]string{
		"report":   "lock:~f:{lock:report}",
		"a{b":      "lock:~f:{lock:a{b}",
		"{tag}x":   "lock:~f:{tag}lock:{tag}x",
		"x{tag}{}": "lock:~f:{tag}lock:x{tag}{}",
		"a}b":      "",
		"a{}b":     "",
		"}{":       "",
		"}{x}":     "lock:~f:{x}lock:}{x}",
	} {
		k, err := keysOf(DefaultPrefix, name)
		var refused *driver.NameError
		if companion == "" && !errors.As(err, &refused) {
			t.Errorf("%q was not refused: %+v, %v", name, k, err)
		}
		if companion != "" && (err != nil || k.companion() != companion) {
			t.Errorf("%q has companion %q, %v, want %q", name, k.companion(), err, companion)
		}
	}
}

func FuzzKeysShareASlotOrAreRefused(f *testing.F) {
	for _, seed := range []string{"report", "a}b", "{tag}x", "a{}b", "}{", "{", "~f:x", "ü{é}"} {
		f.Add(DefaultPrefix, seed, "other", "0123@host/1")
		f.Add("{app}:", seed, "{a}b", "t}{")
		f.Add("a{", seed, seed+"}", "")
	}
	f.Fuzz(func(t *testing.T, prefix, name, otherName, token string) {
		k, err := keysOf(prefix, name)
		if err != nil {
			var refused *driver.NameError
			if !errors.As(err, &refused) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if k.lock != prefix+name {
			t.Fatalf("key %q", k.lock)
		}
		for _, own := range []string{k.companion(), k.queue(), k.runs(), k.slot(token)} {
			if slot(own) != slot(k.lock) || !strings.HasPrefix(own, prefix) {
				t.Errorf("%q is not in the slot or under the prefix of %q", own, k.lock)
			}
			if _, err := keysOf(prefix, strings.TrimPrefix(own, prefix)); err == nil {
				t.Errorf("%q could be a lock", own)
			}
		}
		other, err := keysOf(prefix, otherName)
		if err == nil && otherName != name && (other.companion() == k.companion() || other.slot(token) == k.slot(token)) {
			t.Errorf("%q and %q share %q", name, otherName, k.companion())
		}
	})
}

func FuzzScanLetsThroughWhatMatches(f *testing.F) {
	f.Add("a*b?", "axxbü")
	f.Add("*[*", "[")
	f.Add("?", "ü")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if driver.CheckName(name) != nil {
			return
		}
		if !driver.Match("*", name) || !driver.Match(strings.Repeat("?", len([]rune(name))), name) {
			t.Errorf("%q does not match * and as many ?", name)
		}
		if driver.Match(pattern, name) && !driver.Match(strings.ReplaceAll(pattern, "?", "*"), name) {
			t.Errorf("%q matches %q, but not with * for ?", name, pattern)
		}
	})
}
