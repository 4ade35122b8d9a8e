// Command step holds a lock, steps its own wall clock and says whether the
// Locker has seen it: it renews at once.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/holdfastlock/holdfast"
	"github.com/holdfastlock/holdfast/memstore"
)

func main() {
	ctx := context.Background()
	renewed := make(chan struct{}, 1)
	locker, err := holdfast.New(memstore.New(), holdfast.Config{
		TTL:    time.Hour,
		Events: holdfast.Events{Extended: func(holdfast.Event) { renewed <- struct{}{} }},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := locker.Acquire(ctx, "x"); err != nil {
		log.Fatal(err)
	}
	offset := binary.NativeEndian.AppendUint64(nil, uint64(time.Hour))
	file, err := os.OpenFile(os.Args[1], os.O_RDWR, 0)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := file.WriteAt(offset, 0); err != nil {
		log.Fatal(err)
	}
	select {
	case <-renewed:
		fmt.Println("renewed")
	case <-time.After(10 * time.Second):
		fmt.Println("not renewed")
	}
}
