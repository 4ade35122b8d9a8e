/* Calls for one name at three nodes that know nothing of each other. Whoever has
   been granted the name by two of them has it, with a fence that two have.

   A node numbers its grants. Of the numbers of a majority the largest is the
   fence, of that majority whose largest is the smallest. A node that has given a
   smaller number is told of the fence, and takes it over if the call still holds
   the name there. The call has the name once two nodes have the fence, or a larger
   number, in good time.

   A request to a node may be slow, or lost, and so may its answer; requests may
   overtake each other. (An answer is noted when the request is carried out, or
   never: to decide later stands for a slow one.) A call may end at any step. The
   calls are alike, so that the first of them asks first.

   README.md says where each step is in the code, and what the #ifdefs drop. */

#define CALLS 2
#define TTL 2
#define TRUSTED (TTL-1)   /* ticks in which a call believes in its grants */

/* The nodes. */
byte owner[3];            /* the call that has the name there, from 1; 0: nobody */
byte left[3];             /* ticks of its lease */
byte number[3];           /* the last one given */
#ifdef RESTARTS
byte abstains[3];         /* ticks until it grants again */
#define UP(n) (abstains[n] == 0)
#else
#define UP(n) true
#endif
bit restarted;            /* node 2, and it came back empty */

/* The calls. */
#define NEW 0
#define ASKS 1
#define TELLS 2
#define HAS_IT 3
#define OVER 4
byte phase[CALLS], trusted[CALLS], fence[CALLS];

/* A call at a node. */
#define AT(c, n) (3*(c) + (n))
bit acquire[3*CALLS];     /* the request may yet be carried out */
bit raise[3*CALLS];
byte vote[3*CALLS];       /* the number that the node gave; 0: none heard of */
bit agrees[3*CALLS];      /* it is known to have the fence, or more */

byte newest;              /* the largest fence that a call has had */

/* What must never be. */
bit two_trusted, fence_not_larger;

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define HEARD(c, n) (vote[AT(c, n)] > 0)
#define VOTES(c) (HEARD(c, 0) + HEARD(c, 1) + HEARD(c, 2))
#define AGREE(c) (agrees[AT(c, 0)] + agrees[AT(c, 1)] + agrees[AT(c, 2)])

/* An empty node starts from its clock, which is past all that was used. */
#ifdef NO_CLOCK
#define NEXT(n) (number[n] + 1)
#else
#define NEXT(n) (number[n] == 0 && restarted -> MAX(newest, MAX(fence[0], fence[1])) + 1 : number[n] + 1)
#endif

/* The second smallest of two or three votes: as large as those of a majority. */
#define V(n) vote[AT(c, n)]
inline choose(c) {
  if
  :: V(0) == 0 -> fence[c] = MAX(V(1), V(2))
  :: V(1) == 0 -> fence[c] = MAX(V(0), V(2))
  :: V(2) == 0 -> fence[c] = MAX(V(0), V(1))
  :: else -> fence[c] = V(0) + V(1) + V(2) - MAX(V(0), MAX(V(1), V(2))) - MIN(V(0), MIN(V(1), V(2)))
  fi
}

inline compare(c, n) {
#ifdef NOT_RAISED
  agrees[AT(c, n)] = 1
#else
  if
#ifndef RAISED_ANYWHERE
  :: vote[AT(c, n)] == 0
#endif
  :: vote[AT(c, n)] >= fence[c] -> agrees[AT(c, n)] = 1
  :: else -> raise[AT(c, n)] = 1
  fi
#endif
}

inline grant(c, n) {
  acquire[AT(c, n)] = 0; owner[n] = c + 1; left[n] = TTL; number[n] = NEXT(n)
}

inline take_over(c, n) {
  raise[AT(c, n)] = 0;
  number[n] = MAX(number[n], fence[c])
}

#ifdef RAISED_ANYWHERE
#define HOLDS(c, n) true
#else
#define HOLDS(c, n) (owner[n] == c + 1)
#endif

#define NODE(c, n) \
  :: d_step { acquire[AT(c, n)] && UP(n) && owner[n] == 0 -> grant(c, n); \
       printf("node %d grants it to call %d with %d\n", n, c, number[n]); \
       if \
       :: phase[c] == ASKS -> vote[AT(c, n)] = number[n] \
       :: phase[c] == TELLS -> vote[AT(c, n)] = number[n]; compare(c, n) \
       :: else \
       fi } \
  :: d_step { acquire[AT(c, n)] && UP(n) && owner[n] == 0 -> grant(c, n); \
       printf("node %d grants it to call %d with %d, and is not heard\n", n, c, number[n]) } \
  :: d_step { acquire[AT(c, n)] -> acquire[AT(c, n)] = 0; printf("node %d refuses call %d\n", n, c) } \
  :: d_step { raise[AT(c, n)] && UP(n) && HOLDS(c, n) -> take_over(c, n); \
       printf("node %d takes over %d from call %d\n", n, fence[c], c); \
       if \
       :: phase[c] == TELLS -> agrees[AT(c, n)] = 1 \
       :: else \
       fi } \
  :: d_step { raise[AT(c, n)] && UP(n) && HOLDS(c, n) -> take_over(c, n); \
       printf("node %d takes over %d from call %d, and is not heard\n", n, fence[c], c) } \
  :: d_step { raise[AT(c, n)] -> raise[AT(c, n)] = 0 } \
  :: d_step { phase[c] == OVER && owner[n] == c + 1 -> owner[n] = 0; left[n] = 0; \
       printf("node %d is freed by call %d\n", n, c) }

#define CALL(c) \
  :: d_step { phase[c] == NEW && (c == 0 || phase[0] != NEW) -> phase[c] = ASKS; trusted[c] = TRUSTED; \
       acquire[AT(c, 0)] = 1; acquire[AT(c, 1)] = 1; acquire[AT(c, 2)] = 1; \
       printf("call %d asks\n", c) } \
  :: d_step { phase[c] == ASKS && VOTES(c) >= 2 && trusted[c] > 0 -> phase[c] = TELLS; \
       choose(c); compare(c, 0); compare(c, 1); compare(c, 2); \
       printf("call %d has a majority and chooses %d\n", c, fence[c]) } \
  :: d_step { phase[c] == TELLS && AGREE(c) >= 2 && trusted[c] > 0 -> phase[c] = HAS_IT; \
       printf("call %d HAS IT, fence %d\n", c, fence[c]); \
       fence_not_larger = fence[c] <= newest; assert(!fence_not_larger); newest = fence[c]; \
       two_trusted = TRUSTS(0) + TRUSTS(1) > 1; assert(!two_trusted) } \
  :: d_step { phase[c] != NEW && phase[c] != OVER -> phase[c] = OVER; trusted[c] = 0; \
       vote[AT(c, 0)] = 0; vote[AT(c, 1)] = 0; vote[AT(c, 2)] = 0; \
       agrees[AT(c, 0)] = 0; agrees[AT(c, 1)] = 0; agrees[AT(c, 2)] = 0; \
       printf("call %d ends\n", c) }

#define TRUSTS(c) (phase[c] == HAS_IT && trusted[c] > 0)

inline count_down(ticks) {
  if
  :: ticks > 0 -> ticks--
  :: else
  fi
}

inline expire(n) {
  if
  :: left[n] > 1 -> left[n]--
  :: left[n] == 1 -> left[n] = 0; owner[n] = 0
  :: else
  fi
}

#ifdef RESTARTS
#define RUNNING (left[0] + left[1] + left[2] + trusted[0] + trusted[1] + abstains[2] > 0)
#else
#define RUNNING (left[0] + left[1] + left[2] + trusted[0] + trusted[1] > 0)
#endif

active proctype model() {
#ifdef CLOCKS_DIFFER
  number[0] = 3;
#endif
  do
  NODE(0, 0) NODE(0, 1) NODE(0, 2) NODE(1, 0) NODE(1, 1) NODE(1, 2)
  CALL(0) CALL(1)
  :: d_step { RUNNING -> printf("tick\n");
       expire(0); expire(1); expire(2); count_down(trusted[0]); count_down(trusted[1]);
#ifdef RESTARTS
       count_down(abstains[2])
#endif
     }
#ifdef RESTARTS
  :: d_step { !restarted -> restarted = 1; owner[2] = 0; left[2] = 0; number[2] = 0;
       printf("node 2 restarts empty\n");
#ifndef NO_ABSTENTION
       abstains[2] = TTL + 1
#endif
     }
#endif
  od
}
