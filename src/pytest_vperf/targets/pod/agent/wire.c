/* The virtio-serial port and its frames. */
#define _GNU_SOURCE
#include "agent.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct header {
    uint32_t length;
    uint16_t type, stream;
} __attribute__((packed));

static int port = -1;
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

int wire_open(void) {
    struct timespec nap = {.tv_nsec = 500 * 1000};
    for (int tries = 0; tries < 20000; tries++) {
        port = find_port();
        if (port >= 0) {
            inbox = malloc(MAX_PAYLOAD + sizeof(struct header));
            if (!inbox) die("memory for the wire");
            return port;
        }
        nanosleep(&nap, NULL);
    }
    errno = ENODEV;
    die("no virtio-serial port");
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

int wire_receive(void (*handle)(uint16_t, uint16_t, char *, size_t)) {
    ssize_t got = read(port, inbox + inbox_used, MAX_PAYLOAD + sizeof(struct header) - inbox_used);
    if (got == 0) return 0;
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    inbox_used += (size_t)got;
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
