/* Batches (src/llcl/batch.h, src/engine/gather.h): which thread hears of a record that another has written,
 * while the holder of the baton sleeps, or no thread has it and the offload thread sleeps deep.
 *
 * A WRITER writes RECORDS records, each by a plain store, which stays in its store buffer for a while, and then
 * reads, by a load that may be ahead of it, whether a sleeper wants to be told. A DRIVER takes the
 * baton, starts what it sees, and sleeps, or puts the baton down without another look. A POSTER takes it
 * for a moment and looks at nothing. The offload thread looks at each beat while something is out, and
 * sleeps deep when nothing is. A sleep that follows the sleeper's word at once is timed. When the time is over
 * and the word is still there, the sleeper makes a fence for the writer (membarrier), looks again, and sleeps
 * without a limit: all records of before are seen, and the writer of a later one sees the word.
 *
 * TIME: the kernel refuses the fence. When the time is over, every store that was made before the word has
 * become visible by itself.
 *
 * Property: in the end every record has been started, with no further call by the writer. Broken variants, to
 * be found wrong: SILENT (no sleeper is told), UNBOUNDED (the first sleep after the word is not
 * timed), DRIVER_ONLY and OFFLOAD_ONLY (only that one is told), NO_FENCE (there is no fence, and stores take
 * as long as they like).
 */
#ifndef RECORDS
#define RECORDS 2
#endif

#define DRIVER 0
#define OFFLOAD 1

byte written, started;  /* visible; a record is one step */
byte buffered;           /* stores on their way */
byte before[2];          /* of them, those made before the sleeper's word */
bit word[2];             /* the sleeper wants to be told */
bit timed[2];            /* since its word a timed sleep has run its time, */
bit settled[2];          /* and the records from before are visible */
bit s[2], rung[2], asleep[2];
bit baton;
bit out;                 /* something is outstanding */

/* ---- the writer's stores ---- */

inline drain()
{
    written = written + buffered;
    buffered = 0;
    before[0] = 0;
    before[1] = 0
}

active proctype store_buffer()
{
end:
    do
    :: atomic {
            buffered > 0 ->
            buffered--;
            written++;
            before[0] = (before[0] > 0 -> before[0] - 1 : 0);
            before[1] = (before[1] > 0 -> before[1] - 1 : 0)
        }
    od
}

/* ---- sleepers; bell.pml has the steps of a bell ---- */

inline ring(who)
{
    atomic {
        if
        :: s[who] -> s[who] = 0; rung[who] = 1; asleep[who] = 0
        :: else
        fi
    }
}

inline prepare(who)
{
    atomic { s[who] = 1; rung[who] = 0 }
}

inline give_word(who)
{
    atomic {
        if
        :: !word[who] -> word[who] = 1; before[who] = buffered; timed[who] = 0; settled[who] = 0
        :: else
        fi
    };
#ifndef NO_FENCE
    atomic { /* tug_stand_fence() */
        if
        :: timed[who] && !settled[who] -> drain(); settled[who] = 1
        :: else
        fi
    }
#else
    settled[who] = timed[who]
#endif
}

inline sleep(who)
{
    atomic {
        if
        :: !rung[who] -> asleep[who] = 1
        :: else
        fi
    };
end_asleep:
    if
    :: !asleep[who]
#ifndef UNBOUNDED
#ifdef TIME
    :: atomic { asleep[who] && !settled[who] && before[who] == 0 -> asleep[who] = 0; settled[who] = 1 }
#else
    :: atomic { asleep[who] && !settled[who] -> asleep[who] = 0; timed[who] = 1 }
#endif
#endif
    fi
}

active proctype driver()
{
    bit moved;
    atomic { !baton -> baton = 1 };
    do
    :: true ->
        started = written;
        prepare(DRIVER);
        give_word(DRIVER);
        atomic { moved = (started != written); started = written };
        if
        :: moved
        :: else ->
            sleep(DRIVER)
        fi
    :: baton = 0; break /* what it waited for has come */
    od
}

active proctype poster()
{
    if
    :: atomic { !baton -> baton = 1 }; baton = 0
    :: skip
    fi
}

active proctype network()
{
    out = 0
}

active proctype offload()
{
    do
    :: out -> /* a beat, not deep */
        word[OFFLOAD] = 0;
        if
        :: atomic { !baton -> baton = 1 }; started = written; baton = 0
        :: started == written
        fi
    :: !out ->
        prepare(OFFLOAD);
        give_word(OFFLOAD);
        if
        :: started != written -> goto look
        :: else
        fi;
        sleep(OFFLOAD);
look:   /* at each beat */
        if
        :: atomic { !baton -> baton = 1 }; started = written; baton = 0
        :: started == written
        fi
    od
}

/* ---- the writer ---- */

/* tug_batch_announce() */
inline announce()
{
    atomic { drain(); tell = word[DRIVER]; word[DRIVER] = 0 };
#ifdef OFFLOAD_ONLY
    tell = 0;
#endif
    if
    :: atomic { !baton -> baton = 1 }; started = written; baton = 0
    :: baton ->
        if
        :: tell -> ring(DRIVER)
        :: else
        fi;
#ifndef DRIVER_ONLY
        if
        :: word[OFFLOAD] -> word[OFFLOAD] = 0; ring(OFFLOAD)
        :: else
        fi
#endif
    fi
}

active proctype writer()
{
    byte n;
    bit alone, tell;
    do
    :: n < RECORDS ->
        alone = !out;
        buffered++;
        n++;
#ifdef SILENT
        if
        :: alone ->
            if
            :: atomic { !baton -> baton = 1; drain() }; started = written; baton = 0
            :: baton
            fi
        :: else
        fi
#else
        if
        :: alone || word[DRIVER] || word[OFFLOAD] -> announce()
        :: else
        fi
#endif
    :: else -> break
    od
}

init
{
    atomic {
        if
        :: out = 1
        :: out = 0
        fi
    };
end:
    timeout;
    assert(started == RECORDS)
}
