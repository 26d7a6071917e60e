/* A hostile machine's first process: it stands where the agent should, and says what /manner asks for.
 *
 * The frames are those of src/pytest_vperf/targets/agent/source/agent.h; nothing here is shared with the agent, for a
 * mistake that both made would not be seen.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { START = 1, EXEC, INPUT, KILL, WRITE, READ };
enum { READY = 16, RUNNING, OUTPUT, ERRORS, EXIT, FAILED };
#define ESCAPES "\033]0;owned\007\033[2J\233" "31m\xe2\x80\xae"
#define BLOCK 65536

static int port;
static char block[BLOCK];

static void __attribute__((noreturn)) end(const char *what) {
    dprintf(2, "hostile guest: %s: %s\n", what, strerror(errno));
    reboot(RB_AUTOBOOT);
    for (;;) pause();
}

static void nap(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void put(const void *data, size_t length) {
    const char *at = data;
    while (length) {
        ssize_t done = write(port, at, length);
        if (done < 0 && errno != EAGAIN && errno != EINTR) end("port");
        if (done > 0) at += done, length -= (size_t)done;
    }
}

static void header(uint32_t length, uint16_t type, uint16_t stream) {
    uint32_t first = htole32(length);
    uint16_t rest[2] = {htole16(type), htole16(stream)};
    char bytes[8];
    memcpy(bytes, &first, 4);
    memcpy(bytes + 4, rest, 4);
    put(bytes, sizeof bytes);
}

static void frame(uint16_t type, uint16_t stream, const void *payload, size_t length) {
    header((uint32_t)length, type, stream);
    put(payload, length);
}

static void number(uint16_t type, uint16_t stream, uint32_t value, const char *words) {
    char payload[256];
    uint32_t first = htole32(value);
    size_t length = strlen(words);
    memcpy(payload, &first, 4);
    memcpy(payload + 4, words, length);
    frame(type, stream, payload, 4 + length);
}

static void __attribute__((noreturn)) flood(uint16_t stream) {
    for (;;) frame(OUTPUT, stream, block, BLOCK);
}

/* Frames that cost 8 bytes each here, and the host far more: it is never done with them. */
static void __attribute__((noreturn)) crumbs(uint16_t stream) {
    uint32_t length = 0;
    uint16_t type = htole16(OUTPUT);
    stream = htole16(stream);
    for (size_t at = 0; at + 8 <= BLOCK; at += 8) {
        memcpy(block + at, &length, 4);
        memcpy(block + at + 4, &type, 2);
        memcpy(block + at + 6, &stream, 2);
    }
    for (;;) put(block, BLOCK / 8 * 8);
}

static void __attribute__((noreturn)) silence(void) {
    for (;;) pause();
}

static void load_modules(void) {
    FILE *order = fopen("/modules/order", "re");
    char name[128], path[160];
    while (order && fgets(name, sizeof name, order)) {
        name[strcspn(name, "\n")] = '\0';
        snprintf(path, sizeof path, "/modules/%s", name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0 || (syscall(SYS_finit_module, file, "", 0) < 0 && errno != EEXIST)) end(path);
        close(file);
    }
    if (order) fclose(order);
}

/* What it does before a container would run; it comes back where it goes on to serve. */
static void come_up(const char *manner) {
    struct utsname system;
    uname(&system);
    if (!strcmp(manner, "silent")) silence();
    if (!strcmp(manner, "console")) for (;;) dprintf(1, "still coming up %s\n", ESCAPES);
    if (!strcmp(manner, "flood")) flood(9);
    if (!strcmp(manner, "long")) header(0xffffffff, READY, 0), silence();
    if (!strcmp(manner, "cut")) header(1000, READY, 0), put(block, 10), silence();
    if (!strcmp(manner, "unknown")) header(0, 99, 0), silence();
    if (!strcmp(manner, "escapes")) dprintf(1, "%s\n", ESCAPES), number(FAILED, 1, ENOENT, ESCAPES), silence();
    if (!strcmp(manner, "errno")) number(FAILED, 1, 0x80000000, "no such luck"), silence();
    if (!strcmp(manner, "bare")) frame(FAILED, 1, "", 0), silence();
    frame(READY, 0, system.release, strlen(system.release));
    if (!strcmp(manner, "ready-flood")) flood(1);
    if (!strcmp(manner, "ready-crumbs")) crumbs(9);
    if (!strcmp(manner, "ready-again")) for (;;) frame(READY, 0, system.release, strlen(system.release));
    frame(RUNNING, 1, "", 0);
}

/* What it does when it is asked to run something: the command says what. */
static void obey(uint16_t type, uint16_t stream, const char *payload) {
    if (type == READ) flood(stream);
    if (type != EXEC) return;
    const char *command = payload + strlen(payload) + 1; /* the folder, the count, the words */
    command += strlen(command) + 1;
    frame(RUNNING, stream, "", 0);
    if (!strcmp(command, "flood")) flood(stream);
    else if (!strcmp(command, "flood-another")) flood((uint16_t)(stream + 1));
    else if (!strcmp(command, "crumbs")) crumbs(stream);
    else if (!strcmp(command, "trickle")) for (;;) frame(OUTPUT, stream, ".", 1), nap(10);
    else if (!strcmp(command, "empty-frames")) for (;;) frame(OUTPUT, stream, "", 0);
    else if (!strcmp(command, "errno")) number(FAILED, stream, 0x80000000, "no such luck");
    else if (!strcmp(command, "status")) number(EXIT, stream, 0xffffffff, "");
    else if (!strcmp(command, "bare-exit")) frame(EXIT, stream, "", 0);
    else if (!strcmp(command, "bare-failed")) frame(FAILED, stream, "", 0);
    else if (!strcmp(command, "escapes")) frame(ERRORS, stream, ESCAPES, strlen(ESCAPES)), number(EXIT, stream, 3, "");
    else if (!strcmp(command, "ends-again")) {
        for (uint32_t status = 0; status < 5; status++) number(EXIT, stream, status, "");
        for (uint16_t other = 0; other < 8; other++) number(EXIT, other, 7, "");
    } else if (!strcmp(command, "silent")) silence();
    else if (!strcmp(command, "die")) reboot(RB_AUTOBOOT);
    else number(EXIT, stream, 0, "");
}

static void serve(void) {
    static char inbox[1 << 20];
    size_t used = 0;
    for (;;) {
        ssize_t got = read(port, inbox + used, sizeof inbox - used);
        if (got == 0) end("the host has hung up");
        if (got < 0) continue;
        used += (size_t)got;
        while (used >= 8) {
            uint32_t length;
            uint16_t type, stream;
            memcpy(&length, inbox, 4);
            memcpy(&type, inbox + 4, 2);
            memcpy(&stream, inbox + 6, 2);
            length = le32toh(length);
            if (used < 8 + length) break;
            obey(le16toh(type), le16toh(stream), inbox + 8);
            memmove(inbox, inbox + 8 + length, used -= 8 + length);
        }
    }
}

int main(void) {
    char manner[64] = "";
    memset(block, 'x', sizeof block);
    dprintf(2, "vperf-agent: up\n"); /* the line that ends the phase of the kernel */
    mkdir("/dev", 0755);
    if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL) < 0 && errno != EBUSY) end("/dev");
    load_modules();
    int file = open("/manner", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, manner, sizeof manner - 1) < 0) end("/manner");
    close(file);
    /* The driver makes the node some time after it is loaded. */
    for (int tries = 0; tries < 1000 && (port = open("/dev/vport0p1", O_RDWR | O_CLOEXEC)) < 0; tries++) {
        for (int bus = 1; bus < 9 && port < 0; bus++) {
            char path[32];
            snprintf(path, sizeof path, "/dev/vport%dp1", bus);
            port = open(path, O_RDWR | O_CLOEXEC);
        }
        if (port >= 0) break;
        nap(5);
    }
    if (port < 0) end("the port");
    come_up(manner);
    serve();
}
