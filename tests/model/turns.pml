/* Turns at a page of a global array: src/gas, order.c and home.c.
 *
 * Every process makes itself the owner of the page, over and over. One that is not asks the home, having
 * counted itself among the page's wants; one that is has it at once if there are none, and asks like the
 * others if there are. The home moves the page for one after the other, and takes each off the wants
 * before it answers. How a page moves is relocation.pml's: here it is one step.
 *
 * Checked: between one's question and its turn every other process has the page at most once; all get
 * their turns.
 *
 * Broken on purpose: NO_LOOK (an owner does not look at the wants), ANY_ORDER (the home takes whom it
 * likes), COUNT_LATE (the wants are counted after the question has gone).
 */
#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef TURNS
#define TURNS 3
#endif

byte owner = 0;
int wants;
bool mine[PROCESSES];   /* as the process knows it */
bool waiting[PROCESSES]; /* its question has gone */
bool answered[PROCESSES];
byte since[9]; /* [p * PROCESSES + q]: times that q has had the page since p has asked */
byte finished;
chan ask = [PROCESSES] of {byte};

inline has_it(p) {
  d_step {
    q = 0;
    do
    :: q < PROCESSES ->
      if
      :: q != p && waiting[q] ->
        since[q * PROCESSES + p]++;
        assert(since[q * PROCESSES + p] <= 1)
      :: else
      fi;
      since[p * PROCESSES + q] = 0;
      q++
    :: else -> break
    od;
    waiting[p] = false;
    q = 0
  }
}

proctype Process(byte p) {
  byte i = 0, q;
  do
  :: i < TURNS ->
    i++;
    if
#ifdef NO_LOOK
    :: atomic { mine[p] -> has_it(p) }
    :: !mine[p] ->
#else
    :: atomic { mine[p] && wants == 0 -> has_it(p) }
    :: atomic { !mine[p] || wants != 0 -> skip };
#endif
#ifndef COUNT_LATE
      wants++;
#endif
      atomic { ask ! p; waiting[p] = true };
#ifdef COUNT_LATE
      wants++;
#endif
      atomic { answered[p] -> answered[p] = false }
    fi
  :: else -> break
  od;
  finished++
}

proctype Home() {
  byte n, q;
  do
#ifdef ANY_ORDER
  :: atomic { ask ?? [0] -> ask ?? 0; n = 0 } -> goto serve
  :: atomic { ask ?? [1] -> ask ?? 1; n = 1 } -> goto serve
  :: atomic { ask ?? [2] -> ask ?? 2; n = 2 } -> goto serve
#else
  :: ask ? n -> goto serve
#endif
  :: finished == PROCESSES && empty(ask) -> break;
serve:
    if
    :: owner != n ->
      mine[owner] = false; /* stop */
      mine[n] = true;      /* change */
      owner = n
    :: else
    fi;
    wants--;
    atomic { has_it(n); answered[n] = true }
  od;
  assert(wants == 0)
}

init {
  byte p = 0;
  atomic {
    mine[0] = true;
    do
    :: p < PROCESSES -> run Process(p); p++
    :: else -> break
    od;
    run Home()
  }
}
