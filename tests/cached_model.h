/*
 * cached_model.h - real models, which are not part of the tests: each lies below
 * $WARPGROUP_CACHE/models, else ~/.cache/warpgroup/models, or its test is skipped.
 */
#ifndef WGT_CACHED_MODEL_H
#define WGT_CACHED_MODEL_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Where the file `name` would be; false, with a sentence: it is not there. */
static inline bool wgt_cached_model(char path[512], const char *name)
{
    const char *cache = getenv("WARPGROUP_CACHE"), *home = getenv("HOME");

    if (cache && *cache)
        (void)snprintf(path, 512, "%s/models/%s", cache, name);
    else
        (void)snprintf(path, 512, "%s/.cache/warpgroup/models/%s", home ? home : "", name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "skipped: there is no %s\n", path);
        return false;
    }
    (void)fclose(file);
    return true;
}

#endif
