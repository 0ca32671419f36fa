/*
 * walk.h - the inputs as a row of files: directories are opened up, in byte order of path.
 */
#ifndef WGI_WALK_H
#define WGI_WALK_H

#include <stdbool.h>

#include "base/os_dir.h"
#include "corpus/reading.h"

/* One file to read, or a place that cannot be read. */
typedef struct wgi_entry {
    char *path;    /* as given, or directory + '/' + name; "-" is standard input */
    bool is_named; /* by the caller, not found in a directory */
    bool is_stdin;
    bool is_regular; /* a plain file when it was looked at */
    uint64_t bytes;  /* its size then */
    bool is_fault;   /* cannot be read: `reason` says why */
    char reason[200];
} wgi_entry;

typedef struct wgi_walk wgi_walk;

wg_status wgi_walk_open(wgi_walk **out, wgi_reading *reading, wg_error *err);
/* Next entry, to be ended with wgi_entry_fini; *has_entry is false after the last. */
wg_status wgi_walk_next(wgi_walk *walk, wgi_entry *entry, bool *has_entry, wg_error *err);
void wgi_walk_close(wgi_walk *walk);
void wgi_entry_fini(wgi_entry *entry);

#endif
