package httpfence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/filefence"
	"github.com/holdfastlock/holdfast/fence/internal/fencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lists is a handler whose resources are lists of fences.
type lists struct {
	mu      sync.Mutex
	content map[string][]int64
	between sync.Map // of requests, by number
	number  int
}

const betweenHeader = "Test-Between"

func (l *lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		return // a look, which touches
	}
	if between, there := l.between.Load(r.Header.Get(betweenHeader)); there {
		if err := between.(func() error)(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	shown, _ := FromRequest(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.content[resource(r)] = append(l.content[resource(r)], shown.Fence)
}

func resource(r *http.Request) string { return strings.TrimPrefix(Path(r), "/") }

// register keeps what is to be called in between, for the handler to find.
func (l *lists) register(between func() error) (number string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	number = strconv.Itoa(l.number)
	l.between.Store(number, between)
	return number
}

func conformance(t *testing.T, guard fence.Guard) {
	handler := &lists{content: map[string][]int64{}}
	server := httptest.NewServer(Require(guard, resource, handler))
	defer server.Close()
	send := func(ctx context.Context, method, resource, owner string, shown int64, between func() error) error {
		to := server.URL + (&url.URL{Path: "/" + resource}).EscapedPath()
		req, err := http.NewRequestWithContext(ctx, method, to, http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set(betweenHeader, handler.register(between))
		resp, err := Do(server.Client(), req, owner, shown)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status + ": " + string(text))
		}
		return nil
	}
	fencetest.Run(t, fencetest.Resources{
		Touch: func(ctx context.Context, resource, owner string, shown int64) error {
			return send(ctx, http.MethodGet, resource, owner, shown, nil)
		},
		Append: func(ctx context.Context, resource, owner string, shown int64, between func() error) error {
			return send(ctx, http.MethodPost, resource, owner, shown, between)
		},
		List: func(_ *testing.T, resource string) []int64 {
			handler.mu.Lock()
			defer handler.mu.Unlock()
			return slices.Clone(handler.content[resource])
		},
		Remote: true,
	})
}

func TestConformanceWithAMemory(t *testing.T) { conformance(t, new(fence.Memory)) }

func TestConformanceWithADir(t *testing.T) {
	dir, err := filefence.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	conformance(t, dir)
}

// broken is a Guard that fails: before the change, or after it.
type broken struct{ after bool }

func (b broken) Touch(context.Context, string, string, int64) error { return errBroken }

func (b broken) Do(ctx context.Context, _, _ string, _ int64, change func(context.Context) error) error {
	if b.after {
		_ = change(ctx)
	}
	return errBroken
}

var errBroken = errors.New("password hunter2 was refused")

// answer sends one request to a handler behind the guard.
func answer(guard fence.Guard, method string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/report", http.NoBody)
	r.Header = header
	w := httptest.NewRecorder()
	Require(guard, Path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "done")
	})).ServeHTTP(w, r)
	return w
}

func TestEveryRefusalHasItsCodeAndAProblem(t *testing.T) {
	var memory fence.Memory
	if err := memory.Touch(t.Context(), "/report", "b", 42); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		guard  fence.Guard
		header http.Header
		want   int
	}{
		"stale":            {&memory, http.Header{FenceHeader: {"41"}, OwnerHeader: {"a"}}, 412},
		"conflict":         {&memory, http.Header{FenceHeader: {"42"}, OwnerHeader: {"a"}}, 409},
		"no fence":         {&memory, http.Header{OwnerHeader: {"a"}}, 428},
		"no owner":         {&memory, http.Header{FenceHeader: {"43"}}, 400},
		"empty owner":      {&memory, http.Header{FenceHeader: {"43"}, OwnerHeader: {""}}, 400},
		"no number":        {&memory, http.Header{FenceHeader: {"4x"}, OwnerHeader: {"a"}}, 400},
		"empty fence":      {&memory, http.Header{FenceHeader: {""}, OwnerHeader: {"a"}}, 400},
		"zero":             {&memory, http.Header{FenceHeader: {"0"}, OwnerHeader: {"a"}}, 400},
		"negative":         {&memory, http.Header{FenceHeader: {"-1"}, OwnerHeader: {"a"}}, 400},
		"too large":        {&memory, http.Header{FenceHeader: {"9223372036854775808"}, OwnerHeader: {"a"}}, 400},
		"two fences":       {&memory, http.Header{FenceHeader: {"43", "44"}, OwnerHeader: {"a"}}, 400},
		"two owners":       {&memory, http.Header{FenceHeader: {"43"}, OwnerHeader: {"a", "b"}}, 400},
		"owner with %":     {&memory, http.Header{FenceHeader: {"43"}, OwnerHeader: {"%x"}}, 400},
		"guard can't tell": {broken{}, http.Header{FenceHeader: {"43"}, OwnerHeader: {"a"}}, 503},
	} {
		w := answer(c.guard, http.MethodPost, c.header)
		var body map[string]any
		err := json.Unmarshal(w.Body.Bytes(), &body)
		if w.Code != c.want || err != nil || body["status"] != float64(c.want) || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%s: the insides are told: %s", name, w.Body)
		}
	}
	if newest := memory.Newest("/report"); newest != 42 {
		t.Errorf("a refused request left fence %d", newest)
	}
}

func TestALookNeedsNoFence(t *testing.T) {
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 200, "POST": 428, "PUT": 428, "DELETE": 428} {
		if w := answer(new(fence.Memory), method, http.Header{}); w.Code != want {
			t.Errorf("%s without a fence: %d, want %d", method, w.Code, want)
		}
	}
	if w := answer(new(fence.Memory), "GET", http.Header{FenceHeader: {""}}); w.Code != 400 {
		t.Errorf("a look with an empty fence: %d, want 400", w.Code)
	}
}

func TestAGuardThatFailsDuringTheChangeBreaksTheConnectionOff(t *testing.T) {
	server := httptest.NewServer(Require(broken{after: true}, Path, http.NotFoundHandler()))
	defer server.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	if resp, err := Do(server.Client(), req, "a", 41); err == nil {
		resp.Body.Close()
		t.Errorf("the answer was %s", resp.Status)
	}
}

func TestAnswersOfOtherKindsAreLeftAlone(t *testing.T) {
	for contentType, body := range map[string]string{
		"text/plain":       "no",
		mediaType:          `{"type":"about:blank","detail":"If-Match"}`,
		mediaType + ";a=b": strings.Repeat("x", 100_000),
		"":                 "",
	} {
		resp := &http.Response{StatusCode: 412, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body))}
		if err := Check(resp); err != nil {
			t.Errorf("%s: %v", contentType, err)
		}
		if left, err := io.ReadAll(resp.Body); string(left) != body || err != nil {
			t.Errorf("%s: %d bytes are left of %d (%v)", contentType, len(left), len(body), err)
		}
	}
}

func TestDoLeavesTheRequestAsItWas(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	resp, err := Do(server.Client(), req, "a", 41)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(req.Header) != 0 {
		t.Errorf("it got the headers %v", req.Header)
	}
}

func FuzzAnOwnerArrivesAsItWasSent(f *testing.F) {
	for _, owner := range []string{"web-1/4781", "a b", " a", "100%", "é", "\n", "\xff"} {
		f.Add(owner)
	}
	f.Fuzz(func(t *testing.T, owner string) {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		Set(r.Header, owner, 41)
		shown, err := FromRequest(r)
		if owner != "" && (err != nil || shown != fence.Mark{Fence: 41, Owner: owner}) {
			t.Errorf("%q arrived as %+v (%v)", owner, shown, err)
		}
		if value := r.Header.Get(OwnerHeader); strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' }) {
			t.Errorf("%q was sent as %q", owner, value)
		}
	})
}
