package command

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfastlock/holdfast/driver"
)

// lock is a lock in JSON.
type lock struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
	// Fence is the last fencing token granted; 0 when it is not known.
	Fence   int64    `json:"fence"`
	Holders []holder `json:"holders"`
}

// holder is a holder in JSON. It has no token, which would prove ownership.
type holder struct {
	Owner   string `json:"owner"`
	Fence   int64  `json:"fence"`
	HeldMS  int64  `json:"held_ms"`
	TTLLeft *int64 `json:"ttl_left_ms"` // null: no expiry
	Purpose string `json:"purpose"`
	Foreign bool   `json:"foreign"`
}

func lockJSON(state driver.State) lock {
	l := lock{Name: state.Name, Held: len(state.Holders) > 0, Fence: state.Fence, Holders: []holder{}}
	for _, h := range state.Holders {
		l.Holders = append(l.Holders, holderJSON(h))
	}
	return l
}

func holderJSON(h driver.Holder) holder {
	return holder{
		Owner: h.Owner(), Fence: h.Fence, Purpose: h.Purpose, Foreign: h.Foreign(),
		HeldMS: int64(h.Age / time.Millisecond), TTLLeft: leftJSON(h.Left),
	}
}

// leftJSON is nil for a lock without an expiry.
func leftJSON(left time.Duration) *int64 {
	if left < 0 {
		return nil
	}
	ms := left.Milliseconds()
	return &ms
}

func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "write JSON")
}

func (a *app) writeJSON(value any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}
