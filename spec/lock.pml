/* One name in one store, and the calls that want it.

   A call is one acquisition with a token of its own, in whatever process: it
   asks, holds a lease, extends it, releases. The store does one request at a
   time, in one step. Requests may be slow, overtake each other, or get lost, and
   so may answers; a call that waits no longer leaves its request behind, which
   may arrive at any time or never. A call that stops for ever, at any step, is a
   process that has crashed or is paused.

   Time is a tick that may come between any two steps and counts down what is
   left: at the store and, by other clocks, at the holders. The store's clock
   may run fast by one tick in every TTL, which the margin is for.

   README.md says where each step is in the code, and what the #ifdefs drop. */

#ifndef CALLS
#define CALLS 2
#endif
#define TTL 3          /* ticks; of an acquire, and of the keep-alive's extension */
#define LONGER 4       /* of Lease.Extend with a longer TTL */
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1       /* drift and margin */
#endif
#ifndef ASKS
#define ASKS 2         /* requests that one call may send before it has a lease */
#endif

mtype = { acquire, extend, release };

/* How far a request has come. */
#define NONE 0
#define SENT 1         /* on its way, and awaited */
#define ANSWERED 2     /* the answer is on its way, and awaited */
#define STRAY 3        /* on its way, and nobody waits for the answer */

typedef Request {
  mtype op;
  byte state;
  byte ttl;
  byte left;           /* of the window that it gives: counts from when it was sent */
  bit tombstone;       /* release: refuse the token from now on */
  bit yes;             /* the answer: granted, or mine */
  byte number;         /* only FENCE_DRAWN_BEFORE: the fence that it brings along */
};

/* Two requests of call 1 may be under way at once, one of the others. */
#define FIRST(call) (call)
#define SECOND(call) ((call) == 1 -> 0 : (call))
#define ROOM(call) (request[FIRST(call)].state == NONE || request[SECOND(call)].state == NONE)
Request request[CALLS + 1];

/* The store. Tokens are numbers from 1; 0 is nobody. */
byte holder, expiry;   /* the key: its token, and the ticks it lasts */
byte companion;        /* the last fence, as the store remembers it */
byte clock = 3;        /* TIME; moves on between two grants */
bit fast;              /* its clock has run fast since the expiry was set */
bit tombstoned[CALLS + 1];

/* The calls. */
byte trusted[CALLS + 1];  /* ticks left of the lease's window; 0: not trusted */
bit over[CALLS + 1];      /* the call has returned or released, and cleans up no more; by token */

byte newest;           /* the largest fence ever granted; nobody in the system knows it */

#ifdef TOKEN_REUSED
#define TOKEN(call) ((call) == 3 -> 1 : (call))
#else
#define TOKEN(call) (call)
#endif

/* What must never be. */
bit two_trusted, left_locked, fence_not_larger, not_the_owners;

inline check() {
#ifndef FENCES
#if CALLS == 2
  two_trusted = trusted[1] > 0 && trusted[2] > 0;
#else
  two_trusted = (trusted[1] > 0 && trusted[2] > 0) || (trusted[1] > 0 && trusted[3] > 0) || (trusted[2] > 0 && trusted[3] > 0);
#endif
  left_locked = over[holder];
  assert(!two_trusted);
  assert(!left_locked);
#endif
  skip
}

/* ---- the store: one script, one transaction ---- */

#ifdef FENCE_IS_COUNTER
#define FENCE (companion + 1)
#elif defined(FENCE_IS_CLOCK)
#define FENCE clock
#else
#define FENCE (companion + 1 > clock -> companion + 1 : clock)
#endif

inline draw_fence(r) {
#ifdef FENCE_DRAWN_BEFORE
  companion = request[r].number;
#else
  companion = FENCE;
#endif
  clock++;
  printf("store: grants fence %d; the largest before was %d\n", companion, newest);
  fence_not_larger = companion <= newest;
  assert(!fence_not_larger);
  newest = companion
}

/* Never shortens: a request that arrives late can do no harm. */
inline last_at_least(ticks) {
#ifdef SHORTENS
  expiry = ticks; fast = 0
#else
  if
  :: expiry < ticks -> expiry = ticks; fast = 0
  :: else
  fi
#endif
}

inline serve(r, token) {
  printf("store: does %e of token %d; before, holder %d, expiry %d\n", request[r].op, token, holder, expiry);
  if
#ifndef BARE_SET
  :: request[r].op == acquire && tombstoned[token] -> request[r].yes = 0
  :: request[r].op == acquire && !tombstoned[token] && holder == token ->
#else
  :: request[r].op == acquire && holder == token ->
#endif
#ifndef REPEAT_KEEPS_EXPIRY
     last_at_least(request[r].ttl);
#endif
     request[r].yes = 1
#ifndef BARE_SET
  :: request[r].op == acquire && !tombstoned[token] && holder == 0 ->
#else
  :: request[r].op == acquire && holder == 0 ->
#endif
     holder = token; expiry = request[r].ttl; fast = 0;
#ifdef FENCES
     draw_fence(r);
#endif
     request[r].yes = 1
  :: request[r].op == extend ->
#ifdef BLIND_EXTEND
     request[r].yes = holder != 0;
     not_the_owners = holder != 0 && holder != token;
     assert(!not_the_owners);
#else
     request[r].yes = holder == token;
#endif
     if
     :: request[r].yes -> last_at_least(request[r].ttl)
     :: else
     fi
  :: request[r].op == release ->
     if
#ifdef BLIND_RELEASE
     :: holder != 0 -> holder = 0; expiry = 0; fast = 0
#else
     :: holder == token -> holder = 0; expiry = 0; fast = 0
#endif
     :: else
     fi;
#ifndef NO_TOMBSTONE
     tombstoned[token] = tombstoned[token] || request[r].tombstone;
#endif
     request[r].yes = 1
  :: else -> request[r].yes = 0
  fi;
  if
  :: request[r].state == SENT -> request[r].state = ANSWERED
  :: else -> clear(r)
  fi;
  printf("store: now holder %d, expiry %d\n", holder, expiry);
  check()
}

inline clear(r) {
  request[r].op = 0; request[r].state = NONE; request[r].ttl = 0; request[r].left = 0;
  request[r].tombstone = 0; request[r].yes = 0; request[r].number = 0
}

inline expire() {
  if
  :: expiry == 0 -> holder = 0; fast = 0
  :: else
  fi
}

#define UNDER_WAY(r) (request[r].state == SENT || request[r].state == STRAY)
#define CALL_OF(r) ((r) == 0 -> 1 : (r))

active proctype store() {
  byte r;
end:
  do
  :: atomic {
       if
       :: UNDER_WAY(0) -> r = 0
       :: UNDER_WAY(1) -> r = 1
       :: UNDER_WAY(2) -> r = 2
#if CALLS > 2
       :: UNDER_WAY(3) -> r = 3
#endif
       fi;
       if
       :: serve(r, TOKEN(CALL_OF(r)))
       :: request[r].state == STRAY -> clear(r)  /* lost; of one that is awaited only the caller knows */
       fi;
       r = 0
     }
  od
}

/* ---- a call ---- */

inline send(what, ticks, doubt) {
  r = (request[FIRST(me)].state == NONE -> FIRST(me) : SECOND(me));
  request[r].op = what; request[r].state = SENT; request[r].ttl = ticks; request[r].tombstone = doubt;
  request[r].left = (what == release -> 0 : ticks - MARGIN);
  printf("call %d: sends %e, ttl %d, tombstone %d\n", me, what, ticks, doubt);
#ifdef FENCE_DRAWN_BEFORE
  if
  :: what == acquire -> clock++; request[r].number = clock
  :: else
  fi;
#endif
}

/* The time for an answer is over: the request stays under way, or the answer is lost. */
inline leave(r) {
  printf("call %d: waits no longer for its %e\n", me, request[r].op);
  if
  :: request[r].state == SENT -> request[r].state = STRAY; request[r].left = 0
  :: else -> clear(r)
  fi
}

#define WINDOW(r) request[r].left
#ifdef WINDOW_FROM_ANSWER
#undef WINDOW
#define WINDOW(r) (request[r].ttl - MARGIN)
#endif

#define EXTENSION(s) \
  :: atomic { request[s].op == extend && request[s].state == ANSWERED -> settle(s) } \
  :: atomic { request[s].op == extend && (request[s].state == SENT || request[s].state == ANSWERED) -> leave(s) }

/* The deadline moves only forward, and only before it has passed. */
inline settle(s) {
  if
  :: request[s].yes && trusted[me] > 0 && WINDOW(s) > trusted[me] ->
     trusted[me] = WINDOW(s); printf("call %d: extended; trusts its lease for %d\n", me, trusted[me])
  :: !request[s].yes -> trusted[me] = 0; printf("call %d: has lost its lease\n", me)
  :: else
  fi;
  clear(s);
  check()
}

inline abandon(s) {
  if
  :: request[s].state == SENT || request[s].state == ANSWERED -> leave(s)
  :: else
  fi
}

proctype call(byte me) {
  byte r;              /* the request that is awaited */
  byte asks;
  bit doubtful;        /* an acquire was sent and not answered */
  bit extended, prolonged;

#ifdef TOKEN_REUSED
  atomic { me != 3 || over[1] -> over[TOKEN(me)] = 0 };
#endif
ask:
  atomic { ROOM(me) -> asks++; send(acquire, TTL, 0) };
  if
  :: atomic { request[r].state == ANSWERED && request[r].yes && WINDOW(r) > 0 ->
       trusted[me] = WINDOW(r); clear(r); printf("call %d: granted; trusts its lease for %d\n", me, trusted[me]); r = 0; check(); asks = 0; goto held }
  :: atomic { request[r].state == ANSWERED && request[r].yes && WINDOW(r) == 0 ->  /* too late to be of use */
       clear(r); r = 0; doubtful = 1 }
  :: atomic { request[r].state == ANSWERED && !request[r].yes -> clear(r); r = 0 }  /* held by another */
  :: atomic { request[r].state != NONE ->
#ifdef UNKNOWN_IS_HELD
       trusted[me] = WINDOW(r); leave(r); printf("call %d: takes it for granted\n", me); r = 0; asks = 0; doubtful = 1; check(); goto held
#else
       leave(r); r = 0; doubtful = 1
#endif
     }
  fi;
  if
  :: me == 1 && asks < ASKS -> goto ask
  :: doubtful -> asks = 0;
#ifdef NOT_TAKEN_BACK
     goto done
#else
     goto free
#endif
  :: !doubtful -> asks = 0; goto done
  fi;

held:
  do
#ifndef NO_EXTEND
  :: atomic { me == 1 && trusted[me] > 0 && !extended && ROOM(me) -> extended = 1; send(extend, TTL, 0); r = 0;
#ifdef DEADLINE_MOVED_WHEN_SENT
       trusted[me] = TTL - MARGIN; printf("call %d: trusts its lease for %d\n", me, trusted[me]); check()
#endif
     }
  :: atomic { me == 1 && trusted[me] > 0 && !prolonged && ROOM(me) -> prolonged = 1; send(extend, LONGER, 0); r = 0 }
#endif
  EXTENSION(FIRST(me))
  EXTENSION(SECOND(me))
  :: atomic { true -> trusted[me] = 0; abandon(FIRST(me)); abandon(SECOND(me)); extended = 0; prolonged = 0; goto free }
  od;

free:
  atomic { ROOM(me) -> send(release, 0, doubtful) };
  if
  :: atomic { request[r].state == ANSWERED -> clear(r); r = 0; goto done }
  :: atomic { request[r].state != NONE -> leave(r); r = 0;
#ifdef RELEASE_SENT_ONCE
       goto done
#else
       goto free
#endif
     }
  fi;

done:
  atomic { over[TOKEN(me)] = 1; doubtful = 0; printf("call %d: is over\n", me); check() }
}

/* ---- time ---- */

inline count(n) { n = (n > 0 -> n - 1 : 0) }
inline count_call(c) { count(trusted[c]); count(request[c].left) }
inline count_store() {
  if
  :: holder != 0 -> expiry--; expire()
  :: else
  fi
}

#ifdef COMPANION_LASTS_A_DAY
#define KEPT_LONG_ENOUGH true
#else
#define KEPT_LONG_ENOUGH (companion < clock + 1)
#endif

active proctype time() {
#ifdef HOLDERS_CLOCK_STOPS
  bit stopped;
#endif
#if defined(STORE_FORGETS) || defined(CLOCK_SET_BACK) || defined(COMPANION_EXPIRES)
  bit forgot, back;
#endif
end:
  do
  :: d_step { true -> count_store(); count(request[0].left); count_call(1); count_call(2);
#if CALLS > 2
       count_call(3);
#endif
       printf("time: a tick; holder %d, expiry %d; call 1 trusts for %d, call 2 for %d\n", holder, expiry, trusted[1], trusted[2]);
       check() }
  :: d_step { holder != 0 && !fast -> fast = 1; expiry--; expire(); printf("time: the store's clock runs fast; holder %d, expiry %d\n", holder, expiry) }
#ifdef HOLDERS_CLOCK_STOPS
  :: d_step { !stopped -> stopped = 1; count_store();
       printf("time: a tick while the holders' clocks stand still; holder %d, expiry %d\n", holder, expiry); check() }
#endif
#ifdef STORE_FORGETS
  :: d_step { !forgot -> forgot = 1; holder = 0; expiry = 0; fast = 0; companion = 0; printf("store: loses all data\n") }
#endif
#ifdef COMPANION_EXPIRES  /* a day, here one unit of the clock, after the last grant */
  :: d_step { !forgot && holder == 0 && KEPT_LONG_ENOUGH -> forgot = 1; clock++; companion = 0; printf("store: forgets the fence of the free name\n") }
#endif
#ifdef CLOCK_SET_BACK     /* by more than that day, and not after the loss of data */
  :: d_step { !back && !forgot && clock > 2 -> back = 1; clock = clock - 2; printf("store: its clock is set back\n") }
#endif
#ifdef TOMBSTONE_ENDS
  :: d_step { tombstoned[1] -> tombstoned[1] = 0; printf("store: the tombstone of token 1 ends\n") }
#endif
  od
}

init {
  atomic { run call(1); run call(2);
#if CALLS > 2
    run call(3)
#endif
  }
}
