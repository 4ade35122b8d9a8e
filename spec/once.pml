/* One slot of one job, and the runs that want it: package once.

   A run acquires the job's lock, begins the slot, works, marks the slot done,
   releases. That leases exclude each other is checked in lock.pml and is taken
   from there: the store ends a lease only after its holder has stopped to trust
   it. So there is no time here, only the order of things.

   A request is answered; or carried out and its answer lost; or still under way
   when the run waits no longer, and may then arrive at any time or never. A run
   that stops for ever, at any step, has crashed; one that goes on after others
   have moved was paused.

   README.md says where each step is in the code, and what the #ifdefs drop. */

#ifndef RUNS
#define RUNS 2
#endif
#ifndef MOST
#define MOST 0         /* attempts allowed; 0: no limit */
#endif
#ifndef ASKS
#define ASKS 2         /* how often run 1 sends an acquire or a begin; a finish or release any number */
#endif

/* The store: the job's lock, and the slot's record. Tokens are numbers from 1. */
byte holder;           /* the token of the lease on the job; 0: free */
byte companion;        /* the fence of the last grant */
bit tombstoned[RUNS + 1];
mtype = { running, done, lost };
byte phase, token, fence, attempt;  /* the record; phase 0: nobody has begun it */
bit failed;            /* done with a code other than 0 */

/* The runs. */
bit trusted[RUNS + 1]; /* the run trusts its lease */
byte lease[RUNS + 1];  /* its fence, as the run was told */
byte mine[RUNS + 1];   /* its attempt, as the run was told */
bit working[RUNS + 1];

/* Requests of run 1 that nobody waits for any more. */
bit stray_acquire, stray_begin, stray_finish, stray_code;
bit granted[RUNS + 1]; /* the token has had the job before */

byte works;            /* how often the work was begun */

/* What must never be. */
bit two_at_work, marked_the_successors, marked_without_lease, begun_when_done, worked_twice, fence_not_larger, freed_the_successor;

inline check_work(me) {
  works++;
  worked_twice = MOST == 1 && works > 1;
  assert(!worked_twice);
  check_two()
}

#define AT_WORK(me) (working[me] && trusted[me])

inline check_two() {
#if RUNS == 2
  two_at_work = AT_WORK(1) && AT_WORK(2);
#else
  two_at_work = (AT_WORK(1) && AT_WORK(2)) || (AT_WORK(1) && AT_WORK(3)) || (AT_WORK(2) && AT_WORK(3));
#endif
  assert(!two_at_work)
}

/* ---- the store: each is one step, and answers in yes ---- */

inline acquire(me, yes) {
  if
  :: tombstoned[me] -> yes = 0
  :: !tombstoned[me] && holder == 0 -> holder = me; granted[me] = 1; companion++; yes = 1;
     printf("store: grants the job to run %d, fence %d\n", me, companion)
  :: !tombstoned[me] && holder == me -> yes = 1
  :: else -> yes = 0
  fi
}

#ifdef BLIND_RELEASE
#define MAY_RELEASE(me) holder != 0
#else
#define MAY_RELEASE(me) holder == me
#endif

inline release(me, doubt) {
  if
  :: MAY_RELEASE(me) ->
     printf("store: run %d frees the job, which run %d has\n", me, holder);
     freed_the_successor = holder != me;
     assert(!freed_the_successor);
     holder = 0
  :: else
  fi;
  tombstoned[me] = tombstoned[me] || doubt
}

#ifdef LEASE_BY_TOKEN
#define HOLDS(me) (holder == me)
#else
#define HOLDS(me) (holder == me && companion == lease[me])
#endif

#define EXHAUSTED (MOST > 0 && attempt >= MOST)
#ifdef RETRY_FAILED
#define FINAL(me) (phase == done && (!failed || EXHAUSTED || token == me))
#else
#define FINAL(me) (phase == done)
#endif

#ifdef BEGIN_WITHOUT_LEASE
#define MAY_BEGIN(me) true
#else
#define MAY_BEGIN(me) HOLDS(me)
#endif

/* yes: the run is to work. The order is that of driver.BeginRequest.Judge. */
inline begin(me, yes) {
  if
  :: !MAY_BEGIN(me) -> yes = 0
  :: MAY_BEGIN(me) && phase == running && token == me -> yes = 1
#ifndef SLOT_NOT_JUDGED
  :: MAY_BEGIN(me) && phase == running && token != me && EXHAUSTED -> phase = lost; yes = 0
  :: MAY_BEGIN(me) && (phase == lost || FINAL(me)) -> yes = 0
#endif
  :: else ->
     printf("store: run %d begins attempt %d with fence %d; the last had %d\n", me, attempt + 1, lease[me], fence);
#ifndef ONLY_WORK
     begun_when_done = phase == done && !failed;
     assert(!begun_when_done);
     fence_not_larger = lease[me] <= fence;
     assert(!fence_not_larger);
#endif
     phase = running; token = me; fence = lease[me]; attempt++; failed = 0;
     yes = 1
  fi
}

#if defined(FINISH_COMPARES_NOTHING)
#define MAY_FINISH(me) (phase == running)
#elif defined(FINISH_WITHOUT_LEASE)
#define MAY_FINISH(me) (phase == running && token == me && fence == lease[me])
#elif defined(FINISH_WITHOUT_RECORD)
#define MAY_FINISH(me) (HOLDS(me) && phase == running)
#else
#define MAY_FINISH(me) (HOLDS(me) && phase == running && token == me && fence == lease[me])
#endif

/* yes: it is done, now or before. */
inline finish(me, code, yes) {
  if
  :: phase == done && token == me && fence == lease[me] -> yes = 1
  :: MAY_FINISH(me) ->
     printf("store: run %d marks attempt %d of run %d done; the job has run %d\n", me, attempt, token, holder);
     marked_the_successors = token != me;
     assert(!marked_the_successors);
#ifndef ONLY_SUCCESSORS
     marked_without_lease = holder != me || companion != lease[me] || attempt != mine[me];
     assert(!marked_without_lease);
#endif
     phase = done; failed = code; yes = 1
  :: else -> yes = 0
  fi
}

active proctype store() {
  bit yes;
end:
  do
  :: atomic { stray_acquire -> stray_acquire = 0; acquire(1, yes); yes = 0 }
  :: atomic { stray_acquire -> stray_acquire = 0 }  /* lost */
  :: atomic { stray_begin -> stray_begin = 0; begin(1, yes); yes = 0 }
  :: atomic { stray_finish -> stray_finish = 0; finish(1, stray_code, yes); stray_code = 0; yes = 0 }
#ifdef LEASES_OVERLAP
  :: atomic { holder != 0 ->
#else
  :: atomic { holder != 0 && !trusted[holder] ->
#endif
       printf("store: the lease of run %d ends\n", holder); holder = 0 }  /* the lease ends */
  od
}

/* ---- a run ---- */

proctype host(byte me) {
  bit yes, doubtful, code;
  byte asks;

ask:
  asks++;
  if
  :: atomic { true -> acquire(me, yes);
       if
       :: yes -> lease[me] = companion; trusted[me] = 1; yes = 0; asks = 0; goto start
       :: !yes && doubtful -> asks = 0; goto free
       :: !yes && !doubtful -> goto over
       fi }
  :: atomic { me == 1 -> acquire(me, yes); yes = 0; doubtful = 1 }
  :: atomic { me == 1 -> stray_acquire = 1; doubtful = 1; printf("run %d: leaves an acquire behind\n", me) }
  fi;
  if
  :: asks < ASKS -> goto ask
  :: else -> asks = 0; goto free
  fi;

start:
  asks++;
  if
  :: atomic { true -> begin(me, yes);
       if
       :: yes -> mine[me] = attempt; yes = 0; asks = 0; goto work
       :: else -> asks = 0; goto free
       fi }
  :: atomic { me == 1 -> begin(me, yes); yes = 0 }
  :: atomic { me == 1 -> stray_begin = 1; printf("run %d: leaves a begin behind\n", me) }
  fi;
  if
  :: asks < ASKS -> goto start
  :: else -> asks = 0; goto free
  fi;

work:
  atomic { working[me] = 1; printf("run %d: works\n", me); check_work(me) };
  if
  :: atomic { true -> working[me] = 0; printf("run %d: work returns\n", me) }
#ifdef RETRY_FAILED
  :: atomic { true -> working[me] = 0; code = 1 }
#endif
  :: atomic { true -> working[me] = 0; printf("run %d: work was not done\n", me); goto free }  /* panics, or returns ErrNotDone */
  fi;

  do
  :: trusted[me] ->
     if
     :: atomic { true -> finish(me, code, yes); yes = 0; break }
     :: atomic { me == 1 -> finish(me, code, yes); yes = 0 }
     :: atomic { me == 1 -> stray_finish = 1; stray_code = code; printf("run %d: leaves a finish behind\n", me) }
     fi
  :: !trusted[me] -> break
  od;

free:
  atomic { trusted[me] = 0; code = 0 };
  do
  :: atomic { true -> release(me, doubtful); break }
  :: atomic { true -> release(me, doubtful) }  /* answer lost: again */
  od;

over:
  doubtful = 0
}

/* The deadline of a lease passes. */
active proctype time() {
end:
  do
  :: atomic { trusted[1] -> trusted[1] = 0; printf("run 1: the deadline of its lease passes\n") }
  :: atomic { trusted[2] -> trusted[2] = 0; printf("run 2: the deadline of its lease passes\n") }
#if RUNS > 2
  :: atomic { trusted[3] -> trusted[3] = 0; printf("run 3: the deadline of its lease passes\n") }
#endif
  od
}

init {
  atomic { run host(1); run host(2);
#if RUNS > 2
    run host(3)
#endif
  }
}
