/*
 * Lines of one thread that leave together: a reactor writes those of a turn at its end, in one go, before it waits.
 *
 * Invariant: a thread's lines leave in the order in which they were written, and none is lost while the process can still
 * do anything: who ends it (a crash, exit) sends what is there first, a crash in the midst of sending perhaps again. What leaves at once is at most PIPE_BUF bytes of whole
 * lines, so that a pipe takes it whole, beside other processes too. The child of a fork gathers none and has none.
 * Thread: any; each gathers its own.
 */
#ifndef TELEMETRY_GATHER_H
#define TELEMETRY_GATHER_H

#include <coordinator/base.h>

/* As log_gather, log_send, log_gather_end. */
void gather_begin(void);
void gather_send(void);
void gather_end(void);

/*
 * Keeps a line of this thread; what does not fit beside it leaves first, and an urgent one takes all with it at once. False: the thread
 * gathers none, or the line is too long. It is to be written now then: what was gathered by any thread has left before.
 */
bool gather_keep(coord_slice line, bool urgent) __attribute__((warn_unused_result));

/* Sends what all threads have gathered. */
void gather_send_all(void);

#endif
