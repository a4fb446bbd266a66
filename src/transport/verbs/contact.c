/* Contacts: a context's peers, and which process each of them is.
 *
 * The ids of all processes of a context are not told when it is made: that would be memory for all
 * of them in each. A contact has a pair of its own until the first message from its peer in that
 * context says whose it is; see private.h. That message also says that the peer's context is served
 * there: packets may follow. Threading: the holder. */
#include <stdlib.h>

#include "base/list.h"
#include "transport/verbs/private.h"

static void attach(struct tug_verbs_contact *contact, struct tug_verbs_pair *pair) {
    contact->pair = pair;
    contact->next = pair->contacts;
    pair->contacts = contact;
}

/* Itself it knows. */
static bool knows_itself(struct tug_verbs_contact *contact) {
    const struct tug_verbs_view *view = contact->view;
    return contact->rank != view->wire.fabric->rank ||
           tug_verbs_contact_is(contact, view->verbs->id);
}

struct tug_verbs_contact *tug_verbs_contact_of(struct tug_verbs_view *view, uint32_t rank) {
    struct tug_verbs *verbs = view->verbs;
    struct tug_verbs_contact *contact = tug_table_find(&view->contacts, rank);
    if (__builtin_expect(contact != NULL, 1))
        return contact;
    if (!tug_verbs_watch(verbs))
        return NULL;
    contact = calloc(1, sizeof *contact);
    struct tug_verbs_pair *pair = contact != NULL ? tug_verbs_pair_make(verbs) : NULL;
    if (pair == NULL || !tug_table_add(&view->contacts, rank, contact)) {
        if (pair != NULL)
            tug_verbs_pair_join(verbs, pair, NULL);
        free(contact);
        return NULL;
    }
    contact->view = view;
    contact->rank = rank;
    attach(contact, pair);
    return knows_itself(contact) ? contact : NULL;
}

bool tug_verbs_contact_is(struct tug_verbs_contact *contact, uint64_t id) {
    struct tug_verbs *verbs = contact->view->verbs;
    struct tug_verbs_pair *pair = contact->pair, *known;
    if (pair->id != 0)
        return pair->id == id;
    if (id == 0)
        return false;
    known = tug_table_find(&verbs->ids, id);
    if (known == NULL) {
        if (!tug_table_add(&verbs->ids, id, pair))
            return false;
        pair->id = id;
        return true;
    }
    attach(contact, known);
    pair->contacts = NULL; /* it was the only one of a pair without id */
    tug_verbs_pair_join(verbs, pair, known);
    if (contact->met && known->phase == TUG_PAIR_UP)
        tug_verbs_say(contact, TUG_WORD_LEADS);
    return true;
}

struct tug_verbs_contact *tug_verbs_contact_open(const struct tug_verbs_pair *pair) {
    struct tug_verbs_contact *open = NULL;
    for (struct tug_verbs_contact *contact = pair->contacts; contact; contact = contact->next)
        if (!contact->gone && (open == NULL || open->view->wire.fabric->with_jobs))
            open = contact;
    return open;
}

/* Each process has one contact of a view at most: with as many as there are pairs, all are this
 * view's. */
bool tug_verbs_contact_may_be_known(const struct tug_verbs_contact *contact) {
    const struct tug_verbs *verbs = contact->view->verbs;
    return contact->pair->id == 0 && verbs->npairs - verbs->nspare > contact->view->contacts.used;
}

uint32_t tug_verbs_rank(const struct tug_verbs_pair *pair) {
    return pair->contacts != NULL ? pair->contacts->rank : UINT32_MAX;
}

/* A pair that has an id is kept, connected as it is, so that the next context finds it. Were it
 * closed with the last context of the two, one of them could make the next before the other has
 * seen that; and numbers of messages go on where they were. */
static void end(void *value, void *d) {
    struct tug_verbs_contact *contact = value;
    struct tug_verbs_pair *pair = contact->pair;
    struct tug_verbs *verbs = d;
    TUG_LIST_TAKE_OUT(pair->contacts, contact);
    verbs->untold -= (uint32_t)(contact->word != TUG_WORD_NONE) + (uint32_t)(contact->due != 0);
    tug_verbs_contact_moved(contact);
    tug_verbs_pair_move_again(pair);
    if (pair->phase == TUG_PAIR_ASKED && pair->asker == contact) {
        tug_verbs_pair_drop_sender(verbs, pair); /* the answer does not come */
        tug_verbs_touch(verbs, pair);
    }
    if (pair->contacts == NULL)
        tug_verbs_messages_drop(verbs, pair);
    if (pair->id == 0)
        tug_verbs_pair_join(verbs, pair, NULL);
    free(contact);
}

void tug_verbs_contacts_end(struct tug_verbs_view *view) {
    tug_table_each(&view->contacts, end, view->verbs);
    tug_table_fini(&view->contacts);
}
