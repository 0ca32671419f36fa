/*
 * pre_write.c - the steps that rewrite: Metaspace, and ByteLevel's blank in front and its letters.
 *
 * The idea: a step that rewrites puts each piece into a buffer of its own and gives one span for
 * it; splitting what was written is the next step.
 *
 * Threads: read-only once loaded; the buffer belongs to the caller.
 */
#include <string.h>

#include "tokenizer/byte_letters.h"
#include "tokenizer/pre_tokenizer.h"

static wg_status finish(const wgi_pre_run *run, size_t begin, wg_error *err)
{
    if (run->rewritten->count > UINT32_MAX)
        return wgi_fail(err, WG_ERR_LIMIT, "more than 4 GiB of text without a place to cut it");
    return begin < run->rewritten->count
               ? wgi_span_push(run->out, begin, run->rewritten->count, err)
               : WG_OK;
}

wg_status wgi_write_metaspace(const wgi_pre_step *step, const wgi_pre_run *run, wgi_span piece,
                              wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf *out = run->rewritten;
    const char *text = run->text;
    size_t before = out->count, begin = piece.begin, bytes = step->literal_bytes;
    bool is_marked = text[begin] == ' ' || (piece.end - begin >= bytes &&
                                            memcmp(text + begin, step->literal, bytes) == 0);
    bool is_wanted = step->prepend == WGI_PREPEND_ALWAYS ||
                     (step->prepend == WGI_PREPEND_FIRST && run->is_first && begin == 0);

    if (is_wanted && !is_marked) WGI_TRY(wgi_buf_append(out, step->literal, bytes, err));
    for (size_t at = begin; at < piece.end;) {
        const char *blank = memchr(text + at, ' ', piece.end - at);
        size_t to = blank ? (size_t)(blank - text) : piece.end;
        WGI_TRY(wgi_buf_append(out, text + at, to - at, err));
        if (blank) WGI_TRY(wgi_buf_append(out, step->literal, bytes, err));
        at = to + (blank != NULL);
    }
    WGI_TRY(finish(run, before, err));

cleanup:
    return status;
}

wg_status wgi_write_prefix_space(const wgi_pre_step *step, const wgi_pre_run *run, wgi_span piece,
                                 wg_error *err)
{
    wg_status status = WG_OK;
    wgi_buf *out = run->rewritten;
    size_t before = out->count;

    (void)step;
    if (run->text[piece.begin] != ' ') WGI_TRY(wgi_buf_append(out, " ", 1, err));
    WGI_TRY(wgi_buf_append(out, run->text + piece.begin, piece.end - piece.begin, err));
    WGI_TRY(finish(run, before, err));

cleanup:
    return status;
}

wg_status wgi_write_bytes(const wgi_pre_step *step, const wgi_pre_run *run, wgi_span piece,
                          wg_error *err)
{
    size_t before = run->rewritten->count;
    wg_status status =
        wgi_byte_letters_put(run->rewritten, run->text + piece.begin, piece.end - piece.begin, err);

    (void)step;
    return status == WG_OK ? finish(run, before, err) : status;
}
