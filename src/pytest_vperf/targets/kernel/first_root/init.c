/* First process of a machine that has its root on a disk: loads drivers, mounts the disk, becomes its init.
 *
 * A distribution's initramfs does the same for any machine; this one knows its machine, and takes a few
 * milliseconds. It reads root=, rootfstype=, ro, rw and init= of the kernel's command line (Linux
 * documentation, admin-guide/kernel-parameters), and says on the console what went wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* An emulated disk may take a while; one that is not there must not hold the machine for ever. */
#define PATIENCE_MS 30000

static void die(const char *what) {
    dprintf(2, "vperf-init: error: %s: %s\n", what, strerror(errno));
    sync();
    reboot(RB_AUTOBOOT);
    for (;;) pause();
}

static void mount_or_die(const char *type, const char *where) {
    mkdir(where, 0755);
    if (mount(type, where, type, MS_NOSUID, NULL) < 0 && errno != EBUSY) die(where);
}

static void load_modules(void) {
    FILE *order = fopen("/modules/order", "re");
    char name[128], path[160];
    if (!order) return; /* a kernel with everything built in */
    while (fgets(name, sizeof name, order)) {
        name[strcspn(name, "\n")] = '\0';
        snprintf(path, sizeof path, "/modules/%s", name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) die(path);
        if (syscall(SYS_finit_module, file, "", 0) < 0 && errno != EEXIST) die(path);
        close(file);
    }
    fclose(order);
}

static char line[4096];

/* The value of NAME=VALUE on the command line, the last one as in the kernel; or `otherwise`. */
static const char *parameter(const char *name, const char *otherwise) {
    static char copy[sizeof line];
    const char *found = NULL;
    size_t length = strlen(name);
    strcpy(copy, line);
    for (char *word = strtok(copy, " \n"); word; word = strtok(NULL, " \n"))
        if (!strncmp(word, name, length) && word[length] == '=') found = word + length + 1;
    return found ? strdup(found) : otherwise;
}

static int has_word(const char *name) {
    static char copy[sizeof line];
    int found = 0;
    strcpy(copy, line);
    for (char *word = strtok(copy, " \n"); word; word = strtok(NULL, " \n"))
        if (!strcmp(word, name)) found = 1;
    return found;
}

int main(void) {
    /* The host dates the kernel's end by this line. */
    dprintf(2, "vperf-init: up\n");
    mount_or_die("devtmpfs", "/dev");
    mount_or_die("proc", "/proc");
    load_modules();
    int file = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, line, sizeof line - 1) < 0) die("/proc/cmdline");
    close(file);

    const char *device = parameter("root", "/dev/vda");
    const char *type = parameter("rootfstype", "ext4");
    const char *init = parameter("init", "/sbin/init");
    unsigned long flags = has_word("ro") ? MS_RDONLY : 0;

    /* A driver finds its disks after it was loaded; the node appears when it has. */
    for (int waited = 0; access(device, F_OK) < 0; waited += 2) {
        if (waited >= PATIENCE_MS) die(device);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    mkdir("/root", 0755);
    if (mount(device, "/root", type, flags, NULL) < 0) die(device);
    if (mount("/dev", "/root/dev", NULL, MS_MOVE, NULL) < 0) die("/root/dev");
    umount2("/proc", MNT_DETACH);

    /* The first root cannot be unmounted: what is in it is removed, and the disk is put over it (switch_root(8)). */
    unlink("/init");
    if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
        die("/root");
    char *words[] = {(char *)init, NULL};
    execv(init, words);
    die(init);
}
