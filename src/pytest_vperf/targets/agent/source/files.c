/* Writing and reading one file, in a process of the container: standard input and output are the wire. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int complain(const char *path) {
    dprintf(2, "%s: %s\n", path, strerror(errno));
    return 1;
}

static int copy(int from, int to, const char *path) {
    static char buffer[1 << 16];
    for (;;) {
        ssize_t got = read(from, buffer, sizeof buffer);
        if (got == 0) return 0;
        if (got < 0) {
            if (errno == EINTR) continue;
            return complain(path);
        }
        for (ssize_t at = 0; at < got;) {
            ssize_t done = write(to, buffer + at, (size_t)(got - at));
            if (done < 0 && errno == EINTR) continue;
            if (done < 0) return complain(path);
            at += done;
        }
    }
}

int file_write(const char *path, mode_t mode) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (file < 0) return complain(path);
    if (copy(0, file, path)) return 1;
    if (fchmod(file, mode) < 0 || close(file) < 0) return complain(path);
    return 0;
}

int file_read(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return complain(path);
    struct stat facts;
    if (fstat(file, &facts) < 0) return complain(path);
    if (S_ISDIR(facts.st_mode)) {
        errno = EISDIR;
        return complain(path);
    }
    return copy(file, 1, path);
}
