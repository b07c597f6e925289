/*
 * What happens to a request: which phase it plays, which faults apply, and the pace of its answer. Called by conn.c.
 */
#ifndef SIM_SERVE_H
#define SIM_SERVE_H

#include "conn.h"

void serve_head(struct conn *conn);     /* the head is there, the body may not be */
void serve_request(struct conn *conn);  /* the request is whole */
void serve_due(struct conn *conn);      /* conn_arm's time has come */
void serve_writable(struct conn *conn); /* the backlog is gone while the answer goes on */
void serve_over(struct conn *conn,
                bool broken); /* the request is over; broken: the peer left before the answer was whole */
void serve_fini(void);

#endif
