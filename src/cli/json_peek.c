/*
 * json_peek.c - reads single values out of JSON text that the library made (a job's report).
 *
 * Idea: a value is a pair of pointers into the text; members are found by skipping over what stands
 * before them. No tree, no heap: a report has a few dozen values. The library's own scanner is for
 * text from outside and is not public; this one trusts its input to be well-formed, but never reads
 * past its end.
 *
 * Threads: any; no state.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char *skip_blank(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

/* One past a string that starts at `at`. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < end) at++;
    return at < end ? at + 1 : end;
}

/* One past the value that starts at `at`. */
static const char *skip_value(const char *at, const char *end)
{
    size_t depth = 0;

    while (at < end) {
        char c = *at;
        if (c == '"') {
            at = skip_string(at, end);
            if (depth == 0) return at;
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n')) return at;
        at++;
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && --depth == 0) return at;
    }
    return end;
}

cli_json cli_json_whole(const char *text)
{
    const char *end = text + strlen(text);
    return (cli_json){skip_blank(text, end), end};
}

bool cli_json_next(cli_json container, const char **state, cli_json *key, cli_json *value)
{
    const char *at = *state ? *state : container.begin;

    if (!container.begin || container.begin >= container.end) return false;
    if (*container.begin != '{' && *container.begin != '[') return false;
    at = skip_blank(*state ? at : at + 1, container.end);
    if (at < container.end && *at == ',') at = skip_blank(at + 1, container.end);
    if (at >= container.end || *at == '}' || *at == ']') return false;
    *key = (cli_json){NULL, NULL};
    if (*container.begin == '{') {
        const char *after = skip_string(at, container.end);
        *key = (cli_json){at + 1, after - 1};
        at = skip_blank(after, container.end);
        if (at < container.end && *at == ':') at = skip_blank(at + 1, container.end);
    }
    *value = (cli_json){at, skip_value(at, container.end)};
    *state = value->end;
    return true;
}

cli_json cli_json_member(cli_json object, const char *key)
{
    const char *state = NULL;
    cli_json name, value;
    size_t key_bytes = strlen(key);

    while (cli_json_next(object, &state, &name, &value))
        if (name.begin && (size_t)(name.end - name.begin) == key_bytes &&
            memcmp(name.begin, key, key_bytes) == 0)
            return value;
    return (cli_json){NULL, NULL};
}

double cli_json_number(cli_json value, double otherwise)
{
    char digits[64];
    size_t bytes = value.begin ? (size_t)(value.end - value.begin) : 0;
    char *end = NULL;

    if (bytes == 0 || bytes >= sizeof(digits)) return otherwise;
    memcpy(digits, value.begin, bytes);
    digits[bytes] = '\0';
    double number = strtod(digits, &end);
    return end == digits ? otherwise : number;
}

cli_json cli_json_plain(cli_json value)
{
    if (value.begin && value.end - value.begin >= 2 && *value.begin == '"')
        return (cli_json){value.begin + 1, value.end - 1};
    return value;
}
