/* The container: a read-only image, a writable layer in memory, and namespaces of its own. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

pid_t container_pid;

#define TRY(step, call)                                                                            \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            *what = (step);                                                                        \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

/* What a container's root is made of, in the agent's own mounts: image, layer in memory, and both together. */
struct root {
    char disk[80], image[24], layer[24], whole[24];
};

static struct root current;
static char releasing[80]; /* the disk of the container before, until nothing has it open */

/* The disk that the host named; else the first one, under QEMU or Xen, whose driver finds it some time after it was
 * loaded. */
static const char *image_disk(void) {
    const char *named = disk_asked_for();
    if (named) return named;
    for (int tries = 0; tries < 10000; tries++) {
        if (disk_opens("/dev/vda")) return "/dev/vda";
        if (disk_opens("/dev/xvda")) return "/dev/xvda";
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return "/dev/vda";
}

static int mount_root(struct root *root, const char **what) {
    static unsigned number;
    char path[64], options[160];
    snprintf(root->disk, sizeof root->disk, "%s", image_disk());
    snprintf(root->image, sizeof root->image, "/image%u", number);
    snprintf(root->layer, sizeof root->layer, "/layer%u", number);
    snprintf(root->whole, sizeof root->whole, "/root%u", number++);
    mkdir(root->image, 0755);
    mkdir(root->layer, 0755);
    mkdir(root->whole, 0755);
    TRY("mount the image (squashfs on its disk)",
        mount(root->disk, root->image, "squashfs", MS_RDONLY | MS_NODEV, NULL));
    TRY("mount the writable layer", mount("tmpfs", root->layer, "tmpfs", MS_NODEV, "mode=755"));
    snprintf(path, sizeof path, "%s/upper", root->layer);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/work", root->layer);
    mkdir(path, 0755);
    snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s/upper,workdir=%s/work", root->image,
             root->layer, root->layer);
    TRY("mount the overlay", mount("overlay", root->whole, "overlay", MS_NODEV, options));
    return 0;
}

/* Its first process takes all the others along (pid_namespaces(7)), but waits for those whose parent is the agent. */
static void end_processes(void) {
    int status;
    if (container_pid) kill(container_pid, SIGKILL);
    while (container_pid) {
        pid_t pid = waitpid(-1, &status, 0);
        if (pid > 0) process_reaped(pid, status);
        else if (errno != EINTR) die("waiting for the container's end");
    }
}

static int unmount_root(const struct root *root, const char **what) {
    TRY("unmount the overlay of the container before", umount2(root->whole, 0));
    TRY("unmount the layer of the container before", umount2(root->layer, 0));
    TRY("unmount the image of the container before", umount2(root->image, 0));
    rmdir(root->whole);
    rmdir(root->layer);
    rmdir(root->image);
    return 0;
}

int container_prepare(const char **what) {
    struct root next, before = current;
    if (mount_root(&next, what) < 0) return -1;
    if (before.disk[0]) {
        end_processes();
        /* Before the next namespaces are made: they get a copy of every mount that is still there. */
        if (unmount_root(&before, what) < 0) return -1;
        memcpy(releasing, before.disk, sizeof releasing);
    }
    current = next;
    return 0;
}

int container_releasing(void) { return releasing[0] != '\0'; }

void container_look(void) {
    /* A disk with a mounted file system cannot be opened for oneself alone, wherever it is mounted (open(2), O_EXCL). */
    int file = open(releasing, O_RDONLY | O_EXCL | O_CLOEXEC);
    if (file < 0 && errno == EBUSY) return;
    if (file >= 0) close(file);
    wire_send(FRAME_RELEASED, 0, releasing, strlen(releasing));
    releasing[0] = '\0';
}

static int device(const char *path, unsigned major_number, unsigned minor_number) {
    if (mknod(path, S_IFCHR | 0666, makedev(major_number, minor_number)) < 0) return -1;
    return chmod(path, 0666); /* mknod obeys the umask */
}

static int fill_dev(const char **what) {
    TRY("mount /dev", mount("tmpfs", "dev", "tmpfs", MS_NOSUID, "mode=755,size=65536k"));
    TRY("make /dev/null", device("dev/null", 1, 3));
    TRY("make /dev/zero", device("dev/zero", 1, 5));
    TRY("make /dev/full", device("dev/full", 1, 7));
    TRY("make /dev/random", device("dev/random", 1, 8));
    TRY("make /dev/urandom", device("dev/urandom", 1, 9));
    TRY("make /dev/tty", device("dev/tty", 5, 0));
    TRY("make /dev/pts", mkdir("dev/pts", 0755));
    TRY("mount /dev/pts", mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                                "newinstance,ptmxmode=0666,mode=0620"));
    TRY("make /dev/ptmx", symlink("pts/ptmx", "dev/ptmx"));
    TRY("make /dev/shm", mkdir("dev/shm", 01777));
    TRY("mount /dev/shm", mount("shm", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777"));
    TRY("make /dev/mqueue", mkdir("dev/mqueue", 01777));
    /* A kernel need not have message queues. */
    if (mount("mqueue", "dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 && errno != ENODEV) {
        *what = "mount /dev/mqueue";
        return -1;
    }
    TRY("make /dev/fd", symlink("/proc/self/fd", "dev/fd"));
    TRY("make /dev/stdin", symlink("/proc/self/fd/0", "dev/stdin"));
    TRY("make /dev/stdout", symlink("/proc/self/fd/1", "dev/stdout"));
    TRY("make /dev/stderr", symlink("/proc/self/fd/2", "dev/stderr"));
    return 0;
}

int container_enter_new(const char **what) {
    TRY("make mounts private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    TRY("enter the image", chdir(current.whole));
    /* An image need not have these; the overlay lets them be made. */
    mkdir("proc", 0555);
    mkdir("sys", 0555);
    mkdir("dev", 0755);
    TRY("mount /proc", mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
    TRY("mount /sys", mount("sysfs", "sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL));
    if (fill_dev(what) < 0) return -1;
    /* The first root is an initramfs, which cannot be pivoted away: it is covered, as switch_root does. */
    TRY("move the image to /", mount(".", "/", NULL, MS_MOVE, NULL));
    TRY("change the root", chroot("."));
    TRY("enter the root", chdir("/"));
    TRY("name the host", sethostname("pod", 3));
    return 0;
}

static int open_namespace(pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int join_namespace(pid_t pid, const char *name, int flag) {
    int file = open_namespace(pid, name);
    if (file < 0) return -1;
    int result = setns(file, flag);
    close(file);
    return result;
}

int container_aim(const char **what) {
    if (whole_machine) return 0;
    if (!container_pid) {
        errno = ESRCH;
        *what = "find the container: its process has ended";
        return -1;
    }
    TRY("aim at the container's processes", join_namespace(container_pid, "pid", CLONE_NEWPID));
    return 0;
}

void container_leave(void) {
    if (whole_machine) return;
    if (join_namespace(1, "pid", CLONE_NEWPID) < 0) die("leaving the container's processes");
}

int container_join(const char **what) {
    if (whole_machine) return 0;
    TRY("join the container's host name", join_namespace(container_pid, "uts", CLONE_NEWUTS));
    TRY("join the container's IPC", join_namespace(container_pid, "ipc", CLONE_NEWIPC));
    /* Last, because it takes /proc away; it also moves the root to the container's. */
    TRY("join the container's files", join_namespace(container_pid, "mnt", CLONE_NEWNS));
    TRY("enter the root", chdir("/"));
    return 0;
}
