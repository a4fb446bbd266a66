#include "schedule/reduction.h"

/* A tree over those who take part, numbered from its base upwards: every subtree is a run of
 * numbers, so that the order of ranks is kept if the base is the first. */
struct tree {
    uint32_t number, parent, nchildren;
    uint32_t children[32]; /* ascending */
};

static uint32_t base_of(const struct tug_reduction *r) {
    if (!r->plan->commutes)
        return 0;
    return r->by_rank ? r->plan->root : r->root_node;
}

static void plant(const struct tug_reduction *r, struct tree *tree) {
    uint32_t base = base_of(r);
    uint32_t number = (r->me + r->count - base) % r->count;
    *tree = (struct tree){.number = number};
    if (r->plan->large) {
        tree->parent = (r->me + r->count - 1) % r->count;
        if (number + 1 < r->count)
            tree->children[tree->nchildren++] = (r->me + 1) % r->count;
        return;
    }
    tree->parent = (base + (number & (number - 1))) % r->count;
    for (uint32_t hop = 1; !(number & hop) && hop < r->count - number; hop *= 2)
        tree->children[tree->nchildren++] = (r->me + hop) % r->count;
}

/* A reduction that does not commute ends on the first, which need not be the root. */
static void hand_over(struct tug_reduction *r, uint32_t send, uint32_t finish) {
    uint32_t base = tug_reduction_rank(r, base_of(r));
    if (base == r->plan->root)
        return;
    if (r->c.rank == base)
        tug_add_message(&r->c, send, TUG_SEND, r->plan->root, 1, &r->all, TUG_AREA_SCRATCH, 0);
    if (r->c.rank == r->plan->root)
        tug_add_message(&r->c, finish, TUG_RECEIVE, base, 1, &r->all, TUG_AREA_OUTPUT, 0);
}

/* Four queues in a row: gather the node's inputs, receive the children's, reduce them, send to the
 * parent. The message of a child in a binomial tree is received as a whole, one child after
 * another.
 */
static void hold(struct tug_reduction *r) {
    struct tug_compiler *c = &r->c;
    struct tree tree;
    plant(r, &tree);
    bool root = c->rank == r->plan->root;
    bool ends = root && tree.number == 0;
    uint32_t area = ends ? TUG_AREA_OUTPUT : TUG_AREA_SCRATCH;
    uint32_t gather = tug_schedule_queue(c->schedule, TUG_LIMIT_ALL);
    uint32_t receive = tug_schedule_queue(c->schedule, 0);
    uint32_t reduce = tug_schedule_queue(c->schedule, 0);
    uint32_t send = tug_schedule_queue(c->schedule, 0);
    uint32_t finish = tug_schedule_queue(c->schedule, 0);
    uint32_t position = 0;
    uint64_t own = ends ? 0 : r->all.elements;
    struct tug_run one = r->all;
    if (!r->plan->large)
        one.segment = 0;
    bool leaf = tree.nchildren == 0;
    bool passes_on = tree.number > 0 || !ends;
    uint32_t next = leaf ? (passes_on ? 1u << send : 0) : 1u << receive;
    bool at_once = tug_run_segments(&one) == tug_run_segments(&r->all);
    tug_reduction_gather(r, gather, &r->all, area, ends && r->plan->in_place, &position,
                         at_once ? next : 0);
    if (!at_once && next != 0)
        tug_add_nop(c, gather, 1, 1, next);
    for (uint32_t i = 0; i < tree.nchildren; i++) {
        bool last = i + 1 == tree.nchildren;
        uint32_t child = tug_reduction_rank(r, tree.children[i]);
        struct tug_descriptor d = tug_describe(TUG_RECEIVE, &one, 0, TUG_AREA_SCRATCH,
                                               1u << reduce | (last ? 0 : 1u << receive));
        d.to = own + i * r->all.elements;
        d.peer = child;
        tug_add(c, receive, d);
        d = tug_describe(tug_reduction_kind(r, false), &one, TUG_AREA_SCRATCH, area,
                         last && passes_on ? 1u << send : 0);
        d.from = own + i * r->all.elements;
        tug_add(c, reduce, d);
    }
    if (tree.number > 0)
        tug_add_message(c, send, TUG_SEND, tug_reduction_rank(r, tree.parent), 0, &one, area,
                        root ? 1u << finish : 0);
    r->all = one;
    hand_over(r, send, finish);
    c->schedule->scratch = own + tree.nchildren * one.elements;
    tug_compiler_settle(c, gather);
}

static void bring(struct tug_reduction *r) {
    uint32_t publish = tug_schedule_queue(r->c.schedule, TUG_LIMIT_ALL);
    tug_add(&r->c, publish, tug_describe(TUG_PUBLISH, &r->all, TUG_AREA_INPUT, TUG_AREA_NONE, 0));
    tug_compiler_settle(&r->c, publish);
}

int tug_compile_reduce(struct tug_schedule *schedule, const struct tug_places *places,
                       const struct tug_reduce_plan *plan, uint32_t rank) {
    struct tug_reduction r;
    tug_reduction_begin(&r, schedule, places, plan, places->node_of[plan->root], rank);
    if (schedule->failed || plan->elements == 0)
        return tug_compiler_end(&r.c);
    uint32_t holder = tug_reduction_holder(&r);
    if (places->nnodes == 1 && r.c.node_size > 1 && plan->large) {
        plan->direct ? tug_reduction_direct(&r, holder) : tug_reduction_shares(&r, holder);
        return tug_compiler_end(&r.c);
    }
    for (uint32_t w = 0; tug_reduction_has_members(&r) && w < r.c.node_size; w++)
        schedule->passes[w] = w == holder ? 0 : tug_run_segments(&r.all);
    if (holder == r.c.node_rank)
        hold(&r);
    else
        bring(&r);
    return tug_compiler_end(&r.c);
}
