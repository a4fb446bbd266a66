/* Lists whose entries are linked by `next`. One thread at a time, or under a lock. */
#ifndef TUG_BASE_LIST_H
#define TUG_BASE_LIST_H

#include <stddef.h>

/* Takes the entry, which is in the list, out of it. */
#define TUG_LIST_TAKE_OUT(list_first, entry)                                                       \
    do {                                                                                           \
        __typeof__(entry) *at_ = &(list_first);                                                    \
        while (*at_ != (entry))                                                                    \
            at_ = &(*at_)->next;                                                                   \
        *at_ = (entry)->next;                                                                      \
    } while (0)

/* Puts the entry behind the last one; first: NULL, if there is none. */
#define TUG_LIST_PUT(list_first, list_last, entry)                                                 \
    do {                                                                                           \
        (entry)->next = NULL;                                                                      \
        if ((list_first) == NULL)                                                                  \
            (list_first) = (entry);                                                                \
        else                                                                                       \
            (list_last)->next = (entry);                                                           \
        (list_last) = (entry);                                                                     \
    } while (0)

#endif
