/*
 * json_lines.h - tables of a test: a file with a JSON object a line, each read into a struct.
 *
 *     wgt_lines lines = wgt_lines_open(path);
 *     for (row one = {0}; wgt_lines_next(&lines, read_member, &one); one = (row){0})
 *         check(&one);
 *     EXPECT_EQ(wgt_lines_close(&lines), 32);
 */
#ifndef WGT_JSON_LINES_H
#define WGT_JSON_LINES_H

#include "base/json.h"
#include "harness.h"
#include "temporary.h"

typedef struct wgt_lines {
    char *text, *at;
    size_t count; /* lines that were read */
} wgt_lines;

/* Reads or skips the value of `key` in a line's object. */
typedef wg_status wgt_member(void *one, wgi_json *json, wgi_slice key, wg_error *err);

static inline wgt_lines wgt_lines_open(const char *path)
{
    char *text = wgt_slurp(path, NULL);

    return (wgt_lines){.text = text, .at = text};
}

static inline wg_status wgt_line_read(const char *line, size_t count, wgt_member *member, void *one,
                                      wg_error *err)
{
    wg_status status = WG_OK;
    wgi_json json;
    wgi_slice key;

    wgi_json_init(&json, line, count);
    WGI_TRY(wgi_json_object_begin(&json, err));
    while (wgi_json_object_next(&json, &key))
        WGI_TRY(member(one, &json, key, err));
    WGI_TRY(wgi_json_finish(&json, err));

cleanup:
    wgi_json_fini(&json);
    return status;
}

/* False behind the last line. A line that is no such object fails the test. */
static inline bool wgt_lines_next(wgt_lines *lines, wgt_member *member, void *one)
{
    char *line = lines->at, *end = strchr(line, '\n');
    wg_error err = {0};

    if (!end) return false;
    EXPECT_OK(wgt_line_read(line, (size_t)(end - line), member, one, &err));
    lines->at = end + 1;
    lines->count++;
    return true;
}

/* How many lines there were. */
static inline size_t wgt_lines_close(wgt_lines *lines)
{
    free(lines->text);
    return lines->count;
}

#endif
