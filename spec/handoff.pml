/* One name in one store that keeps a queue, and processes that wait for it.

   A process has one call at a time that talks to the store: it tries, queues,
   waits for a hand-off, holds a lease, releases. Process 1 may have a second call
   behind the first, which releases and queues in one request. The store does one
   request at a time, in one step, and hands a name on in the step that frees it.

   A request is answered; or carried out and its answer lost; or still under way
   when the process asks again or gives up, and may then arrive at any time or
   never. Messages are slow, and get lost with the connection of an inbox. A
   process that stops for ever, at any step, has crashed or is frozen.

   Time is a tick that may come between any two steps. With PROMPT it comes only
   when no living process has anything to do: what is left is waiting for a timer,
   and the model counts how long a wanted name is idle.

   That the clocks run alike is taken from lock.pml, as is what a renewal does.
   README.md says where each step is in the code, and what the #ifdefs drop. */

#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifdef SECOND_CALL
#define TOKENS (PROCESSES + 1)
#else
#define TOKENS PROCESSES
#endif
#define FOREIGN (TOKENS + 1)  /* the token of another program */
#define PROCESS(token) ((token) > PROCESSES -> 1 : (token))

#define TTL 2          /* ticks; and of the window, since the margin is in lock.pml */
#define CLAIM 1        /* for a waiter to whom the name was handed on */
#define LATE 1         /* how much later those behind the first ask */

/* How often it may happen. */
#ifndef UNANSWERED
#define UNANSWERED 1   /* a request is not answered */
#endif
#ifndef CUTS
#define CUTS 1         /* an inbox is interrupted */
#endif
#ifndef CANCELS
#define CANCELS 1      /* a call that waits is cancelled */
#endif
#ifndef GIVEN_UP
#define GIVEN_UP 0     /* a call that waited has gone, and its release is given up */
#endif
#ifndef DEATHS
#define DEATHS 0       /* a process dies; without PROMPT any may stop at any time */
#endif
byte unanswered, cuts, cancels, given_up, deaths;
bit second;            /* the second call of process 1 has begun */

/* What a request asks for. */
#define TRY 1          /* the name */
#define ENQUEUE 2      /* the name, or a place in its queue */
#define RELAY 3        /* the same, after the first call's token was released */

/* How far the request of a process has come. */
#define NONE 0
#define SENT 1
#define ANSWERED 2

/* Where the call of a process is. */
#define BEFORE 0
#define ASKING 1
#define WAITING 2
#define HOLDING 3
#define AFTER 4

/* What a process expects of a token. */
#define NOTHING 0
#define TURN 1         /* that the name is handed on to it */
#define HOLDS 2        /* it has the name */

#define NEVER 99       /* of a timer */

/* How a token is released. */
#define PLAIN 1
#define TOMBSTONE 2    /* and refused from now on */

/* The store. Tokens are numbers from 1; 0 is nobody. */
byte holder, expiry;
byte queue[TOKENS], places;
bit tombstoned[TOKENS + 2];
bit met;               /* a waiter has found the name held by another program */

/* On its way. */
bit told[TOKENS + 2];        /* a message, to the token's inbox */
byte stray[TOKENS + 2];      /* a request that nobody waits for any more */

/* The processes, and their tokens. */
bit listens[PROCESSES + 1];  /* the store knows of the inbox's subscription */
bit dead[PROCESSES + 1];
byte phase[PROCESSES + 1], token[PROCESSES + 1];
byte asked[PROCESSES + 1], op[PROCESSES + 1];
byte left[PROCESSES + 1];    /* of the window that the request gives: counts from when it was sent */
bit granted[PROCESSES + 1];  /* the answer */
byte timer[PROCESSES + 1];   /* the answer: after how many ticks to ask again */
bit doubtful[PROCESSES + 1]; /* a request was not answered */
byte trusted[PROCESSES + 1]; /* ticks left of the lease's window */
byte expected[TOKENS + 2];
bit hint[PROCESSES + 1];     /* its call that waits is to ask again */
byte leaving[TOKENS + 2];    /* a release that the process sends until it is answered */
bit ended[TOKENS + 2];       /* the token's call or lease has ended */

byte idle;             /* ticks for which a living call has waited and nobody had the name */

/* What must never be. */
bit two_trusted, left_locked, waits_too_long;

inline check() {
#if PROCESSES == 2
  two_trusted = trusted[1] > 0 && trusted[2] > 0;
#else
  two_trusted = (trusted[1] > 0 && trusted[2] > 0) || (trusted[1] > 0 && trusted[3] > 0) || (trusted[2] > 0 && trusted[3] > 0);
#endif
  left_locked = ended[holder] && leaving[holder] == 0 && expiry > CLAIM;
  assert(!two_trusted);
  assert(!left_locked)
}

/* ---- the store: one script ---- */

inline find(t) {
  i = 0;
  do
  :: i < places && queue[i] != t -> i++
  :: else -> break
  od
}

/* Those behind place i move up. */
inline close_ranks() {
  do
  :: i + 1 < places -> queue[i] = queue[i + 1]; i++
  :: else -> break
  od;
  places--; queue[places] = 0; i = 0
}

inline give_up_place(t) {
  find(t);
  if
  :: i < places -> close_ranks()
  :: else -> i = 0
  fi
}

/* The name is free: the first before self whose inbox somebody listens to gets
   it. Others before it have gone. */
inline hand_on(self) {
  do
  :: places == 0 || queue[0] == self -> break
  :: places > 0 && queue[0] != self ->
     first = queue[0];
     if
#ifdef OTHERS
     :: listens[PROCESS(first)] && met ->  /* one time in 64: stays free, and the first keeps its place */
        open = 1; printf("store: is open; token %d is the first\n", first);
#ifndef OPEN_WITHOUT_HINT
        told[first] = 1;
#endif
        break
#endif
     :: listens[PROCESS(first)] ->
        close_ranks(); told[first] = 1; holder = first; expiry = CLAIM;
        printf("store: hands on to token %d\n", first); break
     :: !listens[PROCESS(first)] ->
        close_ranks(); printf("store: token %d has gone\n", first)
     fi
  od;
  first = 0
}

inline grant() {
#ifdef REPEAT_KEEPS_EXPIRY
  expiry = (holder == t -> expiry : TTL);
#else
  expiry = TTL;
#endif
  holder = t; yes = 1
}

inline try() {
  if
  :: !tombstoned[t] && (holder == 0 || holder == t) -> grant()
  :: else
  fi
}

#ifdef PREVIOUS_NOT_COMPARED
#define HAS(previous) (holder != 0)
#else
#define HAS(previous) (holder == previous)
#endif

inline enqueue(previous) {
  if
  :: previous != 0 ->   /* it has no place: that was given up with the grant */
     if
     :: HAS(previous) -> holder = 0; expiry = 0
#ifdef SECOND_HALF_LEFT_OUT
     :: !HAS(previous) && holder != t -> refused = 1
#endif
     :: else
     fi
  :: else
  fi;
  if
  :: tombstoned[t] -> refused = 1  /* it has no place: that was given up with the tombstone */
  :: else
  fi;
  if
#ifdef NO_HELP_FOR_THE_QUEUE
  :: holder == 0 && previous == 0 && !refused && places > 0 && queue[0] != t -> open = 1
  :: holder == 0 && !(previous == 0 && !refused && places > 0 && queue[0] != t) -> hand_on((refused -> 0 : t))
#else
  :: holder == 0 -> hand_on((refused -> 0 : t))  /* its last holder may have ended without a release */
#endif
  :: else
  fi;
  find(t);
  if
  :: !refused && (holder == t || (holder == 0 && !open)) -> give_up_place(t); grant()
  :: !refused && !(holder == t || (holder == 0 && !open)) && i == places -> queue[places] = t; places++
  :: else
  fi;
#ifdef PROMPT
  find(t);
#ifdef FIRST_HAS_THE_TIMER
  again = (i > 0 -> NEVER : expiry + 1);
#else
  again = (i > 0 -> expiry + CLAIM + LATE : expiry + 1);
#endif
  again = (i == 0 && holder == FOREIGN -> 1 : again);
#endif
  met = met || holder == FOREIGN;
  i = 0; open = 0; refused = 0
}

inline serve() {
  printf("store: request %d of token %d; before, holder %d for %d, queue %d %d, places %d\n", what, t, holder, expiry, queue[0], queue[1], places);
  if
  :: what == TRY -> try()
  :: what != TRY -> enqueue((what == RELAY -> 1 : 0))
  fi;
  printf("store: now holder %d for %d, places %d\n", holder, expiry, places);
  check()
}

/* A lease's release names no inbox, so it gives up no place: the grant did. */
#define RELEASED_AS_A_LEASE(t) (expected[t] == HOLDS)

inline release() {
  printf("store: release of token %d, %d; before, holder %d\n", t, leaving[t], holder);
  if
  :: !RELEASED_AS_A_LEASE(t) -> give_up_place(t)
  :: else
  fi;
  if
  :: holder == t -> holder = 0; expiry = 0; hand_on(0); open = 0
  :: else
  fi;
#ifndef NO_TOMBSTONE
  tombstoned[t] = tombstoned[t] || leaving[t] == TOMBSTONE
#endif
}

/* ---- a process ---- */

#define ALIVE(p) (!dead[p])
/* The token of process 1's second call. */
#ifdef TOKEN_KEPT
#define NEXT 1
#else
#define NEXT TOKENS
#ifdef SECOND_CALL
#define ANOTHER_TOKEN
#endif
#endif

inline send(what) {
  phase[me] = ASKING; asked[me] = SENT; op[me] = what; left[me] = TTL; granted[me] = 0; timer[me] = 0;
  printf("process %d: sends request %d for token %d\n", me, what, token[me])
}

inline expect(t) {
#ifndef EXPECTED_LATE
  expected[t] = TURN
#else
  skip
#endif
}

/* The time for an answer is over: the request stays on its way, or the answer is lost. */
inline unheard() {
  printf("process %d: has no answer\n", me);
  doubtful[me] = 1;
  if
  :: asked[me] == SENT -> stray[token[me]] = op[me]
  :: else
  fi
}

inline rest() { asked[me] = NONE; op[me] = 0; left[me] = 0; granted[me] = 0 }

/* The call of a token has ended; its release is to be sent, if there is need. */
inline leave(t, how) {
  ended[t] = 1; leaving[t] = how; doubtful[me] = 0; hint[me] = 0
}

inline answered() {
  if
  :: op[me] == RELAY && NEXT != 1 -> ended[1] = 1; expected[1] = NOTHING
  :: else
  fi;
  if
  :: granted[me] && left[me] > 0 ->
     trusted[me] = left[me]; phase[me] = HOLDING;
     if
     :: expected[token[me]] == TURN -> expected[token[me]] = HOLDS
     :: else
     fi;
     printf("process %d: trusts its lease for %d\n", me, trusted[me]);
     rest(); timer[me] = 0; hint[me] = 0; check()
#ifndef PROMPT
  :: granted[me] && left[me] == 0 -> doubtful[me] = 1; send(op[me])  /* too late to be of use */
#endif
  :: !granted[me] && op[me] == TRY -> expect(token[me]); send(ENQUEUE)
  :: else -> phase[me] = WAITING; rest();
#ifdef EXPECTED_LATE
     expected[token[me]] = TURN
#endif
  fi
}

inline message(t) {
  told[t] = 0;
  if
  :: expected[t] == TURN -> hint[me] = 1
  :: expected[t] == HOLDS ->
#ifdef HELD_IS_HANDED_ON
     leaving[t] = (leaving[t] == 0 -> PLAIN : leaving[t]);
#endif
     skip
  :: else ->
     printf("process %d: hears of token %d, which it does not know\n", me, t);
#ifndef UNKNOWN_IS_KEPT
     leaving[t] = (leaving[t] == 0 -> PLAIN : leaving[t])
#endif
  fi
}

#define MESSAGE(p, t) (told[t] && listens[p])
#ifdef PROMPT
#define DUE(p) (hint[p] || timer[p] == 0)
#else
#define DUE(p) true
#endif

proctype process(byte me) {
  byte t, what;        /* what the store does, and its answer */
  byte again;
  bit yes, left_behind;
  byte i, first;
  bit open, refused;
end:
  do
  :: atomic { ALIVE(me) && phase[me] == BEFORE -> token[me] = me;
       if
       :: me == 1 -> send(TRY)
       :: me != 1 -> expect(me); send(ENQUEUE)  /* a call has waited before: its inbox listens already */
       fi }

  /* the store does the request that is awaited, or one that was left behind */
  :: atomic {
       if
       :: ALIVE(me) && asked[me] == SENT -> t = token[me]; what = op[me]; asked[me] = ANSWERED
       :: stray[me] != 0 -> t = me; what = stray[me]; stray[me] = 0; left_behind = 1
#ifdef ANOTHER_TOKEN
       :: me == 1 && stray[NEXT] != 0 -> t = NEXT; what = stray[NEXT]; stray[NEXT] = 0; left_behind = 1
#endif
       fi;
       serve();
       if
       :: !left_behind -> granted[me] = yes; timer[me] = again
       :: else
       fi;
       t = 0; what = 0; yes = 0; again = 0; left_behind = 0 }
  :: atomic { ALIVE(me) && asked[me] == ANSWERED -> answered() }
  :: atomic { ALIVE(me) && asked[me] != NONE && unanswered < UNANSWERED -> unanswered++; unheard(); send(op[me]) }

  /* a call that waits asks again: it has a hint, or its timer is over */
  :: atomic { ALIVE(me) && phase[me] == WAITING && DUE(me) -> hint[me] = 0; send(ENQUEUE) }
#ifdef MESSAGE_IS_TRUSTED
  :: atomic { ALIVE(me) && phase[me] == WAITING && MESSAGE(me, token[me]) ->
       told[token[me]] = 0; trusted[me] = CLAIM; phase[me] = HOLDING; expected[token[me]] = HOLDS;
       printf("process %d: believes a message\n", me); check() }
#endif

  /* a message arrives */
  :: atomic { ALIVE(me) && MESSAGE(me, me) -> message(me) }
#ifdef ANOTHER_TOKEN
  :: atomic { me == 1 && ALIVE(me) && MESSAGE(me, NEXT) -> message(NEXT) }
#endif
  /* the store does a release, which is answered, or not and sent again */
  :: atomic {
       if
       :: ALIVE(me) && leaving[me] != 0 -> t = me
#ifdef ANOTHER_TOKEN
       :: me == 1 && ALIVE(me) && leaving[NEXT] != 0 -> t = NEXT
#endif
       fi;
       if
       :: true -> release(); leaving[t] = 0; expected[t] = (ended[t] -> NOTHING : expected[t])
       :: true -> release()
       :: given_up < GIVEN_UP && leaving[t] == PLAIN && holder != t -> given_up++; leaving[t] = 0; printf("process %d: gives up the release of token %d\n", me, t)
       fi;
       t = 0; check() }

#ifdef SECOND_CALL
  /* the lease is released by the call behind it; or, after a while, also by itself */
  :: atomic { me == 1 && ALIVE(1) && phase[1] == HOLDING && token[1] == 1 && !doubtful[1] && op[1] == 0 && second == 0 ->
       second = 1; trusted[1] = 0; token[1] = NEXT; expect(NEXT); printf("process 1: releases token 1 and asks in one\n"); send(RELAY) }
  :: atomic { me == 1 && ALIVE(1) && op[1] == RELAY && leaving[1] == 0 && NEXT != 1 -> leaving[1] = PLAIN }
  :: atomic { me == 1 && ALIVE(1) && phase[1] == AFTER && second == 0 -> second = 1; token[1] = NEXT; expect(NEXT); send(ENQUEUE) }
#endif

  /* the lease is released, or over */
  :: atomic { ALIVE(me) && phase[me] == HOLDING -> trusted[me] = 0; phase[me] = AFTER;
       leave(token[me], (doubtful[me] -> TOMBSTONE : PLAIN)); printf("process %d: releases token %d\n", me, token[me]) }
  /* a call that has no lease is cancelled */
  :: atomic { ALIVE(me) && (phase[me] == ASKING || phase[me] == WAITING) && cancels < CANCELS -> cancels++;
       if
       :: asked[me] != NONE -> unheard()
       :: else
       fi;
       printf("process %d: gives up token %d\n", me, token[me]);
       expected[token[me]] = NOTHING; phase[me] = AFTER;
       if
       :: op[me] == RELAY -> ended[1] = 1; leaving[1] = PLAIN  /* is left to the lease itself */
       :: else
       fi;
       leave(token[me], (doubtful[me] -> TOMBSTONE : PLAIN)); rest(); timer[me] = 0 }

  /* the inbox is interrupted, and restored: a hint for every call that waits */
  :: atomic { ALIVE(me) && listens[me] && expected[token[me]] != NOTHING && cuts < CUTS -> cuts++; listens[me] = 0; told[me] = 0; told[token[me]] = 0; printf("process %d: inbox cut\n", me) }
  :: atomic { ALIVE(me) && !listens[me] -> listens[me] = 1;
#ifndef RESTORED_DOES_NOT_ASK
       hint[me] = expected[token[me]] == TURN;
#endif
       printf("process %d: inbox restored\n", me) }
#ifdef PROMPT
  /* it dies; the store hears of it, or not */
  :: atomic { ALIVE(me) && phase[me] != BEFORE && deaths < DEATHS -> deaths++; dead[me] = 1; listens[me] = 0; trusted[me] = 0; phase[me] = AFTER; rest(); timer[me] = 0; printf("process %d: dies\n", me) }
  :: atomic { ALIVE(me) && phase[me] != BEFORE && deaths < DEATHS -> deaths++; dead[me] = 1; trusted[me] = 0; phase[me] = AFTER; rest(); timer[me] = 0; printf("process %d: freezes\n", me) }
#endif
  od
}

/* ---- others, and time ---- */

#ifdef OTHERS
active proctype other() {
end:
  do
  :: atomic { holder == 0 -> holder = FOREIGN; expiry = TTL; idle = 0; printf("other: takes the name\n") }
  :: atomic { holder == FOREIGN -> holder = 0; expiry = 0; printf("other: frees the name\n") }
  od
}
#endif

inline count(n) { n = (n > 0 -> n - 1 : 0) }
inline count_process(p) {
  count(trusted[p]); count(left[p]);
  timer[p] = (timer[p] > 0 && timer[p] != NEVER -> timer[p] - 1 : timer[p])
}

#define WANTS(p) (ALIVE(p) && (phase[p] == ASKING || phase[p] == WAITING))
#define BUSY_TOKEN(p, t) (MESSAGE(p, t) || leaving[t] != 0)
#define BUSY(p) (ALIVE(p) && (asked[p] != NONE || !listens[p] || BUSY_TOKEN(p, p) || (phase[p] == WAITING && DUE(p)) || (phase[p] == HOLDING && trusted[p] <= 1)))
#if PROCESSES == 2
#define ANY(what) (what(1) || what(2))
#else
#define ANY(what) (what(1) || what(2) || what(3))
#endif
#ifdef PROMPT
#ifdef ANOTHER_TOKEN
#define MAY_TICK (!ANY(BUSY) && !(ALIVE(1) && BUSY_TOKEN(1, NEXT)))
#else
#define MAY_TICK (!ANY(BUSY))
#endif
#else
#define MAY_TICK true
#endif
#define HAS_IT(p) (trusted[p] > 0)

active proctype time() {
end:
  do
  :: d_step { MAY_TICK ->
       if
       :: holder != 0 -> expiry--;
          if
          :: expiry == 0 -> holder = 0
          :: else
          fi
       :: else
       fi;
#ifdef PROMPT
       idle = (ANY(WANTS) && !ANY(HAS_IT) && holder != FOREIGN -> idle + 1 : 0);
       waits_too_long = idle > PATIENCE;
#endif
       count_process(1); count_process(2);
#if PROCESSES > 2
       count_process(3);
#endif
       printf("time: a tick; holder %d for %d; idle for %d\n", holder, expiry, idle);
       assert(!waits_too_long);
       check() }
  od
}

init {
  atomic {
    listens[1] = 1; listens[2] = 1;
    run process(1); run process(2);
#if PROCESSES > 2
    listens[3] = 1;
    run process(3)
#endif
  }
}
