/* One tenure of one process: a token at the store, passed on from lease to lease
   in memory while renewals are on their way; and another process that wants the
   name.

   The tenure has one window, one token, one block of fences; its leases, 1 to
   LEASES, are views of it, one at a time. A renewal, by the keep-alive or by a
   lease itself, may be slow, or lost, and so may its answer. The process may stop
   at any step, and go on later.

   A release goes on until it is answered, so it is one step here. That the clocks
   run alike is taken from lock.pml.

   README.md says where each step is in the code, and what the #ifdefs drop. */

#define TTL 3          /* ticks; and of the window, since the margin is in lock.pml */
#define PASS_FOR 2     /* ticks after the grant in which it is passed on; less than TTL */
#define LEASES 4       /* that would like to have the tenure */
#define BLOCK 3        /* fences that a grant reserves */

/* The store. */
#define OURS 1
#define THEIRS 2
byte holder = OURS, expiry = TTL;
byte companion = BLOCK;   /* the last fence reserved */
bit forgot;

/* The tenure. */
byte lease = 1;        /* which has it; 0: it has ended */
byte fence = 1;        /* of that lease */
byte spare = BLOCK - 1;
byte trusted = TTL;    /* ticks left of its window */
byte age;              /* ticks since its grant, up to PASS_FOR */
bit lost;              /* the process knows that it is lost */
bit released_again;

/* Renewals: two may be under way. */
#define NONE 0
#define SENT 1
#define ANSWERED 2
byte renewal[2], left[2], asker[2];
bit mine[2];           /* the answer */

byte theirs;           /* ticks left of the other process's window */
bit had;               /* it has had the name */

byte newest = 1;       /* the largest fence that a lease has had */

/* What must never be. */
bit two_trusted, fence_not_larger, trusted_when_lost;

inline check() {
  two_trusted = trusted > 0 && theirs > 0;
  trusted_when_lost = lost && lease != 0 && trusted > 0;
#ifndef STORE_FORGETS
  assert(!two_trusted);
#endif
  assert(!trusted_when_lost)
}

inline begin(number) {
  printf("fence %d; the largest before was %d\n", number, newest);
#ifndef STORE_FORGETS
  fence_not_larger = number <= newest;
  assert(!fence_not_larger);
#endif
  newest = number
}

inline end_tenure() { lease = 0; trusted = 0; fence = 0; spare = 0; age = 0 }

inline free() {
  if
  :: holder == OURS -> holder = 0; expiry = 0
  :: else
  fi
}

/* ---- the tenure ---- */

#ifdef PASSED_AT_ANY_TIME
#define IN_TIME true
#else
#define IN_TIME (age < PASS_FOR)
#endif
#ifdef BLOCK_NOT_COUNTED
#define LEFT_IN_BLOCK true
#else
#define LEFT_IN_BLOCK (spare > 0)
#endif
#ifdef SAME_FENCE
#define NEXT_FENCE fence
#else
#define NEXT_FENCE (fence + 1)
#endif
#ifdef WINDOW_FROM_ANSWER
#define WINDOW(r) TTL
#else
#define WINDOW(r) left[r]
#endif

inline answer(r) {
  if
  :: lease == 0 ->
#ifdef ANSWER_AFTER_RELEASE
     trusted = (mine[r] -> left[r] : 0); lease = (mine[r] -> LEASES : 0);
#endif
     skip
  :: lease != 0 && trusted == 0 -> end_tenure()  /* its deadline has passed */
  :: lease != 0 && trusted > 0 && mine[r] ->
     trusted = (WINDOW(r) > trusted -> WINDOW(r) : trusted); printf("tenure: renewed; trusted for %d\n", trusted)
  :: lease != 0 && trusted > 0 && !mine[r] ->
     lost = 1; printf("tenure: lost, says the renewal that lease %d asked for\n", asker[r]);
#ifdef LOSS_ENDS_THE_ASKER
     if
     :: asker[r] == lease -> end_tenure()
     :: else
     fi
#else
     end_tenure()
#endif
  fi;
  clear(r);
  check()
}

inline clear(r) { renewal[r] = NONE; left[r] = 0; asker[r] = 0; mine[r] = 0 }

#define RENEWAL(r) \
  :: atomic { lease != 0 && trusted > 0 && renewal[r] == NONE -> renewal[r] = SENT; left[r] = TTL; asker[r] = lease; printf("lease %d: asks for a renewal\n", lease) } \
  :: atomic { renewal[r] == ANSWERED -> answer(r) } \
  :: atomic { renewal[r] != NONE -> clear(r) }  /* lost, or its answer */

#define SERVED(r) \
  :: atomic { renewal[r] == SENT -> renewal[r] = ANSWERED; mine[r] = holder == OURS; expiry = (holder == OURS -> TTL : expiry) }

active proctype process() {
end:
  do
  RENEWAL(0)
  RENEWAL(1)
  /* a lease is released, and passes the tenure on */
  :: atomic { lease != 0 && lease < LEASES && IN_TIME && LEFT_IN_BLOCK ->
       fence = NEXT_FENCE; lease++; spare = (spare > 0 -> spare - 1 : 0); printf("lease %d: has the tenure; ", lease); begin(fence);
#ifdef PASS_RESTARTS_DEADLINE
       trusted = TTL;
#endif
       check() }
#ifdef OLD_RELEASE_BY_TOKEN
  :: atomic { lease > 1 && !released_again -> released_again = 1; printf("lease %d: is released again\n", lease - 1); free() }
#endif
  /* the last one is released, or over */
  :: atomic { lease != 0 -> printf("lease %d: ends the tenure\n", lease); end_tenure(); free() }
  od
}

active proctype store() {
end:
  do
  SERVED(0)
  SERVED(1)
#ifdef STORE_FORGETS
  :: atomic { !forgot -> forgot = 1; holder = 0; expiry = 0; printf("store: loses the lease\n") }
#endif
  od
}

active proctype other() {
end:
  do
  :: atomic { holder == 0 && !had -> had = 1; holder = THEIRS; expiry = TTL; theirs = TTL; companion++; printf("other: has the name; "); begin(companion); check() }
  :: atomic { holder == THEIRS -> holder = 0; expiry = 0; theirs = 0; printf("other: frees the name\n") }
  od
}

/* ---- time ---- */

inline count(n) { n = (n > 0 -> n - 1 : 0) }

active proctype time() {
end:
  do
  :: d_step { true ->
       count(expiry); holder = (expiry == 0 -> 0 : holder);
       count(trusted); count(theirs); count(left[0]); count(left[1]);
       age = (lease != 0 && age < PASS_FOR -> age + 1 : age);
       printf("time: a tick; holder %d for %d; the tenure is trusted for %d, the other for %d\n", holder, expiry, trusted, theirs);
       check() }
  od
}
