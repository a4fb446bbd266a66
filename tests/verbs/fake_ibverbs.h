/* Between the parts of the stand-in for libibverbs: what a device's context calls. */
#ifndef TUG_TEST_FAKE_IBVERBS_H
#define TUG_TEST_FAKE_IBVERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

int fake_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *found);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad);
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *receive, struct ibv_recv_wr **bad);

#endif
