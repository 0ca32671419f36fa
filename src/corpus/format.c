/*
 * format.c - what a file is; see format.h.
 *
 * Content beats suffix where content is plain (gzip is seen one stop earlier, "%PDF-" and the
 * marks of archives here); a suffix decides between text and JSON lines, whose first bytes prove
 * nothing. Refused: guessing JSON lines from a leading '{' (a text may begin so), and guessing an
 * encoding.
 *
 * Threads: no state; any thread.
 */
#include "corpus/format.h"

#include <string.h>
#include <strings.h>

static bool ends_with(const char *name, size_t count, const char *suffix)
{
    size_t suffix_count = strlen(suffix);

    /* A name that is nothing but the suffix is a hidden file of another kind. */
    return count > suffix_count && name[count - suffix_count - 1] != '/' &&
           strncasecmp(name + count - suffix_count, suffix, suffix_count) == 0;
}

wgi_suffix wgi_format_suffix(const char *path, bool *is_gz)
{
    static const struct {
        const char *suffix;
        wgi_suffix kind;
    } table[] = {{".txt", WGI_SUFFIX_TEXT},    {".md", WGI_SUFFIX_TEXT},
                 {".jsonl", WGI_SUFFIX_JSONL}, {".ndjson", WGI_SUFFIX_JSONL},
                 {".pdf", WGI_SUFFIX_PDF},     {".csv", WGI_SUFFIX_TABLE},
                 {".tsv", WGI_SUFFIX_TABLE}};
    size_t count = strlen(path);
    bool packed = ends_with(path, count, ".gz");

    if (packed) count -= strlen(".gz");
    if (is_gz) *is_gz = packed;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (ends_with(path, count, table[i].suffix)) return table[i].kind;
    }
    return WGI_SUFFIX_UNKNOWN;
}

bool wgi_format_is_document(const char *path)
{
    wgi_suffix suffix = wgi_format_suffix(path, NULL);

    return suffix != WGI_SUFFIX_UNKNOWN && suffix != WGI_SUFFIX_TABLE;
}

static bool begins_with(const char *first, size_t count, const char *mark, size_t mark_count)
{
    return count >= mark_count && memcmp(first, mark, mark_count) == 0;
}

/* The name of a packing that is not unpacked here, or NULL. */
static const char *archive_reason(const char *first, size_t count)
{
    if (begins_with(first, count, "\x28\xB5\x2F\xFD", 4))
        return "is Zstandard data, which this version does not unpack: unpack it first";
    if (begins_with(first, count, "PK\x03\x04", 4))
        return "is a zip archive (or an office document), not text: unpack or convert it first";
    if (begins_with(first, count,
                    "\xFD"
                    "7zXZ\0",
                    6))
        return "is xz data, which this version does not unpack: unpack it first";
    return NULL;
}

static const char *skip_blanks(const char *at, const char *end)
{
    if (begins_with(at, (size_t)(end - at), "\xEF\xBB\xBF", 3)) at += 3;
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n' || *at == '\f'))
        at++;
    return at;
}

/* "" when these are the first bytes of a PDF, else what they are. */
static const char *pdf_objection(const char *first, size_t count)
{
    size_t searched = count < 1024 + 5 ? count : 1024 + 5;

    if (count == 0) return "empty file, not a PDF";
    if (memmem(first, searched, "%PDF-", 5)) return "";
    const char *at = skip_blanks(first, first + count);
    size_t left = (size_t)(first + count - at);
    if ((left >= 9 && strncasecmp(at, "<!doctype", 9) == 0) ||
        (left >= 5 && strncasecmp(at, "<html", 5) == 0))
        return "not a PDF: it is an HTML page (an error page that was saved under this name?)";
    return "not a PDF: there is no %PDF- mark in its first 1024 bytes";
}

static wgi_format_choice refuse(wg_failure failure, const char *reason)
{
    return (wgi_format_choice){.failure = failure, .reason = reason};
}

static wgi_format_choice choose_pdf(const char *first, size_t count)
{
    const char *objection = pdf_objection(first, count);

    if (*objection) return refuse(WG_FAILURE_DAMAGED, objection);
    return (wgi_format_choice){.format = WG_FORMAT_PDF};
}

wgi_format_choice wgi_format_choose(wg_format forced, const wgi_entry *entry, const char *first,
                                    size_t count)
{
    const char *archive = archive_reason(first, count);
    bool is_gz;
    wgi_suffix suffix = wgi_format_suffix(entry->path, &is_gz);

    if (archive) return refuse(WG_FAILURE_BAD_ENCODING, archive);
    if (is_gz && entry->is_regular && entry->bytes == 0)
        return refuse(WG_FAILURE_DAMAGED, "truncated gzip: the file is empty");
    if (forced == WG_FORMAT_PDF) return choose_pdf(first, count);
    if (forced != WG_FORMAT_AUTO) return (wgi_format_choice){.format = forced};

    const char *at = skip_blanks(first, first + count);
    if (begins_with(at, (size_t)(first + count - at), "%PDF-", 5) || suffix == WGI_SUFFIX_PDF)
        return choose_pdf(first, count);
    if (entry->is_stdin || suffix == WGI_SUFFIX_JSONL)
        return (wgi_format_choice){.format = WG_FORMAT_JSONL};
    if (suffix == WGI_SUFFIX_TABLE)
        return refuse(WG_FAILURE_NO_TEXT, "CSV and TSV are not read by this version: convert it to "
                                          "JSON lines, or read it as one text with --format text");
    return (wgi_format_choice){.format = WG_FORMAT_TEXT, .is_strict = suffix == WGI_SUFFIX_UNKNOWN};
}
