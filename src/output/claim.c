/*
 * claim.c - keeps output out of the input; see claim.h.
 *
 * Paths are compared by what they lead to (device and inode), never by their letters. The output
 * does not exist yet in most runs, so it is known by its place: the real directory it will lie in,
 * and its last component. An input that does not exist either is compared by place too: it would
 * exist once the output is made, and the reader, which opens files late, would read our own rows.
 *
 * Not seen: a link inside an input directory that leads to a directory above the output.
 *
 * Threads: any; no state.
 */
#include "output/claim.h"

#include <string.h>

#include "base/buf.h"
#include "base/os_dir.h"
#include "base/os_file.h"

/* Where a path is, or will be. */
typedef struct path_place {
    bool exists; /* and then info is of the path itself */
    wgi_path_info info;
    wgi_buf folder; /* real path of the last directory that exists on the way to it */
    wgi_path_info folder_info;
    wgi_buf name; /* the component behind that directory; empty: the path is that directory */
} path_place;

static void place_fini(path_place *place)
{
    wgi_buf_fini(&place->folder);
    wgi_buf_fini(&place->name);
}

static bool is_same(const wgi_path_info *a, const wgi_path_info *b)
{
    return a->device == b->device && a->inode == b->inode;
}

/* Cuts the last component off `path` ("a/b/" -> "a"); what stays is "." or "/" at the least. */
static wg_status cut_last(wgi_buf *path, wgi_buf *last, wg_error *err)
{
    size_t end = path->count;

    while (end > 1 && path->data[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path->data[begin - 1] != '/')
        begin--;
    last->count = 0;
    wg_status status = wgi_buf_append(last, path->data + begin, end - begin, err);
    while (begin > 1 && path->data[begin - 1] == '/')
        begin--;
    path->count = begin;
    path->data[begin] = 0;
    if (status == WG_OK && begin == 0) status = wgi_buf_text(path, ".", err);
    return status;
}

/* Finds the place of a path. One that leads nowhere has an empty folder. */
static wg_status place_find(path_place *place, const char *path, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf rest = {0};
    bool is_found = false;

    *place = (path_place){0};
    place->exists = wgi_path_look(path, &place->info, NULL) == WG_OK;
    WGI_TRY(wgi_buf_text(&rest, path, err));
    while (!is_found) {
        bool is_top = rest.count == 1 && (rest.data[0] == '/' || rest.data[0] == '.');
        WGI_TRY(cut_last(&rest, &place->name, err));
        is_found = wgi_path_look(rest.data, &place->folder_info, NULL) == WG_OK &&
                   place->folder_info.kind == WGI_PATH_DIRECTORY;
        if (is_top) break;
    }
    if (is_found) WGI_TRY(wgi_path_real(&place->folder, rest.data, err));

cleanup:
    wgi_buf_fini(&rest);
    return status;
}

/* Is the directory one of those on the real path, from its end to the root? Shortens the path. */
static bool lies_in(wgi_buf *path, const wgi_path_info *directory)
{
    wgi_path_info info;

    while (path->count > 0) {
        if (wgi_path_look(path->data, &info, NULL) == WG_OK && is_same(&info, directory))
            return true;
        if (path->count == 1) return false;
        size_t end = path->count;
        while (end > 0 && path->data[end - 1] != '/')
            end--;
        while (end > 1 && path->data[end - 1] == '/')
            end--;
        path->count = end;
        path->data[end] = 0;
    }
    return false;
}

static wg_status check_input(const path_place *output, const char *path, const char *what,
                             const char *input, wg_error *err)
{
    wg_status status = WG_OK;
    path_place place = {0};
    wgi_buf scratch = {0};

    WGI_TRY(place_find(&place, input, err));
    if (output->exists && place.exists && place.info.kind != WGI_PATH_OTHER &&
        is_same(&output->info, &place.info)) {
        status = wgi_fail(err, WG_ERR_ARGUMENT, "%s: %s is an input too: choose another name", path,
                          what);
    } else if (place.exists && place.info.kind == WGI_PATH_DIRECTORY) {
        WGI_TRY(wgi_buf_append(&scratch, output->folder.data, output->folder.count, err));
        if (lies_in(&scratch, &place.info))
            status =
                wgi_fail(err, WG_ERR_ARGUMENT,
                         "%s: %s lies in the input directory %s, where it would be read as input: "
                         "choose a place outside",
                         path, what, input);
    } else if (!place.exists && !output->exists && place.folder.count && output->folder.count &&
               is_same(&place.folder_info, &output->folder_info) &&
               place.name.count == output->name.count &&
               memcmp(place.name.data, output->name.data, place.name.count) == 0) {
        status = wgi_fail(err, WG_ERR_ARGUMENT,
                          "%s: %s is named as the input %s, which does not exist yet", path, what,
                          input);
    }

cleanup:
    place_fini(&place);
    wgi_buf_fini(&scratch);
    return status;
}

/* Standard output as a place: the file behind it, or nowhere when it is none. */
static wg_status place_find_standard(path_place *place, wg_error *err)
{
    wg_status status = WG_OK;
    wgi_path_info info;
    wgi_buf real = {0};

    *place = (path_place){0};
    if (wgi_path_look("/dev/stdout", &info, NULL) != WG_OK || info.kind != WGI_PATH_FILE)
        return WG_OK;
    if (wgi_path_real(&real, "/dev/stdout", NULL) == WG_OK)
        status = place_find(place, real.data, err);
    place->exists = true;
    place->info = info;
    wgi_buf_fini(&real);
    return status;
}

wg_status wgi_claim_check(const char *path, const char *what, const char *const *inputs,
                          size_t input_count, wg_error *err)
{
    bool is_standard = strcmp(path, "-") == 0;
    path_place output = {0};

    wg_status status =
        is_standard ? place_find_standard(&output, err) : place_find(&output, path, err);
    for (size_t i = 0; status == WG_OK && i < input_count; i++) {
        if (strcmp(inputs[i], "-") != 0) {
            status =
                check_input(&output, is_standard ? "standard output" : path, what, inputs[i], err);
        } else if (is_standard && wgi_descriptors_meet(0, 1)) {
            status = wgi_fail(err, WG_ERR_ARGUMENT,
                              "standard output is the file that standard input reads");
        }
    }
    place_fini(&output);
    return status;
}
