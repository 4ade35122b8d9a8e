package supervise

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Exit codes of a command that can't be started, as the shells use them.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// Command is a command that was found and may be executed.
type Command struct {
	path string
	args []string
}

// Find looks up a command and its arguments, as execvp does: by path if it has
// a slash, else in PATH; a text file without "#!" is run by /bin/sh. ExitCode
// tells the errors apart.
func Find(argv []string) (Command, error) {
	path, err := lookUp(argv[0])
	if errors.Is(err, exec.ErrNotFound) && inPath(argv[0]) {
		return Command{}, &exec.Error{Name: argv[0], Err: fs.ErrPermission}
	}
	if err != nil && !errors.Is(err, exec.ErrDot) { // execvp runs those too
		return Command{}, err
	}
	if plainText(path) {
		const shell = "/bin/sh"
		return Command{shell, append([]string{shell, path}, argv[1:]...)}, nil
	}
	return Command{path, argv}, nil
}

// Exec runs the command in the place of this process, with its environment and
// the files that may be inherited. It returns only if that is impossible;
// ExitCode knows the error.
func (c Command) Exec() error {
	return &fs.PathError{Op: "exec", Path: c.path, Err: syscall.Exec(c.path, c.args, os.Environ())}
}

// lookUp is exec.LookPath, with the folders that execvp takes where PATH is not
// set at all.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	if _, set := os.LookupEnv("PATH"); set || !errors.Is(err, exec.ErrNotFound) || strings.Contains(name, "/") {
		return path, err
	}
	for _, folder := range []string{"/bin/", "/usr/bin/"} {
		if path, err = exec.LookPath(folder + name); err == nil {
			break
		}
	}
	return path, err
}

// inPath says whether a folder of PATH has a file of that name, executable or
// not.
func inPath(name string) bool {
	return !strings.Contains(name, "/") && slices.ContainsFunc(filepath.SplitList(os.Getenv("PATH")), func(folder string) bool {
		info, err := os.Stat(filepath.Join(folder, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// ExitCode returns the exit code for an error of Find or Job.Run, but ErrSystem.
func ExitCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return CodeNotFound
	}
	return CodeNotExecutable
}

// plainText says whether the file is a text that names no interpreter, which
// the kernel refuses to execute.
func plainText(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false // executable but not readable: no script
	}
	defer file.Close()
	const enough = 256
	head := make([]byte, enough)
	n, _ := file.Read(head) // 0 for an empty file, which is an empty script
	head = head[:n]
	return !bytes.HasPrefix(head, []byte("#!")) && !bytes.ContainsRune(head, 0)
}
