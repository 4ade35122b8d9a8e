// Command holdfast runs commands under a lock that many machines share. See
// holdfast --help.
package main

import (
	"context"
	"os"

	"github.com/holdfastlock/holdfast/internal/command"
)

func main() {
	os.Exit(command.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
