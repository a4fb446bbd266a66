/* The relocation of a page of a global array: src/gas.
 *
 * One page, two nodes that know it, a home that moves it to and fro. At the second node somebody puts
 * growing numbers; somebody gets them, at the second node over the network (counting itself while it is
 * under way) or, MAPPED, at the first one from mapped memory (looking at a version before and after).
 * Calls of the home and its replies may overtake one another.
 *
 * Checked: no get finds memory that was freed, nor a number older than one whose put was complete before
 * it began; the last put is there in the end; everybody gets on.
 *
 * Broken on purpose: NO_STOP, NO_WAIT_PUTS, NO_WAIT_GETS, FREE_EARLY, OPEN_EARLY (puts as soon as this
 * node has changed), OLD_REPLY (puts that have been stopped since), NO_VERSION (MAPPED: no second look).
 */
#ifndef MOVES
#define MOVES 2
#endif
#ifndef PUTS
#define PUTS 2
#endif
#ifndef GETS
#define GETS 2
#endif
#define GARBAGE 255

mtype = {STOP, CHANGE};

typedef Node {
  byte place, generation, version; /* the entry: which node's slot */
  byte puts_from;                  /* puts of older generations have been stopped */
  bool no_puts, asking, changing;
  byte writers, gets;
}

Node node[2];
byte memory[2]; /* the slot of each node */
byte complete;  /* the last put that is complete */
byte finished;
chan call[2] = [1] of {mtype, byte, byte};
chan reply[2] = [1] of {byte, byte};
chan answered = [2] of {bool};
chan ask = [2] of {byte};

proctype Home() {
  byte place = 0, generation = 0, moves = 0, old, n, value;
  do
  :: ask ? n -> reply[n] ! generation, place
  :: moves < MOVES ->
    moves++;
#ifndef NO_STOP
    call[0] ! STOP, generation, 0;
    call[1] ! STOP, generation, 0;
    answered ? _;
    answered ? _;
#endif
    value = memory[place];
    memory[1 - place] = value;
    old = place;
    place = 1 - place;
    generation++;
#ifdef FREE_EARLY
    memory[old] = GARBAGE;
#endif
    call[0] ! CHANGE, generation, place;
    call[1] ! CHANGE, generation, place;
    answered ? _;
    answered ? _;
    memory[old] = GARBAGE;
    value = 0;
    old = 0
  :: finished == 2 && moves == MOVES && empty(ask) -> break
  od;
  assert(memory[place] == PUTS)
}

proctype Calls(byte n) {
  byte generation, place;
end:
  do
  :: call[n] ? STOP, generation, place ->
    atomic {
      node[n].puts_from = generation + 1;
      node[n].no_puts = true
    };
#ifndef NO_WAIT_PUTS
    node[n].writers == 0;
#endif
    answered ! true
  :: call[n] ? CHANGE, generation, place ->
    node[n].changing = true;
#ifndef NO_WAIT_GETS
    node[n].gets == 0;
#endif
    atomic {
      node[n].changing = false;
      node[n].place = place;
      node[n].generation = generation;
      node[n].version++
#ifdef OPEN_EARLY
      ;
      node[n].no_puts = false
#endif
    };
    answered ! true
  od
}

proctype Replies(byte n) {
  byte generation, place;
end:
  do
  :: reply[n] ? generation, place ->
    atomic {
      node[n].asking = false;
      if
      :: !node[n].changing && generation >= node[n].generation ->
        node[n].place = place;
        node[n].generation = generation;
        if
#ifdef OLD_REPLY
        :: true -> node[n].no_puts = false
#else
        :: generation >= node[n].puts_from -> node[n].no_puts = false
        :: else
#endif
        fi
      :: else
      fi;
      generation = 0;
      place = 0
    }
  od
}

proctype Put(byte n) {
  byte value = 0, place;
  do
  :: value < PUTS ->
    if
    :: atomic { !node[n].no_puts -> node[n].writers++ };
      place = node[n].place;
      value++;
      memory[place] = value;
      complete = value;
      node[n].writers--
    :: atomic { node[n].no_puts && !node[n].asking -> node[n].asking = true };
      ask ! n
    fi
  :: else -> break
  od;
  finished++
}

proctype Get_counted(byte n) {
  byte least, value, place, i = 0;
  do
  :: i < GETS ->
    least = complete;
    atomic { !node[n].changing -> node[n].gets++; place = node[n].place };
    value = memory[place];
    assert(value != GARBAGE && value >= least);
    node[n].gets--;
    i++
  :: else -> break
  od;
  finished++
}

proctype Get_mapped(byte n) {
  byte least, value, place, version, i = 0;
  do
  :: i < GETS ->
    least = complete;
    version = node[n].version;
    place = node[n].place;
    value = memory[place];
    if
#ifdef NO_VERSION
    :: true ->
#else
    :: node[n].version != version
    :: node[n].version == version ->
#endif
      assert(value != GARBAGE && value >= least);
      i++
    fi
  :: else -> break
  od;
  finished++
}

init {
  atomic {
    memory[1] = GARBAGE;
    node[1].no_puts = true; /* it has not asked yet */
    run Home();
    run Calls(0);
    run Calls(1);
    run Replies(1);
    run Put(1);
#ifdef MAPPED
    run Get_mapped(0)
#else
    run Get_counted(1)
#endif
  }
}
