/*
 * The file of `serve --pid-file`, and the one beside it in which reloads are answered.
 *
 * The pid file is there, whole, from before the service starts until it has ended. Whoever serves holds a lock on its first byte (fcntl), so that a
 * file that a dead process left is told from one in use whatever process has that number now. The answers' file has the
 * same name with ".reload" behind it; it is replaced as a whole, before each reload and after it.
 * Thread: main thread.
 */
#ifndef CLI_PID_FILE_H
#define CLI_PID_FILE_H

#include "runtime/buffer.h"

/* A zeroed one with `fd` -1 is none: nothing is written then. */
struct pid_file {
    const char *path;
    int fd; /* holds the lock */
};

/* Takes the file over, a stale one too. False with `reason`: one that lives has it, or it cannot be written. */
bool pid_file_take(struct pid_file *file, const char *path, struct buffer *reason);
/* Removes it and the answers', if they are still ours. */
void pid_file_drop(struct pid_file *file);

/* How far a reload has come. */
enum reload_state {
    RELOAD_NONE = 0, /* nothing was said yet */
    RELOAD_BEGUN,    /* the file is being read */
    RELOAD_APPLIED,
    RELOAD_REFUSED, /* the configuration is wrong */
    RELOAD_FAILED,  /* it is right, but did not come into use */
    RELOAD_ENDING,  /* the process ends: no reload comes any more */
};
struct reload_answer {
    unsigned number; /* of the reload, from 1 */
    enum reload_state state;
    struct buffer text; /* what there is to say, whole lines */
};

/* Says it to whoever waits; what cannot be written is lost with a line in the log. */
void reload_answer_write(const struct pid_file *file, const struct reload_answer *answer);
/* Reads what was said last. None, or one that cannot be read: number 0, RELOAD_NONE. */
void reload_answer_read(const char *pid_path, struct reload_answer *answer);

/* The process that has the file. 0 with `reason`: there is none, it is no pid file, or its process is gone. */
long pid_file_process(const char *path, struct buffer *reason);

#endif
