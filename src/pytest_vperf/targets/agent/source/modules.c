/* Loads the drivers that the host packed beside the agent. */
#define _GNU_SOURCE
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void load_modules(void) {
    FILE *order = fopen("/modules/order", "re");
    if (!order) {
        if (errno == ENOENT) return; /* a kernel with everything built in */
        die("/modules/order");
    }
    char name[128], path[160];
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
