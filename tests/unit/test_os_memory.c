/*
 * test_os_memory.c - the cgroup reader on trees laid out by the test: v1, v2, nested, absent.
 */
#include "harness.h"
#include "temporary.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os_memory.h"
#include "base/os_processor.h"

static wgt_folder folder;
static const char *root;

static void put(const char *path, const char *text)
{
    char full[512];

    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        (void)mkdir(full, 0755);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    EXPECT(file != NULL);
    if (!file) return;
    (void)fputs(text, file);
    (void)fclose(file);
}

static void clear(void)
{
    char command[256];

    (void)snprintf(command, sizeof(command), "rm -rf %s/*", root);
    EXPECT_EQ(system(command), 0);
}

/* Data memory of this process so far: a sanitizer takes a lot of it. */
static uint64_t data_now(void)
{
    unsigned long long kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "VmData: %llu kB", &kib) == 1) break;
    }
    if (file) (void)fclose(file);
    return kib * 1024;
}

int main(void)
{
    folder = wgt_folder_open();
    root = folder.path;

    put("/proc/meminfo", "MemTotal:  100 kB\nMemAvailable:   8000000 kB\n");
    EXPECT_EQ(wgi_memory_available(root), 8000000ull * 1024); /* no cgroup file at all */

    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "1000\n");
    EXPECT_EQ(wgi_memory_available(root), 8000000ull * 1024); /* v2 without limit */

    put("/sys/fs/cgroup/a/memory.max", "5000000\n");
    put("/sys/fs/cgroup/a/memory.current", "3000000\n");
    EXPECT_EQ(wgi_memory_available(root), 2000000); /* the parent's limit counts */
    put("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 500000\n");
    EXPECT_EQ(wgi_memory_available(root), 2500000); /* cache can be dropped */
    put("/sys/fs/cgroup/a/b/memory.max", "900000\n");
    EXPECT_EQ(wgi_memory_available(root), 899000);

    clear();
    put("/proc/meminfo", "MemAvailable:   8000000 kB\n");
    put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job/1\n0::/\n");
    put("/sys/fs/cgroup/memory/job/1/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "7000000\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "7500000\n");
    EXPECT_EQ(wgi_memory_available(root), 0); /* over the limit already */
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "6000000\n");
    EXPECT_EQ(wgi_memory_available(root), 1000000);
    put("/proc/self/cgroup", "4:memoryless:/job/1\n");
    EXPECT_EQ(wgi_memory_available(root), 8000000ull * 1024); /* another controller */

    struct rlimit limit;
    EXPECT_EQ(getrlimit(RLIMIT_DATA, &limit), 0);
    limit.rlim_cur = data_now() + (1ull << 30);
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    EXPECT(wgi_memory_available(root) <= (1ull << 30));
    EXPECT(wgi_memory_available(root) > (1ull << 29));

    EXPECT(wgi_memory_peak_rss() > 100000);
    EXPECT(wgi_memory_rss() <= wgi_memory_peak_rss());
    char name[64];
    EXPECT(wgi_core_count() >= 1);
    wgi_processor_name(name, sizeof(name));
    EXPECT(strlen(name) > 2);
    wgt_folder_close(&folder);
    return wgt_result();
}
