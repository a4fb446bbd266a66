/* The first access to a page of a global array without its home's processor: src/gas, struct
 * tug_page_record.
 *
 * A home moves one page to and fro between two places. A process that does not know the place
 * enters itself among the askers, reads the record, and puts growing numbers there; if the page
 * moves it asks. It may forget the place at any time. Before a move the home hides the place and
 * takes the askers on its list; whoever stands there is stopped and told of the change. Calls of
 * the home arrive between the entering and the reading, and between the reading and its use.
 *
 * Checked: no put goes to memory that was freed; the last put is there in the end; all get on.
 *
 * Broken on purpose: READ_FIRST (the record is read before the entering), HIDE_LATE (the home looks
 * at the askers first), NO_HIDE, CLEAR_ALL (it clears a word in which it saw nobody), OLD_RECORD (puts
 * that have been stopped since the reading).
 */
#ifndef MOVES
#define MOVES 3
#endif
#ifndef PUTS
#define PUTS 3
#endif
#define GARBAGE 255

mtype = {STOP, CHANGE};

byte generation = 1, place; /* the record; generation 0: hidden */
bit asker;                  /* the word in it */
bit told;                   /* the home's list */
byte memory[2];
bit over;
chan call = [0] of {mtype, byte, byte};
chan answer = [0] of {bit};
chan ask = [0] of {bit};
chan reply = [0] of {byte, byte};

/* the process's entry of the page */
bit known, no_puts = 1, looking;
byte here, here_generation, puts_from, writers;

inline take() {
  if
  :: asker -> told = 1; asker = 0
  :: else
#ifdef CLEAR_ALL
    -> asker = 0
#endif
  fi
}

proctype Home() {
  byte moves = 0, now = 1, at = 0, old = 0;
  bit knows;
  do
  :: moves < MOVES ->
    moves++;
#ifdef HIDE_LATE
    take();
    generation = 0;
#else
#ifndef NO_HIDE
    generation = 0;
#endif
    take();
#endif
    if
    :: told -> call ! STOP, now, at; answer ? _
    :: else
    fi;
    memory[1 - at] = memory[at];
    old = at;
    at = 1 - at;
    now++;
    if
    :: told -> call ! CHANGE, now, at; answer ? knows; told = knows
    :: else
    fi;
    memory[old] = GARBAGE;
    old = 0;
    knows = 0;
    place = at;
    generation = now
  :: ask ? _ -> told = 1; reply ! now, at
  :: over && moves == MOVES -> break
  od;
  assert(memory[at] == PUTS)
}

proctype Calls() {
  byte g, p;
end:
  do
  :: call ? STOP, g, p ->
    atomic {
      if
      :: known || looking -> puts_from = g + 1; no_puts = 1
      :: else
      fi
    };
    writers == 0;
    answer ! 1
  :: call ? CHANGE, g, p ->
    if
    :: atomic { known || looking -> known = 1; here = p; here_generation = g };
      answer ! 1
    :: atomic { else -> skip };
      answer ! 0
    fi
  od
}

inline apply() {
  atomic {
    if
    :: !known || g >= here_generation -> known = 1; here = p; here_generation = g;
      if
#ifdef OLD_RECORD
      :: true -> no_puts = 0
#else
      :: g >= puts_from -> no_puts = 0
      :: else
#endif
      fi
    :: else
    fi
  }
}

proctype Puts() {
  byte value = 0, g, p;
  do
  :: value < PUTS ->
    if
    :: atomic { known && !no_puts -> writers++ };
      value++;
      assert(memory[here] != GARBAGE);
      memory[here] = value;
      writers--
    :: atomic { known && no_puts -> looking = 1 }
    :: atomic { !known -> looking = 1; no_puts = 1; puts_from = 0; here_generation = 0 }
    fi;
    if
    :: looking ->
#ifdef READ_FIRST
      d_step { g = generation; p = place };
      asker = 1;
#else
      asker = 1;
      d_step { g = generation; p = place };
#endif
      if
      :: g == 0 -> ask ! 1; reply ? g, p
      :: else
      fi;
      apply();
      looking = 0;
      g = 0;
      p = 0
    :: else
    fi
  :: atomic { known && value < PUTS -> known = 0; no_puts = 1 } /* forgets it */
  :: else -> break
  od;
  over = 1
}

init {
  atomic {
    memory[1] = GARBAGE;
    run Home();
    run Calls();
    run Puts()
  }
}
