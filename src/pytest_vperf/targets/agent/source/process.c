/* The processes that the host asked for, their pipes and their ends. */
#define _GNU_SOURCE
#include "agent.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PROCESSES 64
#define BACKLOG (1u << 20)

struct process {
    pid_t pid; /* 0: this place is free */
    uint16_t stream;
    int input, output, errors; /* our ends of its pipes; -1: closed */
    char *pending;             /* input not yet taken by the process */
    size_t pending_length;
    int input_ended, reads_file;
};

static struct process processes[MAX_PROCESSES];

static struct process *find_stream(uint16_t stream) {
    for (size_t i = 0; i < MAX_PROCESSES; i++)
        if (processes[i].pid && processes[i].stream == stream) return &processes[i];
    return NULL;
}

static void close_end(int *end) {
    if (*end >= 0) close(*end);
    *end = -1;
}

/* What a FRAME_EXEC says. Pointers into the payload, which is cut at its NULs. */
struct order {
    char *cwd;
    char **argv, **env;
};

static char *next_string(char **at, char *end) {
    char *text = *at;
    char *nul = memchr(text, '\0', (size_t)(end - text));
    if (!nul) return NULL;
    *at = nul + 1;
    return text;
}

static int parse_order(char *payload, size_t length, struct order *order) {
    char *at = payload, *end = payload + length, *text;
    if (!(order->cwd = next_string(&at, end)) || !(text = next_string(&at, end))) return -1;
    size_t argc = strtoul(text, NULL, 10), room = 2;
    for (char *c = at; c < end; c++) room += *c == '\0';
    if (argc < 1 || !(order->argv = calloc(2 * room, sizeof(char *)))) return -1;
    order->env = order->argv + room;
    for (size_t i = 0; i < argc; i++)
        if (!(order->argv[i] = next_string(&at, end))) return -1;
    for (size_t i = 0; at < end; i++)
        if (!(order->env[i] = next_string(&at, end))) return -1;
    return 0;
}

/* In the new process. Returns only when something failed, with `what` set; errno says why. */
static void become(uint16_t type, char *payload, size_t length, const char **what) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setsid();
    if ((type == FRAME_START ? container_enter_new(what) : container_join(what)) < 0) return;
    if (type == FRAME_WRITE || type == FRAME_READ) {
        char *at = payload, *path = next_string(&at, payload + length), *mode = NULL;
        if (path && type == FRAME_WRITE) mode = next_string(&at, payload + length);
        if (path && type == FRAME_READ) _exit(file_read(path));
        if (path && mode) _exit(file_write(path, (mode_t)strtoul(mode, NULL, 8)));
        errno = EPROTO;
        *what = "understand the request";
        return;
    }
    struct order order = {0};
    errno = EPROTO;
    *what = "understand the command";
    if (parse_order(payload, length, &order) < 0) return;
    *what = order.cwd;
    if (*order.cwd && chdir(order.cwd) < 0) return;
    environ = order.env;
    *what = order.argv[0];
    execvp(order.argv[0], order.argv);
}

/* A child with a process ID in the namespace that was aimed at, or in new namespaces. */
static pid_t new_process(int new_container) {
    if (!new_container) return fork();
    unsigned long flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | SIGCHLD;
    return (pid_t)syscall(SYS_clone, flags, 0, 0, 0, 0);
}

/* Reads the report pipe: its end means that exec closed it. Returns 0, or -1 after telling the host. */
static int await_exec(int report, uint16_t stream) {
    char text[260];
    size_t used = 0;
    ssize_t got;
    while ((got = read(report, text + used, sizeof text - 1 - used)) != 0) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) break;
        used += (size_t)got;
    }
    if (!used) return 0;
    int error;
    memcpy(&error, text, sizeof error);
    text[used] = '\0';
    wire_send_failure(stream, error, text + sizeof error);
    return -1;
}

static void report_failure(int report, int error, const char *what) {
    char text[260];
    size_t length = strnlen(what, sizeof text - sizeof error - 1);
    memcpy(text, &error, sizeof error);
    memcpy(text + sizeof error, what, length);
    ssize_t ignored = write(report, text, sizeof error + length);
    (void)ignored;
}

void process_start(uint16_t type, uint16_t stream, char *payload, size_t length) {
    const char *what = "make the container";
    int new_container = type == FRAME_START;
    if (new_container && container_prepare(&what) < 0) {
        wire_send_failure(stream, errno, what);
        return;
    }
    what = "take another process: too many run";
    struct process *slot = NULL;
    for (size_t i = 0; i < MAX_PROCESSES && !slot; i++)
        if (!processes[i].pid) slot = &processes[i];
    int pipes[4][2]; /* input, output, errors, report */
    errno = EAGAIN;
    if (!slot || find_stream(stream)) {
        wire_send_failure(stream, errno, what);
        return;
    }
    for (int i = 0; i < 4; i++)
        if (pipe2(pipes[i], O_CLOEXEC) < 0) die("pipe");
    if (!new_container && container_aim(&what) < 0) {
        wire_send_failure(stream, errno, what);
        for (int i = 0; i < 4; i++) close(pipes[i][0]), close(pipes[i][1]);
        return;
    }
    pid_t pid = new_process(new_container);
    if (pid == 0) {
        dup2(pipes[0][0], 0);
        dup2(pipes[1][1], 1);
        dup2(pipes[2][1], 2);
        int is_file = type == FRAME_WRITE || type == FRAME_READ;
        /* Our ends must not live on here: a reader waits for the last writer to close. */
        close(pipes[0][1]);
        if (is_file) close(pipes[3][1]), pipes[3][1] = -1;
        become(type, payload, length, &what);
        int error = errno;
        if (is_file) {
            dprintf(2, "%s: %s\n", what, strerror(error));
            _exit(1);
        }
        report_failure(pipes[3][1], error, what);
        _exit(error == ENOENT ? 127 : 126);
    }
    int error = errno;
    if (!new_container) container_leave();
    close(pipes[0][0]), close(pipes[1][1]), close(pipes[2][1]), close(pipes[3][1]);
    if (pid < 0) {
        wire_send_failure(stream, error, "make a process");
    } else {
        if (new_container) container_pid = pid;
        if (await_exec(pipes[3][0], stream) == 0) {
            close(pipes[3][0]);
            *slot = (struct process){.pid = pid, .stream = stream, .input = pipes[0][1],
                                     .output = pipes[1][0], .errors = pipes[2][0],
                                     .reads_file = type == FRAME_WRITE};
            fcntl(slot->input, F_SETFL, O_NONBLOCK);
            fcntl(slot->output, F_SETFL, O_NONBLOCK);
            fcntl(slot->errors, F_SETFL, O_NONBLOCK);
            wire_send(FRAME_RUNNING, stream, NULL, 0);
            return;
        }
    }
    close(pipes[0][1]), close(pipes[1][0]), close(pipes[2][0]), close(pipes[3][0]);
}

static void feed(struct process *process) {
    while (process->pending_length && process->input >= 0) {
        ssize_t done = write(process->input, process->pending, process->pending_length);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && errno == EAGAIN) return;
        if (done < 0) { /* it closed its input: what is left has no reader */
            close_end(&process->input);
            process->pending_length = 0;
            return;
        }
        process->pending_length -= (size_t)done;
        memmove(process->pending, process->pending + done, process->pending_length);
    }
    if (process->input_ended && !process->pending_length) close_end(&process->input);
}

void process_input(uint16_t stream, const char *data, size_t length) {
    struct process *process = find_stream(stream);
    if (!process || process->input < 0) return; /* it ended meanwhile */
    if (!length) {
        process->input_ended = 1;
    } else {
        char *grown = realloc(process->pending, process->pending_length + length);
        if (!grown) die("memory for input");
        process->pending = grown;
        memcpy(process->pending + process->pending_length, data, length);
        process->pending_length += length;
    }
    feed(process);
}

int process_backlog(void) {
    for (size_t i = 0; i < MAX_PROCESSES; i++)
        if (processes[i].pid && processes[i].reads_file && processes[i].pending_length > BACKLOG)
            return 1;
    return 0;
}

void process_kill(uint16_t stream) {
    struct process *process = find_stream(stream);
    /* The session has the process's ID as its group, and dies with it. */
    if (process) kill(-process->pid, SIGKILL), kill(process->pid, SIGKILL);
}

static void drain(struct process *process, int *end, uint16_t type) {
    static char buffer[1 << 16];
    while (*end >= 0) {
        ssize_t got = read(*end, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) close_end(end);
        else wire_send(type, process->stream, buffer, (size_t)got);
    }
}

void process_reaped(pid_t pid, int status) {
    if (pid == container_pid) container_pid = 0;
    for (size_t i = 0; i < MAX_PROCESSES; i++) {
        struct process *process = &processes[i];
        if (process->pid != pid) continue;
        /* What it printed before its end comes first; children that keep its pipes open are not waited for. */
        drain(process, &process->output, FRAME_OUTPUT);
        drain(process, &process->errors, FRAME_ERRORS);
        close_end(&process->input);
        close_end(&process->output);
        close_end(&process->errors);
        free(process->pending);
        int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        uint32_t number = htole32((uint32_t)code);
        wire_send(FRAME_EXIT, process->stream, &number, sizeof number);
        *process = (struct process){0};
    }
}

size_t process_poll(struct pollfd *fds, size_t room) {
    size_t count = 0;
    for (size_t i = 0; i < MAX_PROCESSES && count + 3 <= room; i++) {
        struct process *process = &processes[i];
        if (!process->pid) continue;
        if (process->output >= 0) fds[count++] = (struct pollfd){.fd = process->output, .events = POLLIN};
        if (process->errors >= 0) fds[count++] = (struct pollfd){.fd = process->errors, .events = POLLIN};
        if (process->input >= 0 && process->pending_length)
            fds[count++] = (struct pollfd){.fd = process->input, .events = POLLOUT};
    }
    return count;
}

void process_ready(const struct pollfd *fds, size_t count) {
    for (size_t n = 0; n < count; n++) {
        if (!fds[n].revents) continue;
        for (size_t i = 0; i < MAX_PROCESSES; i++) {
            struct process *process = &processes[i];
            if (!process->pid) continue;
            if (fds[n].fd == process->output) drain(process, &process->output, FRAME_OUTPUT);
            else if (fds[n].fd == process->errors) drain(process, &process->errors, FRAME_ERRORS);
            else if (fds[n].fd == process->input) feed(process);
        }
    }
}
