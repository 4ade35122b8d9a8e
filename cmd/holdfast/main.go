// Command holdfast runs commands under a lock that many machines share. See
// holdfast --help.
package main

import (
	"context"
	"os"

	"github.com/holdfastlock/holdfast/internal/command"
	"github.com/holdfastlock/holdfast/internal/supervise"
)

func main() {
	if supervise.Asked(os.Args) {
		os.Exit(supervise.Main(os.Args))
	}
	os.Exit(command.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
