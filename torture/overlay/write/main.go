// Command write applies patches to copies of the sources and prints the name of
// the file that go build -overlay wants:
//
//	go test -overlay "$(go run ./torture/overlay/write torture/sim/seam.patch)" ./torture/sim
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfastlock/holdfast/torture/overlay"
)

func main() {
	dir := flag.String("dir", filepath.Join("bin", "overlay"), "folder for the copies, emptied first; relative to the module's")
	flag.Parse()
	file, err := write(*dir, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
	fmt.Println(file)
}

func write(dir string, files []string) (string, error) {
	root, err := overlay.Root()
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	var patches []overlay.Patch
	for _, file := range files {
		patch, err := overlay.Read(file)
		if err != nil {
			return "", err
		}
		patches = append(patches, patch)
	}
	return overlay.Write(root, dir, patches...)
}
