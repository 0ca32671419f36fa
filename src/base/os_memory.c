/*
 * os_memory.c - how much memory the process may still take: the least of four answers.
 *
 *   /proc/meminfo           MemAvailable
 *   cgroup v2, v1           limit - usage + file pages that can be dropped, of every ancestor
 *   RLIMIT_AS, RLIMIT_DATA  limit - what is mapped now
 *
 * Sources: proc(5), the kernel's cgroup-v2 and memory (v1) documents. Files that are absent, as in
 * a container without cgroups, set no limit. `root` lets a test lay out its own /proc and /sys.
 */
#include "base/os_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH_BYTES 4352
#define NO_LIMIT   UINT64_MAX

/* Reads a small file whole into text (NUL-terminated, cut at its size); false when it cannot. */
static bool read_small(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t count = 0;

    if (fd < 0) return false;
    while (count + 1 < bytes) {
        ssize_t got = read(fd, text + count, bytes - 1 - count);
        if (got <= 0) break;
        count += (size_t)got;
    }
    (void)close(fd);
    text[count] = 0;
    return count > 0;
}

/* The number behind "name" at the start of a line, times 1 or (with "kB") 1024; or `missing`. */
static uint64_t field(const char *text, const char *name, uint64_t missing)
{
    size_t name_bytes = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, name, name_bytes) != 0) continue;
        char *end;
        unsigned long long value = strtoull(line + name_bytes, &end, 10);
        if (end == line + name_bytes) return missing;
        return strncmp(end, " kB", 3) == 0 ? value * 1024u : value;
    }
    return missing;
}

static uint64_t file_number(const char *directory, const char *name, uint64_t missing)
{
    char path[PATH_BYTES + 64], text[64];
    char *end;

    int length = snprintf(path, sizeof(path), "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof(path) || !read_small(path, text, sizeof(text)))
        return missing;
    unsigned long long value = strtoull(text, &end, 10);
    return end == text ? missing : value; /* "max" is no number */
}

/* What one cgroup directory still allows. */
static uint64_t cgroup_left(const char *directory, bool is_v2)
{
    char path[PATH_BYTES + 64], stat_text[8192];
    uint64_t limit =
        file_number(directory, is_v2 ? "memory.max" : "memory.limit_in_bytes", NO_LIMIT);
    uint64_t usage = file_number(directory, is_v2 ? "memory.current" : "memory.usage_in_bytes", 0);
    uint64_t droppable = 0;

    if (limit == NO_LIMIT) return NO_LIMIT;
    int length = snprintf(path, sizeof(path), "%s/memory.stat", directory);
    if (length > 0 && (size_t)length < sizeof(path) &&
        read_small(path, stat_text, sizeof(stat_text)))
        droppable = field(stat_text, is_v2 ? "inactive_file " : "total_inactive_file ", 0);
    usage = usage > droppable ? usage - droppable : 0;
    return limit > usage ? limit - usage : 0;
}

/* The least over a group and all its ancestors: `mount` + `group`, then cut at each slash. */
static uint64_t ancestors_left(const char *mount, const char *group, bool is_v2)
{
    char directory[PATH_BYTES];
    uint64_t least = NO_LIMIT;
    size_t mount_bytes = strlen(mount);

    int length = snprintf(directory, sizeof(directory), "%s%s", mount, group);
    if (length < 0 || (size_t)length >= sizeof(directory)) return NO_LIMIT;
    for (;;) {
        uint64_t left = cgroup_left(directory, is_v2);
        if (left < least) least = left;
        char *slash = strrchr(directory, '/');
        if (!slash || (size_t)(slash - directory) < mount_bytes) return least;
        *slash = 0;
    }
}

static bool has_memory_controller(const char *controllers)
{
    for (const char *at = controllers; *at;) {
        size_t length = strcspn(at, ",");
        if (length == 6 && strncmp(at, "memory", 6) == 0) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static uint64_t cgroups_left(const char *root)
{
    char path[PATH_BYTES], text[16384], mount[PATH_BYTES];
    uint64_t least = NO_LIMIT;
    char *next_line;

    int length = snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (length < 0 || (size_t)length >= sizeof(path) || !read_small(path, text, sizeof(text)))
        return NO_LIMIT;
    for (char *line = text; *line; line = next_line) {
        size_t line_bytes = strcspn(line, "\n");
        next_line = line + line_bytes + (line[line_bytes] == '\n');
        line[line_bytes] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        if (strcmp(group, "/") == 0) group = "";

        bool is_v2 = *controllers == 0;
        if (!is_v2 && !has_memory_controller(controllers)) continue;
        const char *mounts[] = {is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory",
                                is_v2 ? "/sys/fs/cgroup/unified" : NULL};
        for (int i = 0; i < 2 && mounts[i]; i++) {
            length = snprintf(mount, sizeof(mount), "%s%s", root, mounts[i]);
            if (length < 0 || (size_t)length >= sizeof(mount)) continue;
            uint64_t left = ancestors_left(mount, group, is_v2);
            if (left < least) least = left;
        }
    }
    return least;
}

static uint64_t limit_left(int resource, const char *status_text, const char *name)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return NO_LIMIT;
    uint64_t used = field(status_text, name, 0);
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

uint64_t wgi_memory_available(const char *root)
{
    char path[PATH_BYTES], text[8192];
    uint64_t least = NO_LIMIT;

    if (!root) root = "";
    int length = snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    if (length > 0 && (size_t)length < sizeof(path) && read_small(path, text, sizeof(text)))
        least = field(text, "MemAvailable:", NO_LIMIT);

    uint64_t left = cgroups_left(root);
    if (left < least) least = left;

    if (!read_small("/proc/self/status", text, sizeof(text))) text[0] = 0;
    left = limit_left(RLIMIT_AS, text, "VmSize:");
    if (left < least) least = left;
    left = limit_left(RLIMIT_DATA, text, "VmData:");
    return left < least ? left : least;
}

static uint64_t own_status(const char *name)
{
    char text[8192];

    return read_small("/proc/self/status", text, sizeof(text)) ? field(text, name, 0) : 0;
}

uint64_t wgi_memory_peak_rss(void)
{
    return own_status("VmHWM:");
}

uint64_t wgi_memory_rss(void)
{
    return own_status("VmRSS:");
}
