/* First process of the machine: comes up, loads drivers, opens the wire, and serves it for ever. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FDS 256
#define OWN_FDS 3

int whole_machine;

static void say(const char *line) {
    /* The console is all there is before the wire; a failed write has nobody to be told to. */
    ssize_t ignored = write(2, line, strlen(line));
    (void)ignored;
}

static void __attribute__((noreturn)) end(void) {
    if (whole_machine) _exit(1);
    /* QEMU runs with -no-reboot: this ends it, and the host sees the wire close. */
    reboot(RB_AUTOBOOT);
    for (;;) pause();
}

void die(const char *what) {
    char line[256];
    snprintf(line, sizeof line, "vperf-agent: error: %s: %s\n", what, strerror(errno));
    say(line);
    end();
}

static void mount_or_die(const char *type, const char *where, unsigned long flags) {
    mkdir(where, 0755);
    if (mount(type, where, type, flags, NULL) < 0 && errno != EBUSY) die(where);
}

/* What a container's own network has: tools talk to themselves over it. A kernel without a network has none. */
static void loopback_up(void) {
    struct ifreq request = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0) return;
    if (ioctl(any, SIOCGIFFLAGS, &request) == 0) {
        request.ifr_flags |= IFF_UP;
        if (ioctl(any, SIOCSIFFLAGS, &request) < 0) die("lo");
    }
    close(any);
}

static void handle(uint16_t type, uint16_t stream, char *payload, size_t length) {
    switch (type) {
    case FRAME_START:
    case FRAME_EXEC:
    case FRAME_WRITE:
    case FRAME_READ: process_start(type, stream, payload, length); break;
    case FRAME_INPUT: process_input(stream, payload, length); break;
    case FRAME_KILL: process_kill(stream); break;
    case FRAME_IMAGE: disk_await(stream, payload, length); break;
    default: wire_send_failure(stream, EPROTO, "unknown frame"); break;
    }
}

static void reap(int signals) {
    struct signalfd_siginfo info;
    pid_t pid;
    int status;
    while (read(signals, &info, sizeof info) > 0) {}
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) process_reaped(pid, status);
}

static void serve(int wire, int signals) {
    struct pollfd fds[MAX_FDS];
    for (;;) {
        /* Not reading is how a fast sender is slowed down: virtio-serial and the host's socket fill up. */
        fds[0] = (struct pollfd){.fd = wire, .events = process_backlog() ? 0 : POLLIN};
        fds[1] = (struct pollfd){.fd = signals, .events = POLLIN};
        fds[2] = (struct pollfd){.fd = disk_events(), .events = POLLIN};
        size_t count = OWN_FDS + process_poll(fds + OWN_FDS, MAX_FDS - OWN_FDS);
        /* Nothing tells when a disk is closed for the last time; that is after the new container runs. */
        if (poll(fds, count, container_releasing() ? 1 : -1) < 0) {
            if (errno == EINTR) continue;
            die("poll");
        }
        process_ready(fds + OWN_FDS, count - OWN_FDS);
        if (container_releasing()) container_look();
        if (fds[2].revents) disk_look();
        if (fds[1].revents) reap(signals);
        if (fds[0].revents & (POLLIN | POLLHUP))
            if (!wire_receive(handle)) end(); /* the host's end is closed: nobody wants this machine any more */
    }
}

/* The console, where the kernel was told that it is the wire: "vperf.wire=hvc0". */
static const char *named_wire(void) {
    static char line[4096], path[64];
    int file = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, line, sizeof line - 1);
    if (file >= 0) close(file);
    if (got <= 0) return NULL;
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
        if (!strncmp(word, "vperf.wire=", 11)) {
            snprintf(path, sizeof path, "/dev/%.40s", word + 11);
            return path;
        }
    return NULL;
}

int main(int argc, char **argv) {
    whole_machine = argc > 1 && !strcmp(argv[1], "--machine");
    if (!whole_machine) {
        say("vperf-agent: up\n");
        mount_or_die("devtmpfs", "/dev", MS_NOSUID);
        mount_or_die("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC);
        load_modules();
        loopback_up();
    }

    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    int signals = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0) die("signalfd");
    signal(SIGPIPE, SIG_IGN);

    int wire = wire_open(named_wire());
    struct utsname name;
    uname(&name);
    wire_send(FRAME_READY, 0, name.release, strlen(name.release));
    serve(wire, signals);
}
