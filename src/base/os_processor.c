/*
 * os_processor.c - cores and name of the processor; sched_getaffinity(2), proc(5).
 */
#include "base/os_processor.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint32_t wgi_core_count(void)
{
    cpu_set_t set; /* up to 1,024 cores; more is answered by the number online */

    if (sched_getaffinity(0, sizeof(set), &set) == 0) return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

void wgi_processor_name(char *out, size_t bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    (void)snprintf(out, bytes, "unknown processor");
    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon[strcspn(colon, "\n")] = 0;
        (void)snprintf(out, bytes, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
        break;
    }
    if (file) (void)fclose(file);
}
