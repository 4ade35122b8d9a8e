// Package redisslot knows which part of a key Redis Cluster hashes into its slot.
package redisslot

import "strings"

// Tag returns the hash tag of a key: what stands between the first '{' and the
// next '}', unless empty.
func Tag(key string) (tag string, found bool) {
	_, rest, open := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return tag, open && closed && tag != ""
}

// Hashed returns the text from which the slot of a key is computed. Keys with
// the same text are in the same slot.
func Hashed(key string) string {
	if tag, found := Tag(key); found {
		return tag
	}
	return key
}
