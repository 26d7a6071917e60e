/* The agent inside a machine: the host's hand in it. In a pod's machine it is the first process and makes the container;
 * in a whole machine (--machine) it is a service, and commands run in the machine itself.
 *
 * The wire is one virtio-serial port that carries frames both ways, or under Xen, which has none, the console. A frame is a header of eight bytes,
 * little-endian - u32 length of the payload, u16 type, u16 stream - and the payload. A stream is one process:
 * the host picks its number. The Python side is wire.py; the two lists of types are one list.
 */
#ifndef VPERF_AGENT_H
#define VPERF_AGENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum frame_type {
    /* host to agent */
    FRAME_START = 1,  /* make the container and run its process: payload as of FRAME_EXEC; one before it is ended */
    FRAME_EXEC = 2,   /* run a process in the container: cwd, argc, argv..., env..., each ended by a NUL */
    FRAME_INPUT = 3,  /* bytes for a process's standard input; none: its end */
    FRAME_KILL = 4,   /* kill a process and its whole session */
    FRAME_WRITE = 5,  /* write a file: path, octal mode, each ended by a NUL; the content follows as FRAME_INPUT */
    FRAME_READ = 6,   /* read a file: path, ended by a NUL; the content comes as FRAME_OUTPUT */
    FRAME_IMAGE = 7,  /* the next container's image is on the disk with this serial number, ended by a NUL */
    /* agent to host */
    FRAME_READY = 16,   /* the agent takes orders; payload: kernel release */
    FRAME_RUNNING = 17, /* the process of this stream runs: its exec has succeeded */
    FRAME_OUTPUT = 18,  /* bytes of standard output */
    FRAME_ERRORS = 19,  /* bytes of standard error */
    FRAME_EXIT = 20,    /* the process ended; payload: u32 status, 128+N for signal N */
    FRAME_FAILED = 21,  /* it never ran; payload: u32 errno, then what was tried, as text */
    FRAME_TAKEN = 22,   /* of a console: so many bytes of frames have come; payload: u32, modulo 2^32 */
    FRAME_DISK = 23,    /* the disk of FRAME_IMAGE is there */
    FRAME_RELEASED = 24, /* nothing has the disk of the container before open any more */
};

#define MAX_PAYLOAD (4u << 20)

/* main.c */
extern int whole_machine; /* there is no container */
void die(const char *what) __attribute__((noreturn));

/* modules.c: load /modules/order, one file name a line, in that order. */
void load_modules(void);

/* wire.c */
/* What is said on a console before the first frame: what comes after it is frames and nothing else. */
#define WIRE_LINE "vperf-agent: frames follow\n"
/* Opens the virtio-serial port; or, where it is named, a console. */
int wire_open(const char *console);
void wire_send(uint16_t type, uint16_t stream, const void *payload, size_t length);
void wire_send_failure(uint16_t stream, int error, const char *what);
/* Takes what has come; calls `handle` for each whole frame. Returns 0 when the host has hung up. */
int wire_receive(void (*handle)(uint16_t type, uint16_t stream, char *payload, size_t length));

/* container.c */
extern pid_t container_pid;
/* Runs in the agent, before the first process: image and overlay; then the container before, if there is one, is
 * ended with all its processes, and its root unmounted. Returns 0, or -1 with `what` set. */
int container_prepare(const char **what);
/* Whether the disk of the container before is waited for; and one look, which tells the host when it is free. */
int container_releasing(void);
void container_look(void);
/* Runs in the container's first process, in namespaces of its own. */
int container_enter_new(const char **what);
/* In the agent: children forked until container_leave() are born into the container's process namespace. */
int container_aim(const char **what);
void container_leave(void);
/* Runs in a further process of the container. */
int container_join(const char **what);

/* disks.c: disks that come while the machine runs. */
/* Whether a disk can be used. Its node and its serial number are there some time before: until the kernel has added
 * the device behind them (device_add_disk()), opening it fails with ENXIO. */
int disk_opens(const char *node);
void disk_await(uint16_t stream, const char *serial, size_t length);
/* What tells that a disk may have come: a descriptor to wait for, -1 where none is awaited. */
int disk_events(void);
/* Look for it. Returns whether it is there; the host is told the first time. */
int disk_look(void);
/* The disk that was asked for last, waited for if need be; empty: it did not come; NULL: none was asked for. */
const char *disk_asked_for(void);

/* process.c */
void process_start(uint16_t type, uint16_t stream, char *payload, size_t length);
void process_input(uint16_t stream, const char *data, size_t length);
void process_kill(uint16_t stream);
/* A child has ended, with a status of waitpid(2). */
void process_reaped(pid_t pid, int status);
struct pollfd;
/* The descriptors to wait for, and what to do when they are ready. */
size_t process_poll(struct pollfd *fds, size_t room);
void process_ready(const struct pollfd *fds, size_t count);
/* Whether a file is being written more slowly than the host sends it. */
int process_backlog(void);

/* files.c: the bodies of FRAME_WRITE and FRAME_READ; run in a process of the container. Exit status. */
int file_write(const char *path, mode_t mode);
int file_read(const char *path);

#endif
