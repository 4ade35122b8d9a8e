package main

import (
	"bufio"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startTestServer(t *testing.T) *server {
	t.Helper()
	s, err := startServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

func TestEveryOperationIsOneRoundTripExceptToLearnWhoHoldsABareName(t *testing.T) {
	results, err := measureCommands(t.Context(), startTestServer(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		want := 1
		if r.Operation == "TryAcquire of a held name WithoutFence" {
			want = 2
		}
		if r.RoundTrips != want*r.Reps || r.Took < turnLag*commandReps {
			t.Errorf("%s: %d round trips and %v for %d, want %d for each", r.Operation, r.RoundTrips, r.Took, r.Reps, want)
		}
	}
}

func TestEveryAdapterLocksAndFreesItsKeys(t *testing.T) {
	s := startTestServer(t)
	p, err := parse([]string{"-reps", "1", "-duration", "50ms", "-goroutines", "3"})
	if err != nil {
		t.Fatal(err)
	}
	results, err := measurePairs(t.Context(), s, p)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Adapter != adapters[i].name || r.Runs[0].PairsPerSecond == 0 || r.overlaps() != 0 {
			t.Errorf("%s: %+v", adapters[i].name, r)
		}
	}
	keys, err := s.admin.Do(t.Context(), s.admin.B().Keys().Pattern("lock:own:*").Build()).AsStrSlice()
	if err != nil || len(keys) != 0 {
		t.Errorf("keys left: %v, %v", keys, err)
	}
}

func TestLeasesThatAreKeptAliveAreNotLost(t *testing.T) {
	p, err := parse([]string{"-leases", "300", "-ttl", "1s", "-hold", "2s"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := measureHeld(t.Context(), startTestServer(t), p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Lost != 0 || r.Extended < 300 {
		t.Errorf("%d lost, %d extended", r.Lost, r.Extended)
	}
}

func TestACommandIsReadWhole(t *testing.T) {
	const first = "*2\r\n$3\r\nGET\r\n$5\r\na\r\nb$\r\n"
	command, name, err := readCommand(bufio.NewReader(strings.NewReader(first + "*1\r\n$4\r\nPING\r\n")))
	if err != nil || string(command) != first || name != "get" {
		t.Errorf("%q, %q, %v", command, name, err)
	}
}

func TestTheMedianIsTheMiddle(t *testing.T) {
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("of 9, 1, 5: %v", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("of 4, 1, 3, 2: %v", got)
	}
}
