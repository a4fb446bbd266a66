/* Queue pairs that break, for tests of either kind. */
#ifndef TUG_TEST_VERBS_BROKEN_H
#define TUG_TEST_VERBS_BROKEN_H

#include "transport/verbs/private.h"

/* Puts a queue pair into its state of error, as a device does. 0, or an errno. */
static inline int break_queue_pair(struct ibv_qp *qp) {
    struct ibv_qp_attr broken = {.qp_state = IBV_QPS_ERR};
    return tug_ibv.modify_qp(qp, &broken, IBV_QP_STATE);
}

static int (*sound_modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);

static inline int ready_to_break(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    struct ibv_qp_attr broken = {.qp_state = IBV_QPS_ERR};
    const int error = sound_modify_qp(qp, attributes, mask);
    return error == 0 && attributes->qp_state == IBV_QPS_RTS
               ? sound_modify_qp(qp, &broken, IBV_QP_STATE)
               : error;
}

/* From now on queue pairs break as soon as they are ready, until tug_ibv is put back. */
static inline void make_unsound_queue_pairs(void) {
    if (tug_ibv.modify_qp != ready_to_break)
        sound_modify_qp = tug_ibv.modify_qp;
    tug_ibv.modify_qp = ready_to_break;
}

#endif
