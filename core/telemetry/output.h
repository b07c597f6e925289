/*
 * Where the log's lines go: standard error, without holding up the thread that writes them.
 *
 * A regular file or a terminal is written directly. A pipe or a socket is written without blocking; what it does not take at
 * once waits in a backlog of 1 MiB, which a thread of its own, started when needed, writes out in order. Lines beyond
 * the backlog are dropped whole and counted. Thread: any.
 */
#ifndef TELEMETRY_OUTPUT_H
#define TELEMETRY_OUTPUT_H

#include <coordinator/base.h>

/* Looks anew at what standard error is. Otherwise done with the first line. */
void output_look(void);
/* A line that ends in a line feed: to the sink, if there is one; else an urgent one is written at once, others as gather.h says. */
void output_line(coord_slice line, bool urgent);
/* Writes whole lines, of at most PIPE_BUF bytes where they are several; no sink sees them. */
void output_lines(coord_slice lines);
/* As log_set_sink, log_dropped, log_flush. */
void output_set_sink(void (*sink)(void *context, coord_slice line), void *context);
uint64_t output_dropped(void);
void output_flush(void);

#endif
