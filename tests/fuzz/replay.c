/*
 * replay.c - runs a fuzz target over files and folders given as arguments, without an engine, so
 * that the corpus of every target is replayed in the quick tier with any compiler.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static int replayed;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t count = 0, capacity = 0;

    if (!file) {
        perror(path);
        exit(1);
    }
    for (;;) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 4096;
            bytes = realloc(bytes, capacity);
            if (!bytes) exit(1);
        }
        size_t got = fread(bytes + count, 1, capacity - count, file);
        if (got == 0) break;
        count += got;
    }
    (void)fclose(file);
    /* An allocation of the exact size lets a sanitizer see one byte too many. */
    uint8_t *exact = malloc(count ? count : 1);
    if (!exact) exit(1);
    if (count) memcpy(exact, bytes, count);
    (void)LLVMFuzzerTestOneInput(exact, count);
    free(exact);
    free(bytes);
    replayed++;
}

static void replay(const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        perror(path);
        exit(1);
    }
    if (!S_ISDIR(info.st_mode)) {
        replay_file(path);
        return;
    }
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char inside[4096];
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(inside, sizeof(inside), "%s/%s", path, entry->d_name);
        replay(inside);
    }
    if (folder) (void)closedir(folder);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    fprintf(stderr, "%d inputs replayed\n", replayed);
    return replayed > 0 ? 0 : 1;
}
