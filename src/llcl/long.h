/* Long active messages: those of more than TUG_AM_MAX_PAYLOAD bytes.
 *
 * They travel as long messages of id TUG_PART_AM (llcl.h), from the program's memory and in parts.
 * Other parts than whole messages are gathered here: one message a source, as no message is handled
 * before all of the one before it. The handler is called once, with all of it. Holder only.
 */
#ifndef TUG_LLCL_LONG_H
#define TUG_LLCL_LONG_H

#include <stddef.h>
#include <stdint.h>

struct tug_context;

#define TUG_PART_AM 1

/* The words of a part's head: the handler, and bytes of the message. */
#define TUG_LONG_HANDLER 0
#define TUG_LONG_BYTES 1

/* A part has come, its first byte `position` bytes into the message. A part that comes once more,
 * by another transport, replaces the first. Returns `bytes`; TUG_ERR_INVALID (nobody handles it, or
 * a part is missing before it) or TUG_ERR_NO_MEMORY, also for the parts behind one that failed. */
int64_t tug_long_deliver(struct tug_context *context, uint32_t source, const uint64_t head[2],
                         uint64_t position, const void *data, size_t bytes);

/* Nothing comes from the source any more: forgets what it has sent of a message. */
void tug_long_forget(struct tug_context *context, uint32_t source);

/* The context ends: forgets what has come of messages of which the rest never will. */
void tug_long_close(struct tug_context *context);

#endif
