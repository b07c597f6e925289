/* See pid_file.h. Files come into place by rename or link, so that nobody sees half of one. */
#include "cli/pid_file.h"

#include "telemetry/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100, PATH_ROOM = 4096, ANSWER_LIMIT = 1 << 20 };

static const char *const STATES[] = {
    [RELOAD_NONE] = "none",       [RELOAD_BEGUN] = "begun",   [RELOAD_APPLIED] = "applied",
    [RELOAD_REFUSED] = "refused", [RELOAD_FAILED] = "failed", [RELOAD_ENDING] = "ending",
};
enum { STATE_COUNT = sizeof STATES / sizeof *STATES };

static bool beside(char room[PATH_ROOM], const char *path, const char *suffix)
{
    int size = snprintf(room, PATH_ROOM, "%s%s", path, suffix);

    return size > 0 && size < PATH_ROOM;
}

static bool refuse(struct buffer *reason, const char *path, const char *why)
{
    return buffer_explain(reason, "the process id cannot be written to --pid-file %s: %s", path, why);
}

/* ---- Locks ---- */

/* Locks of bytes, which belong to the open file and end with it, and which can be asked for without being taken. */
enum {
    OWNERS_BYTE = 0, /* locked by whoever serves, for as long as it does */
    TAKERS_BYTE = 1  /* by whoever takes a stale file over, for the moment that it needs */
};

static bool lock_byte(int fd, int byte, int command)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    while (fcntl(fd, command, &lock) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

static bool is_owned(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = OWNERS_BYTE, .l_len = 1};

    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* ---- Taking it ---- */

static long read_number(int fd)
{
    char text[32];
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    char *end;
    long number;

    if (got <= 0)
        return 0;
    text[got] = '\0';
    number = strtol(text, &end, 10);
    /* No process has a larger one: as a pid_t it would be another, or mean many. */
    return end != text && (*end == '\n' || *end == '\0') && number > 0 && number <= INT_MAX ? number : 0;
}

/* A new file with our number under a name of its own, locked. -1 with errno. */
static int make(const char *path, char made[PATH_ROOM])
{
    char text[32];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid()), fd;

    if (!beside(made, path, ".XXXXXX")) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(made, O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fchmod(fd, 0644) == 0 && lock_byte(fd, OWNERS_BYTE, F_OFD_SETLK) && write(fd, text, (size_t)size) == size)
        return fd;
    size = errno;
    close(fd);
    unlink(made);
    errno = size;
    return -1;
}

static bool is_regular(int fd)
{
    struct stat facts;

    return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
}

static bool is_at(int fd, const char *path)
{
    struct stat ours, there;

    return fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
}

enum outcome { TAKEN, AGAIN, REFUSED };

/* Somebody's file is there: ours takes its place when nobody owns it. */
static enum outcome replace(const char *made, const char *path, struct buffer *reason)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    enum outcome outcome = AGAIN;

    if (fd < 0)
        return errno == ENOENT ? AGAIN : (refuse(reason, path, strerror(errno)), REFUSED);
    if (!is_regular(fd)) { /* a device, as /dev/null, a pipe: to be there for others */
        refuse(reason, path, "it is no regular file");
        outcome = REFUSED;
    } else if (!lock_byte(fd, TAKERS_BYTE, F_OFD_SETLKW)) {
        refuse(reason, path, strerror(errno));
        outcome = REFUSED;
    } else if (is_owned(fd)) {
        buffer_explain(
            reason,
            "--pid-file %s belongs to a coordinator that runs, process %ld: end it, or give this one another file",
            path, read_number(fd));
        outcome = REFUSED;
    } else if (is_at(fd, path)) { /* else another was faster */
        outcome = rename(made, path) == 0 ? TAKEN : (refuse(reason, path, strerror(errno)), REFUSED);
    }
    close(fd);
    return outcome;
}

static enum outcome place(const char *made, const char *path, struct buffer *reason)
{
    if (link(made, path) == 0)
        return TAKEN;
    if (errno == EEXIST)
        return replace(made, path, reason);
    refuse(reason, path, strerror(errno));
    return REFUSED;
}

bool pid_file_take(struct pid_file *file, const char *path, struct buffer *reason)
{
    char made[PATH_ROOM], answers[PATH_ROOM];
    enum outcome outcome = AGAIN;

    *file = (struct pid_file){.path = path, .fd = make(path, made)};
    if (file->fd < 0)
        return refuse(reason, path, strerror(errno));
    for (int i = 0; i < ATTEMPTS && outcome == AGAIN; i++)
        outcome = place(made, path, reason);
    unlink(made); /* gone already if it was renamed */
    if (outcome == TAKEN) {
        if (beside(answers, path, ".reload"))
            unlink(answers); /* of a process that is gone */
        return true;
    }
    close(file->fd);
    file->fd = -1;
    return outcome == REFUSED ? false : refuse(reason, path, "others keep writing it");
}

void pid_file_drop(struct pid_file *file)
{
    char answers[PATH_ROOM];

    if (file->fd < 0)
        return;
    if (is_at(file->fd, file->path)) {
        if (beside(answers, file->path, ".reload"))
            unlink(answers);
        unlink(file->path);
    }
    close(file->fd);
    file->fd = -1;
}

long pid_file_process(const char *path, struct buffer *reason)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    long number = fd < 0 ? 0 : read_number(fd);

    if (fd < 0) {
        buffer_explain(reason, "%s: %s", path, strerror(errno));
    } else if (number == 0) {
        buffer_explain(reason, "%s: is no pid file: name the one of `serve --pid-file`", path);
    } else if (!is_owned(fd)) {
        buffer_explain(reason, "%s: is stale: the coordinator that wrote it, process %ld, has ended", path, number);
        number = 0;
    }
    if (fd >= 0)
        close(fd);
    return number;
}

/* ---- Answers ---- */

static bool write_all(int fd, coord_slice text)
{
    while (text.size > 0) {
        ssize_t put = write(fd, text.data, text.size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        text.data += put;
        text.size -= (size_t)put;
    }
    return true;
}

static bool write_answer(const char *path, coord_slice text)
{
    char made[PATH_ROOM], to[PATH_ROOM];
    int fd;
    bool written;

    if (!beside(made, path, ".reload.XXXXXX") || !beside(to, path, ".reload"))
        return false;
    fd = mkostemp(made, O_CLOEXEC);
    if (fd < 0)
        return false;
    written = fchmod(fd, 0644) == 0 && write_all(fd, text);
    close(fd);
    if (written && rename(made, to) == 0)
        return true;
    unlink(made);
    return false;
}

void reload_answer_write(const struct pid_file *file, const struct reload_answer *answer)
{
    struct buffer text = {0};

    if (file->fd < 0)
        return;
    if (!buffer_printf(&text, "%u %s\n", answer->number, STATES[answer->state]) ||
        !buffer_append_slice(&text, buffer_slice(&answer->text)) || !write_answer(file->path, buffer_slice(&text)))
        coord_logf(NULL, COORD_LOG_WARNING, "the answer to a reload cannot be written beside --pid-file %s: %s",
                   file->path, strerror(errno));
    buffer_release(&text);
}

static bool parse_answer(struct reload_answer *answer, char *text)
{
    char *line = strsep(&text, "\n"), *word;

    answer->number = (unsigned)strtoul(line, &word, 10);
    if (!text || word == line || *word != ' ')
        return false;
    for (size_t i = 0; i < STATE_COUNT; i++)
        if (strcmp(word + 1, STATES[i]) == 0) {
            answer->state = (enum reload_state)i;
            return buffer_append_text(&answer->text, text);
        }
    return false;
}

void reload_answer_read(const char *pid_path, struct reload_answer *answer)
{
    char path[PATH_ROOM], chunk[4096];
    struct buffer text = {.limit = ANSWER_LIMIT};
    int fd = beside(path, pid_path, ".reload") ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    bool whole = fd >= 0 && is_regular(fd); /* of a pipe there might be no end */
    ssize_t got;

    buffer_clear(&answer->text, 0);
    while (whole && (got = read(fd, chunk, sizeof chunk)) > 0)
        whole = buffer_append(&text, chunk, (size_t)got);
    if (fd >= 0)
        close(fd);
    if (!buffer_append(&text, "", 1) || !parse_answer(answer, text.data)) {
        answer->number = 0;
        answer->state = RELOAD_NONE;
        buffer_clear(&answer->text, 0);
    }
    buffer_release(&text);
}
