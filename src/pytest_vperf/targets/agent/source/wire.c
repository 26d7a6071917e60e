/* The virtio-serial port, or the console, and its frames. */
#define _GNU_SOURCE
#include "agent.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

struct header {
    uint32_t length;
    uint16_t type, stream;
} __attribute__((packed));

/* On a console the kernel takes Ctrl-O for itself (drivers/tty/hvc, "SysRq"): it comes as ESCAPE and another byte. */
#define ESCAPE 0x10
#define FLIP 0x40
#define TELL_EVERY 4096

static int port = -1, escaping, escape_seen;
static char *inbox;
static size_t inbox_used;

/* The driver makes the port's node some time after it is loaded, in a work queue of the kernel. */
static int find_port(void) {
    DIR *dev = opendir("/dev");
    if (!dev) die("/dev");
    struct dirent *item;
    int found = -1;
    while (found < 0 && (item = readdir(dev)))
        if (strncmp(item->d_name, "vport", 5) == 0)
            found = openat(dirfd(dev), item->d_name, O_RDWR | O_CLOEXEC);
    closedir(dev);
    return found;
}

static void write_all(const void *data, size_t length) {
    const char *at = data;
    while (length) {
        ssize_t done = write(port, at, length);
        if (done < 0) {
            if (errno == EINTR || errno == EAGAIN) continue;
            die("writing to the wire");
        }
        at += done;
        length -= (size_t)done;
    }
}

static void open_console(const char *path) {
    struct termios mode;
    port = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (port < 0 || tcgetattr(port, &mode) < 0) die(path);
    cfmakeraw(&mode);
    if (tcsetattr(port, TCSANOW, &mode) < 0) die(path);
    tcflush(port, TCIFLUSH);
    escaping = 1;
}

int wire_open(const char *console) {
    inbox = malloc(MAX_PAYLOAD + sizeof(struct header));
    if (!inbox) die("memory for the wire");
    if (console) {
        open_console(console);
        write_all(WIRE_LINE, strlen(WIRE_LINE));
        return port;
    }
    struct timespec nap = {.tv_nsec = 500 * 1000};
    for (int tries = 0; tries < 20000; tries++) {
        port = find_port();
        if (port >= 0) return port;
        nanosleep(&nap, NULL);
    }
    errno = ENODEV;
    die("no virtio-serial port");
}

void wire_send(uint16_t type, uint16_t stream, const void *payload, size_t length) {
    /* One write a frame: every write is an exit to the host. */
    char small[512], *frame = small;
    size_t size = sizeof(struct header) + length;
    if (size > sizeof small && !(frame = malloc(size))) die("memory for a frame");
    struct header head = {htole32((uint32_t)length), htole16(type), htole16(stream)};
    memcpy(frame, &head, sizeof head);
    if (length) memcpy(frame + sizeof head, payload, length);
    write_all(frame, size);
    if (frame != small) free(frame);
}

void wire_send_failure(uint16_t stream, int error, const char *what) {
    char payload[256];
    uint32_t number = htole32((uint32_t)error);
    size_t length = strnlen(what, sizeof payload - sizeof number);
    memcpy(payload, &number, sizeof number);
    memcpy(payload + sizeof number, what, length);
    wire_send(FRAME_FAILED, stream, payload, sizeof number + length);
}

/* Takes the escapes out of what has come; one may have been cut. Returns the new length. */
static size_t unescape(char *data, size_t length) {
    size_t kept = 0;
    for (size_t i = 0; i < length; i++) {
        if (escape_seen) data[kept++] = data[i] ^ FLIP, escape_seen = 0;
        else if (data[i] == ESCAPE) escape_seen = 1;
        else data[kept++] = data[i];
    }
    return kept;
}

/* A console has no end that says "wait": the host sends no more ahead than what is told here lets it. */
static void tell_taken(size_t more) {
    static uint32_t taken, told;
    taken += (uint32_t)more;
    if (taken - told < TELL_EVERY) return;
    told = taken;
    uint32_t number = htole32(taken);
    wire_send(FRAME_TAKEN, 0, &number, sizeof number);
}

int wire_receive(void (*handle)(uint16_t, uint16_t, char *, size_t)) {
    ssize_t got = read(port, inbox + inbox_used, MAX_PAYLOAD + sizeof(struct header) - inbox_used);
    if (got == 0) return 0;
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    size_t fresh = escaping ? unescape(inbox + inbox_used, (size_t)got) : (size_t)got;
    inbox_used += fresh;
    if (escaping) tell_taken(fresh);
    size_t at = 0;
    while (inbox_used - at >= sizeof(struct header)) {
        struct header head;
        memcpy(&head, inbox + at, sizeof head);
        size_t length = le32toh(head.length);
        if (length > MAX_PAYLOAD) {
            errno = EPROTO;
            die("a frame too long");
        }
        if (inbox_used - at - sizeof head < length) break;
        handle(le16toh(head.type), le16toh(head.stream), inbox + at + sizeof head, length);
        at += sizeof head + length;
    }
    memmove(inbox, inbox + at, inbox_used - at);
    inbox_used -= at;
    return 1;
}
