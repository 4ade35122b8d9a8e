package nemesis

import (
	"reflect"
	"testing"
	"time"
)

func spec(seed uint64, length time.Duration) Spec {
	return Spec{Seed: seed, Length: length, Workers: 4, TTL: time.Second, Kinds: Kinds}
}

func TestTheSameSeedGivesTheSameFaultsAtTheSameTimes(t *testing.T) {
	a, b := Plan(spec(7, time.Minute)), Plan(spec(7, time.Minute))
	if !reflect.DeepEqual(a, b) {
		t.Error("two plans of one seed differ")
	}
	if reflect.DeepEqual(a, Plan(spec(8, time.Minute))) {
		t.Error("two seeds have the same plan")
	}
}

func TestALongerRunBeginsAsAShorterOne(t *testing.T) {
	short, long := Plan(spec(7, 30*time.Second)), Plan(spec(7, time.Minute))
	if len(short) == 0 || !reflect.DeepEqual(short, long[:len(short)]) {
		t.Errorf("the first %d faults differ", len(short))
	}
}

func TestTwoMinutesHave200FaultsOfEveryKind(t *testing.T) {
	for seed := range uint64(20) {
		plan := Plan(spec(seed, 2*time.Minute))
		seen := make(map[string]int)
		for _, f := range plan {
			seen[f.Kind.Name]++
		}
		if len(plan) < 200 || len(seen) != len(Kinds) {
			t.Errorf("seed %d: %d faults of %d kinds, want 200 of %d: %v", seed, len(plan), len(seen), len(Kinds), seen)
		}
	}
}

func TestAStoreWithoutServersSuffersInItsProcessesOnly(t *testing.T) {
	for _, kind := range Of("local") {
		if kind.Lane != Processes {
			t.Errorf("%s", kind.Name)
		}
	}
}

func TestNoFaultReachesIntoACalm(t *testing.T) {
	for _, store := range []string{"redis", "sentinel", "cluster", "quorum", "postgres"} {
		s := spec(7, 5*time.Minute)
		s.Kinds = Of(store)
		for _, f := range Plan(s) {
			into, length := f.At%(s.storm()+s.Calm()), f.For+f.Kind.Healing
			if into+length > s.storm() || f.At+length > s.Length-s.Calm() {
				t.Errorf("%s: %v at %v", store, f, f.At)
			}
		}
	}
}

func TestFaultsOfOneLaneFollowOneAnother(t *testing.T) {
	ends := make(map[laneOf]time.Duration)
	s := spec(7, 5*time.Minute)
	s.Kinds = OfPostgres
	for _, f := range Plan(s) {
		lane := laneOf{f.Kind.Lane, f.Worker}
		if f.At < ends[lane] {
			t.Errorf("%v at %v begins before the one before it has ended", f, f.At)
		}
		ends[lane] = f.At + f.For + f.Kind.Healing
		if (f.Worker == 0) != (f.Kind.Lane == Servers) {
			t.Errorf("%v has worker %d", f, f.Worker)
		}
	}
}
