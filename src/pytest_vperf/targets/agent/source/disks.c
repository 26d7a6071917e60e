/* Disks that are plugged into the machine while it runs: the kernel tells of them, their serial numbers tell them apart. */
#define _GNU_SOURCE
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERIAL_ROOM 32 /* a virtio disk's serial number has 20 bytes at most */
#define LIMIT_MS 60000 /* the host's own time limit ends it before */

static char wanted[SERIAL_ROOM], found[80];
static uint16_t asker;
static int events = -1;

/* The kernel's own events (group 1 of NETLINK_KOBJECT_UEVENT): a disk's comes when its node is in /dev. */
static int listen_to_kernel(void) {
    struct sockaddr_nl all = {.nl_family = AF_NETLINK, .nl_groups = 1};
    if (events >= 0) return 0;
    mkdir("/sys", 0555);
    if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL) < 0 && errno != EBUSY)
        return -1;
    events = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (events < 0) return -1;
    if (bind(events, (struct sockaddr *)&all, sizeof all) < 0) {
        close(events);
        events = -1;
        return -1;
    }
    return 0;
}

static int has_serial(const char *name) {
    char path[300], serial[SERIAL_ROOM];
    snprintf(path, sizeof path, "/sys/block/%.200s/serial", name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t got = read(file, serial, sizeof serial - 1);
    close(file);
    if (got <= 0) return 0;
    serial[got] = '\0';
    serial[strcspn(serial, "\n")] = '\0';
    return !strcmp(serial, wanted);
}

int disk_opens(const char *node) {
    int file = open(node, O_RDONLY | O_CLOEXEC);
    if (file >= 0) close(file);
    return file >= 0;
}

void disk_await(uint16_t stream, const char *serial, size_t length) {
    found[0] = '\0';
    snprintf(wanted, sizeof wanted, "%.*s", (int)strnlen(serial, length), serial);
    asker = stream;
    /* Listened to before the first look: what comes between the two is seen by one of them. */
    if (whole_machine || listen_to_kernel() < 0) {
        wire_send_failure(stream, errno, "listen to the kernel's events");
        wanted[0] = '\0';
        return;
    }
    disk_look();
}

int disk_events(void) { return wanted[0] && !found[0] ? events : -1; }

int disk_look(void) {
    static char ignored[4096];
    if (!wanted[0] || found[0]) return found[0] != '\0';
    while (recv(events, ignored, sizeof ignored, 0) > 0 || errno == ENOBUFS) errno = 0;
    DIR *blocks = opendir("/sys/block");
    struct dirent *item;
    while (blocks && (item = readdir(blocks)))
        if (item->d_name[0] != '.' && has_serial(item->d_name)) {
            char node[sizeof found];
            snprintf(node, sizeof node, "/dev/%.64s", item->d_name);
            if (disk_opens(node)) memcpy(found, node, sizeof found);
        }
    if (blocks) closedir(blocks);
    if (!found[0]) return 0;
    wire_send(FRAME_DISK, asker, found, strlen(found));
    return 1;
}

const char *disk_asked_for(void) {
    if (!wanted[0]) return NULL;
    while (!disk_look()) {
        struct pollfd kernel = {.fd = events, .events = POLLIN};
        int ready = poll(&kernel, 1, LIMIT_MS);
        if (ready == 0 || (ready < 0 && errno != EINTR)) return "";
    }
    return found;
}
