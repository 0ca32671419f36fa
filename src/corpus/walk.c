/*
 * walk.c - inputs become files; see walk.h.
 *
 * A stack of listed directories, one frame a level, so the walk is lazy: the first file of a tree
 * of millions is read at once. Symbolic links are followed. Within one input every real file and
 * every real directory (device and inode) is met once, under the first path that leads to it; a
 * directory met again (a loop) and a link that leads nowhere are warnings. A file named twice by
 * the caller is read twice: that was asked for.
 *
 * In a directory the suffix decides what is a document; the rest is counted and passed over. What
 * the caller named is never passed over.
 *
 * Threads: the reader's own.
 */
#include "corpus/walk.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os_read.h"
#include "corpus/format.h"

/* A directory on the way; path_count is its length in walk->path, without the last '/'. */
typedef struct frame {
    wgi_dir dir;
    size_t next;
    size_t path_count;
} frame;

typedef struct identity {
    uint64_t device, inode;
} identity;

struct wgi_walk {
    wgi_reading *reading;
    size_t next_input;
    frame *frames;
    size_t frame_count, frame_capacity;
    wgi_buf path; /* of the innermost directory */
    wgi_buf quoted;
    identity *seen; /* open addressing, inode 0 and device 0 is empty */
    size_t seen_count, seen_capacity;
};

static size_t identity_slot(const wgi_walk *walk, identity id)
{
    uint64_t mixed = (id.inode + id.device * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    size_t slot = (size_t)(mixed >> 20) & (walk->seen_capacity - 1);

    while ((walk->seen[slot].inode || walk->seen[slot].device) &&
           (walk->seen[slot].inode != id.inode || walk->seen[slot].device != id.device))
        slot = (slot + 1) & (walk->seen_capacity - 1);
    return slot;
}

/* Twice the room once it is half full, so that a probe is short. */
static wg_status seen_grow(wgi_walk *walk, wg_error *err)
{
    identity *old = walk->seen;
    size_t old_capacity = walk->seen_capacity;

    if (walk->seen_count * 2 < old_capacity) return WG_OK;
    size_t capacity = old_capacity ? old_capacity * 2 : 64;
    identity *grown = wgi_calloc(capacity, sizeof(*grown));
    if (!grown) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory to remember %zu files", capacity);
    walk->seen = grown;
    walk->seen_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].inode || old[i].device) walk->seen[identity_slot(walk, old[i])] = old[i];
    }
    wgi_free(old);
    return WG_OK;
}

static wg_status seen_add(wgi_walk *walk, const wgi_path_info *info, bool *was_there, wg_error *err)
{
    identity id = {info->device, info->inode};
    wg_status status = seen_grow(walk, err);

    if (status != WG_OK) return status;
    size_t slot = identity_slot(walk, id);
    *was_there = walk->seen[slot].inode || walk->seen[slot].device;
    if (!*was_there) {
        walk->seen[slot] = id;
        walk->seen_count++;
    }
    return WG_OK;
}

/* Says something about walk->path; warnings are counted too. */
static wg_status say(wgi_walk *walk, wg_log_level level, const char *text, wg_error *err)
{
    walk->quoted.count = 0;
    wg_status status = wgi_path_quote(&walk->quoted, walk->path.data, err);

    if (status != WG_OK) return status;
    if (level == WG_LOG_WARNING)
        wgi_reading_warn(walk->reading, &walk->quoted, WG_PLACE_NONE, 0, "%s", text);
    else
        wgi_log(level, "%s: %s", walk->quoted.data, text);
    return WG_OK;
}

static wg_status entry_make(wgi_entry *entry, const char *path, bool is_named, wg_error *err)
{
    *entry = (wgi_entry){.path = wgi_strdup(path), .is_named = is_named};
    if (!entry->path) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a path");
    return WG_OK;
}

/* Lists the directory at walk->path and stands before its first item; a directory that cannot be
 * listed becomes an entry that says so. */
static wg_status directory_enter(wgi_walk *walk, bool is_named, wgi_entry *entry, bool *has_entry,
                                 wg_error *err)
{
    wg_status status = WG_OK;
    wg_error why;
    frame entered = {.path_count = walk->path.count};

    while (entered.path_count > 0 && walk->path.data[entered.path_count - 1] == '/')
        entered.path_count--;
    WGI_TRY(wgi_grow(&walk->frames, &walk->frame_capacity, walk->frame_count + 1,
                     sizeof(*walk->frames), err));
    status = wgi_dir_list(&entered.dir, walk->path.data, &why);
    if (status == WG_ERR_IO) {
        WGI_TRY(entry_make(entry, walk->path.data, is_named, err));
        entry->is_fault = true;
        (void)snprintf(entry->reason, sizeof(entry->reason), "%.*s", 190, why.message);
        *has_entry = true;
        goto cleanup;
    }
    if (status != WG_OK) {
        (void)wgi_fail(err, status, "%s", why.message);
        goto cleanup;
    }
    walk->frames[walk->frame_count++] = entered; /* ownership leaves here, only here */
    entered.dir = (wgi_dir){0};

cleanup:
    wgi_dir_fini(&entered.dir);
    return status;
}

/* What stands at walk->path inside a directory: a file to read, a directory to enter, or nothing.
 */
static wg_status item_visit(wgi_walk *walk, wgi_entry *entry, bool *has_entry, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_path_info info;
    wg_error why;
    char text[700];
    bool was_there;

    if (wgi_path_look(walk->path.data, &info, &why) != WG_OK) {
        (void)snprintf(text, sizeof(text), "passed over: %s", why.message);
        WGI_TRY(say(walk, WG_LOG_WARNING, text, err));
        goto cleanup;
    }
    if (info.kind == WGI_PATH_FILE && !wgi_format_is_document(walk->path.data)) {
        walk->reading->counts.files_skipped++;
        WGI_TRY(say(walk, WG_LOG_DEBUG, "passed over: its kind is not known", err));
        goto cleanup;
    }
    if (info.kind == WGI_PATH_OTHER) {
        WGI_TRY(say(walk, WG_LOG_WARNING, "passed over: neither a file nor a directory", err));
        goto cleanup;
    }
    WGI_TRY(seen_add(walk, &info, &was_there, err));
    if (info.kind == WGI_PATH_DIRECTORY) {
        if (was_there)
            WGI_TRY(say(walk, WG_LOG_WARNING,
                        "passed over: this directory was met before (a loop of links?)", err));
        else
            WGI_TRY(directory_enter(walk, false, entry, has_entry, err));
        goto cleanup;
    }
    if (was_there) {
        WGI_TRY(say(walk, WG_LOG_INFO, "passed over: this file was met before", err));
        goto cleanup;
    }
    WGI_TRY(entry_make(entry, walk->path.data, false, err));
    entry->is_regular = true;
    entry->bytes = info.bytes;
    *has_entry = true;

cleanup:
    return status;
}

/* The next item of the innermost directory, or one level up. */
static wg_status frame_step(wgi_walk *walk, wgi_entry *entry, bool *has_entry, wg_error *err)
{
    wg_status status = WG_OK;
    frame *inner = &walk->frames[walk->frame_count - 1];

    if (inner->next == inner->dir.count) {
        wgi_dir_fini(&inner->dir);
        walk->frame_count--;
        goto cleanup;
    }
    walk->path.count = inner->path_count;
    WGI_TRY(wgi_buf_text(&walk->path, "/", err));
    WGI_TRY(wgi_buf_text(&walk->path, inner->dir.items[inner->next++].name, err));
    WGI_TRY(item_visit(walk, entry, has_entry, err));

cleanup:
    return status;
}

/* The next thing that the caller named. */
static wg_status input_step(wgi_walk *walk, wgi_entry *entry, bool *has_entry, wg_error *err)
{
    wg_status status = WG_OK;
    const char *input = walk->reading->options.inputs[walk->next_input++];
    wgi_path_info info = {0};
    wg_error why;
    bool was_there;

    if (strcmp(input, "-") == 0) {
        WGI_TRY(entry_make(entry, input, true, err));
        entry->is_stdin = true;
        *has_entry = true;
        goto cleanup;
    }
    wg_status looked = wgi_path_look(input, &info, &why);
    if (looked == WG_OK && info.kind == WGI_PATH_DIRECTORY) {
        walk->seen_count = 0;
        if (walk->seen) memset(walk->seen, 0, walk->seen_capacity * sizeof(*walk->seen));
        walk->path.count = 0;
        WGI_TRY(wgi_buf_text(&walk->path, input, err));
        WGI_TRY(seen_add(walk, &info, &was_there, err));
        WGI_TRY(directory_enter(walk, true, entry, has_entry, err));
        goto cleanup;
    }
    WGI_TRY(entry_make(entry, input, true, err));
    entry->is_fault = looked != WG_OK;
    if (looked != WG_OK)
        (void)snprintf(entry->reason, sizeof(entry->reason), "%.190s", why.message);
    entry->is_regular = looked == WG_OK && info.kind == WGI_PATH_FILE;
    entry->bytes = entry->is_regular ? info.bytes : 0;
    *has_entry = true;

cleanup:
    return status;
}

wg_status wgi_walk_open(wgi_walk **out, wgi_reading *reading, wg_error *err)
{
    *out = wgi_calloc(1, sizeof(**out));
    if (!*out) return wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for the list of inputs");
    (*out)->reading = reading;
    return WG_OK;
}

wg_status wgi_walk_next(wgi_walk *walk, wgi_entry *entry, bool *has_entry, wg_error *err)
{
    wg_status status = WG_OK;

    *has_entry = false;
    while (!*has_entry) {
        if (wgi_stop_is_raised(walk->reading->stop_fd))
            return wgi_fail(err, WG_ERR_INTERRUPTED, "reading was stopped");
        if (walk->frame_count > 0)
            status = frame_step(walk, entry, has_entry, err);
        else if (walk->next_input < walk->reading->options.input_count)
            status = input_step(walk, entry, has_entry, err);
        else
            break;
        if (status != WG_OK) break;
    }
    return status;
}

void wgi_walk_close(wgi_walk *walk)
{
    if (!walk) return;
    for (size_t i = 0; i < walk->frame_count; i++)
        wgi_dir_fini(&walk->frames[i].dir);
    wgi_free(walk->frames);
    wgi_free(walk->seen);
    wgi_buf_fini(&walk->path);
    wgi_buf_fini(&walk->quoted);
    wgi_free(walk);
}

void wgi_entry_fini(wgi_entry *entry)
{
    wgi_free(entry->path);
    *entry = (wgi_entry){0};
}
