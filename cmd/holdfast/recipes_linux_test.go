package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfastlock/holdfast/internal/redistest"
)

// These tests take the command lines from docs/recipes, put their own programs
// and their own server in place of /usr/local/bin and redis://db1, and run them
// with no more in the environment than cron, systemd or a container gives.

const recipes = "../../docs/recipes/"

// stage is where a recipe is run.
type stage struct {
	bin      string // in place of /usr/local/bin
	url      string // of the store
	log      string // a line for each start of a job
	finish   string // tells the jobs to end
	replaced *strings.Replacer
}

func newStage(t *testing.T) *stage {
	t.Helper()
	program, err := exec.LookPath("holdfast")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h := &stage{
		bin: filepath.Join(dir, "bin"), log: filepath.Join(dir, "log"), finish: filepath.Join(dir, fileFinish),
		url: redistest.Start(t, redistest.Options{}).URL(),
	}
	h.replaced = strings.NewReplacer("/usr/local/bin/", h.bin+"/", "redis://db1", h.url)
	script := "#!/bin/sh\necho $HOLDFAST_NAME $* >>" + h.log + "\nuntil test -e " + h.finish + "; do sleep 0.05; done\n"
	must(os.Mkdir(h.bin, 0o700))
	must(os.Symlink(program, filepath.Join(h.bin, "holdfast")))
	for _, name := range []string{"report.sh", "reindex.sh", "migrate.sh"} {
		must(os.WriteFile(filepath.Join(h.bin, name), []byte(script), 0o700))
	}
	return h
}

// read returns a recipe, with our programs and server.
func (h *stage) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(recipes + name)
	if err != nil {
		t.Fatal(err)
	}
	return h.replaced.Replace(string(text))
}

// runsOnce starts a recipe twice, with a bare environment: the job must run
// once, and both must end well and not say a word, so that cron sends no mail.
func (h *stage) runsOnce(t *testing.T, job string, env []string, argv ...string) {
	t.Helper()
	if text := strings.Join(append(env, argv...), " "); !strings.Contains(text, h.bin) || !strings.Contains(text, h.url) {
		t.Fatalf("not a recipe of ours: %s", text)
	}
	must(os.RemoveAll(h.log))
	must(os.RemoveAll(h.finish))
	start := func() *process {
		p := &process{Cmd: exec.Command(argv[0], argv[1:]...)}
		p.Env, p.Stdout, p.Stderr = append([]string{"GORACE=" + raceOptions}, env...), &p.stderr, &p.stderr
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := start()
	if err := until(func() bool { return h.started() != "" }); err != nil {
		t.Fatalf("%s: %v: %s", first, err, &first.stderr)
	}
	second := start()
	if !strings.Contains(strings.Join(argv, " "), "forever") {
		h.ends(t, second) // one that does not stand by is gone before the job is
	}
	must(os.WriteFile(h.finish, nil, 0o600))
	h.ends(t, first)
	h.ends(t, second)
	if got := h.started(); got != job+"\n" {
		t.Errorf("%s: started %q, want once %q", first, got, job)
	}
}

func (h *stage) started() string {
	log, _ := os.ReadFile(h.log)
	return string(log)
}

// ends waits for the end of a process, if need be, and checks it.
func (h *stage) ends(t *testing.T, p *process) {
	t.Helper()
	if p.ProcessState != nil {
		return
	}
	if code := p.code(t); code != 0 || p.stderr.Len() > 0 {
		t.Errorf("%s: ended with %d and said %q", p, code, &p.stderr)
	}
}

func TestTheCrontabWorksWithWhatCronGivesIt(t *testing.T) {
	t.Parallel()
	h := newStage(t)
	env := []string{"HOME=/nowhere", "LOGNAME=root", "SHELL=/bin/sh", "PATH=/usr/bin:/bin"}
	var jobs []string
	for _, line := range lines(h.read(t, "job.crontab")) {
		if variable, _, _ := strings.Cut(line, "="); !strings.Contains(variable, " ") {
			env = append(env, line)
			continue
		}
		const fields = 5 // minute, hour, day, month, weekday
		rest := strings.SplitN(line, " ", fields+1)
		command := rest[fields]
		if strings.Contains(command, "%") {
			t.Errorf("cron makes a new line of %%: %s", command)
		}
		name := lastBefore(command, " -- ")
		h.runsOnce(t, name, env, "/bin/sh", "-c", command)
		jobs = append(jobs, name)
	}
	if got := strings.Join(jobs, " "); got != "reindex nightly-report" {
		t.Errorf("ran %q", got)
	}
}

func TestTheServiceWorksWithWhatSystemdGivesIt(t *testing.T) {
	t.Parallel()
	h := newStage(t)
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	command := ""
	for _, line := range lines(h.read(t, "report.service")) {
		switch key, value, _ := strings.Cut(line, "="); key {
		case "Environment":
			env = append(env, value)
		case "ExecStart":
			command = value
		}
	}
	if strings.ContainsAny(command, "$%\\'") {
		t.Errorf("systemd reads that in another way than the shell: %s", command)
	}
	h.runsOnce(t, "nightly-report", env, "/bin/sh", "-c", "exec "+command)
}

func TestSystemdKnowsTheUnits(t *testing.T) {
	if exec.Command("systemd-analyze", "--version").Run() != nil {
		t.Skip("no systemd-analyze here")
	}
	h, dir := newStage(t), t.TempDir()
	for _, name := range []string{"report.service", "report.timer"} {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, []byte(h.read(t, name)), 0o600))
		if out, err := exec.Command("systemd-analyze", "verify", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// pods is what we want to know of a manifest.
type pods struct {
	Spec struct {
		Template    pod // of a Deployment
		JobTemplate struct {
			Spec struct{ Template pod }
		} `yaml:"jobTemplate"` // of a CronJob
	}
}

type pod struct {
	Spec struct {
		InitContainers []container `yaml:"initContainers"`
		Containers     []container
	}
}

type container struct {
	Command []string
	Env     []struct{ Name string }
}

func TestTheContainersOfKubernetesWorkAsFirstProcess(t *testing.T) {
	t.Parallel()
	h := newStage(t)
	read := func(name string) (m pods) {
		if err := yaml.Unmarshal([]byte(h.read(t, name)), &m); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return m
	}
	for job, c := range map[string]container{
		"nightly-report": read("cronjob.yaml").Spec.JobTemplate.Spec.Template.Spec.Containers[0],
		"shop-migration": read("initcontainer.yaml").Spec.Template.Spec.InitContainers[0],
	} {
		h.runsAsFirst(t, job, c.Env[0].Name+"="+h.url, c.Command)
	}
}

func TestTheImageWorksAsFirstProcess(t *testing.T) {
	t.Parallel()
	h := newStage(t)
	var argv []string
	for _, line := range lines(h.read(t, "Dockerfile")) {
		switch key, value, _ := strings.Cut(line, " "); key {
		case "ENTRYPOINT", "CMD": // in this order
			var words []string
			must(json.Unmarshal([]byte(value), &words))
			argv = append(argv, words...)
		}
	}
	h.runsAsFirst(t, "nightly-report", "HOLDFAST_STORE="+h.url, argv)
}

// runsAsFirst is runsOnce in PID namespaces of their own.
func (h *stage) runsAsFirst(t *testing.T, job, store string, argv []string) {
	t.Helper()
	unshare := []string{"unshare", "--pid", "--fork", "--mount-proc"}
	if err := exec.Command(unshare[0], append(unshare[1:], "true")...).Run(); err != nil {
		t.Skipf("no PID namespaces here: %v", err)
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", store}
	h.runsOnce(t, job, env, append(unshare, argv...)...)
}

func TestAScriptCanLockItself(t *testing.T) {
	t.Parallel()
	h := newStage(t)
	path := filepath.Join(h.bin, "lock-itself.sh")
	must(os.WriteFile(path, []byte(h.read(t, "lock-itself.sh")), 0o700))
	env := []string{"PATH=/usr/bin:/bin", "HOLDFAST_STORE=" + h.url}
	h.runsOnce(t, "reindex all today", env, path, "all", "today")
}

func TestTheRecipesPageNamesEveryRecipe(t *testing.T) {
	page, err := os.ReadFile(recipes + "../recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(recipes)
	if err != nil || len(files) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	for _, file := range files {
		end := ")"
		if file.IsDir() {
			end = "/" // to a file in it
		}
		if !bytes.Contains(page, []byte("](recipes/"+file.Name()+end)) {
			t.Errorf("no link to %s", file.Name())
		}
	}
}

// lines returns the lines that are neither empty nor a comment.
func lines(text string) []string {
	var some []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			some = append(some, line)
		}
	}
	return some
}

// lastBefore returns the last word before a mark.
func lastBefore(text, mark string) string {
	before, _, _ := strings.Cut(text, mark)
	return before[strings.LastIndex(before, " ")+1:]
}
