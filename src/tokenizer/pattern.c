/*
 * pattern.c - compiles the regular expressions of tokenizer files.
 *
 *   source ─▶ tree of nodes ─▶ code
 *
 * The idea: the part of Oniguruma's syntax that split patterns are written in: alternatives,
 * groups, classes with general categories, repetitions, looking ahead, (?i:...) on ASCII letters.
 * All else is refused by name, so that a pattern never means something other than it does in the
 * original; so is what reads differently there than elsewhere ("{2}+" repeats a repetition, "\h" is
 * a hexadecimal digit). Classes ask the measured flags of unicode.h.
 *
 * Threads: no state; any thread.
 */
#include "tokenizer/pattern.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/pattern_parts.h"

#define NODES_MAX  4096
#define REPEAT_MAX 1000
#define NONE       UINT32_MAX

typedef enum node_kind {
    NODE_EMPTY,
    NODE_SET,
    NODE_CAT,
    NODE_ALT,
    NODE_REPEAT,
    NODE_LOOK
} node_kind;

typedef struct node {
    node_kind kind;
    uint32_t first, next; /* child, sibling */
    uint32_t set;
    uint32_t min, max;
    wgi_pattern_mode mode;
    bool is_negative;
    uint32_t letter; /* of a single literal in (?i:...), in lower case; else 0 */
} node;

typedef struct parse {
    wgi_pattern *pattern;
    const char *at, *end;
    node *nodes;
    size_t count, capacity;
    const char *reason; /* why it is not supported */
    int depth;
    bool ignores_case;
    wg_error *err;
} parse;

static wg_status parse_alternatives(parse *p, uint32_t *out);

/* Stops the parse; the caller of the parse looks at reason. */
static wg_status refuse(parse *p, const char *reason)
{
    if (!p->reason) p->reason = reason;
    return WG_ERR_UNSUPPORTED;
}

static wg_status add_node(parse *p, node item, uint32_t *out)
{
    wg_status status = WG_OK;

    if (p->count == NODES_MAX) return refuse(p, "too long");
    WGI_TRY(wgi_grow(&p->nodes, &p->capacity, p->count + 1, sizeof(*p->nodes), p->err));
    *out = (uint32_t)p->count;
    p->nodes[p->count++] = item;

cleanup:
    return status;
}

static wg_status new_set(parse *p, uint32_t *out)
{
    wgi_pattern *pattern = p->pattern;
    wg_status status = wgi_grow(&pattern->sets, &pattern->set_capacity, pattern->set_count + 1,
                                sizeof(*pattern->sets), p->err);

    if (status != WG_OK) return status;
    *out = (uint32_t)pattern->set_count;
    pattern->sets[pattern->set_count++] =
        (wgi_pattern_set){.first_range = (uint32_t)pattern->range_count};
    return WG_OK;
}

/* Ranges of a set are added one after another, before those of any other set. */
static wg_status add_range(parse *p, uint32_t set, uint32_t first, uint32_t last)
{
    wgi_pattern *pattern = p->pattern;
    wg_status status = wgi_grow(&pattern->ranges, &pattern->range_capacity,
                                pattern->range_count + 1, sizeof(*pattern->ranges), p->err);

    if (status != WG_OK) return status;
    pattern->ranges[pattern->range_count++] = (wgi_pattern_range){first, last};
    pattern->sets[set].ranges++;
    return WG_OK;
}

static void finish_set(parse *p, uint32_t index)
{
    wgi_pattern_set *set = &p->pattern->sets[index];

    memset(set->ascii, 0, sizeof(set->ascii));
    for (uint32_t c = 0; c < 128; c++)
        if (wgi_pattern_set_has(p->pattern, set, c, wgi_char_search(c)))
            set->ascii[c >> 5] |= UINT32_C(1) << (c & 31);
}

/* ------------------------------------------------------------------------------- classes */

#define BIT(category)  (UINT32_C(1) << WGI_CATEGORY_##category)
#define ALL_CATEGORIES (BIT(CO) * 2 - 1)

typedef struct category_name {
    const char *name;
    uint32_t mask;
} category_name;

static const category_name names[] = {
    {"L", BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO)},
    {"M", BIT(MN) | BIT(MC) | BIT(ME)},
    {"N", BIT(ND) | BIT(NL) | BIT(NO)},
    {"P", BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO)},
    {"S", BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO)},
    {"Z", BIT(ZS) | BIT(ZL) | BIT(ZP)},
    {"Lu", BIT(LU)},
    {"Ll", BIT(LL)},
    {"Lt", BIT(LT)},
    {"Lm", BIT(LM)},
    {"Lo", BIT(LO)},
    {"Mn", BIT(MN)},
    {"Mc", BIT(MC)},
    {"Me", BIT(ME)},
    {"Nd", BIT(ND)},
    {"Nl", BIT(NL)},
    {"No", BIT(NO)},
    {"Pc", BIT(PC)},
    {"Pd", BIT(PD)},
    {"Ps", BIT(PS)},
    {"Pe", BIT(PE)},
    {"Pi", BIT(PI)},
    {"Pf", BIT(PF)},
    {"Po", BIT(PO)},
    {"Sm", BIT(SM)},
    {"Sc", BIT(SC)},
    {"Sk", BIT(SK)},
    {"So", BIT(SO)},
    {"Zs", BIT(ZS)},
    {"Zl", BIT(ZL)},
    {"Zp", BIT(ZP)},
    {"Cc", BIT(CC)},
    {"Cf", BIT(CF)},
    {"Co", BIT(CO)},
};

/* Behind "\p" or "\P". */
static wg_status parse_category(parse *p, bool is_negated, uint32_t set)
{
    char name[4] = {0};
    size_t count = 0;

    if (p->at == p->end || *p->at != '{') return refuse(p, "a category without braces");
    for (p->at++; p->at < p->end && *p->at != '}' && count < sizeof(name) - 1; p->at++)
        name[count++] = *p->at;
    if (p->at == p->end || *p->at != '}')
        return refuse(p, "a property that is no general category");
    p->at++;
    if (p->ignores_case && name[0] == 'L' && name[1])
        return refuse(p, "a kind of letters where case is ignored");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i].name, name) != 0) continue;
        p->pattern->sets[set].categories |=
            is_negated ? ALL_CATEGORIES & ~names[i].mask : names[i].mask;
        return WG_OK;
    }
    return refuse(p, "a property that is no general category");
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Behind "\x" or "\u": a code point. */
static wg_status parse_code_point(parse *p, char kind, uint32_t *out)
{
    bool has_braces = kind == 'x' && p->at < p->end && *p->at == '{';
    size_t most = has_braces ? 6 : kind == 'x' ? 2 : 4, count = 0;
    uint32_t value = 0;

    p->at += has_braces;
    for (; p->at < p->end && count < most && hex_digit(*p->at) >= 0; count++)
        value = value << 4 | (uint32_t)hex_digit(*p->at++);
    if (has_braces && (p->at == p->end || *p->at++ != '}')) return refuse(p, "an unfinished \\x");
    if (count == 0 || (!has_braces && count < most)) return refuse(p, "an unfinished \\x or \\u");
    /* "\xE9" is a byte there, and no code point. */
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) ||
        (kind == 'x' && !has_braces && value >= 0x80))
        return refuse(p, "\\x or \\u of no code point");
    *out = value;
    return WG_OK;
}

/* Behind a backslash: puts a class into the set, or gives one literal code point. */
static wg_status parse_escape(parse *p, uint32_t set, bool is_class, bool *is_literal,
                              uint32_t *literal)
{
    static const char controls[] = "ntrfvae";
    static const char values[] = "\n\t\r\f\v\a\033";
    wgi_pattern_set *item = &p->pattern->sets[set];
    const uint32_t word = is_class ? WGI_CHAR_CLASS_WORD : WGI_CHAR_PATTERN_WORD;

    *is_literal = false;
    if (p->at == p->end) return refuse(p, "a backslash at the end");
    char c = *p->at;
    if ((unsigned char)c >= 0x80) return refuse(p, "a backslash before a letter that is not ASCII");
    p->at++;
    const char *control = strchr(controls, c);
    switch (c) {
    case 'p':
    case 'P':
        return parse_category(p, c == 'P', set);
    case 's':
        item->with |= WGI_CHAR_SPACE;
        return WG_OK;
    case 'S':
        item->without |= WGI_CHAR_SPACE;
        return WG_OK;
    case 'w':
        item->with |= word;
        return WG_OK;
    case 'W':
        item->without |= word;
        return WG_OK;
    case 'd':
        item->categories |= BIT(ND);
        return WG_OK;
    case 'D':
        item->categories |= ALL_CATEGORIES & ~BIT(ND);
        return WG_OK;
    case 'x':
    case 'u':
        *is_literal = true;
        return parse_code_point(p, c, literal);
    default:
        break;
    }
    *is_literal = true;
    *literal = (unsigned char)c;
    if (control && c) {
        *literal = (unsigned char)values[control - controls];
    } else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || !c) {
        return refuse(p, "an escape that is not known here");
    }
    return WG_OK;
}

/* One member of [...]; a literal one is not put in yet. */
static wg_status parse_member(parse *p, uint32_t set, bool *is_literal, uint32_t *literal)
{
    size_t at = 0;

    if (*p->at == '\\') {
        p->at++;
        return parse_escape(p, set, true, is_literal, literal);
    }
    if (*p->at == '[') return refuse(p, "a class inside a class");
    if (*p->at == '&' && p->end - p->at > 1 && p->at[1] == '&') return refuse(p, "&& in a class");
    *is_literal = true;
    *literal = wgi_char_next(p->at, &at);
    p->at += at;
    return WG_OK;
}

static bool is_letter(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Behind "[". */
static wg_status parse_class(parse *p, uint32_t *out)
{
    wg_status status = WG_OK;
    uint32_t set = 0, first = 0, last;
    bool is_literal, is_first = true, is_negated = false;

    WGI_TRY(new_set(p, &set));
    if (p->at < p->end && *p->at == '^') {
        is_negated = true;
        p->at++;
    }
    for (; p->at < p->end && (*p->at != ']' || is_first); is_first = false) {
        if (*p->at == ']') return refuse(p, "] at the begin of a class");
        WGI_TRY(parse_member(p, set, &is_literal, &first));
        bool has_dash = p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']';
        if (!is_literal) {
            if (has_dash) return refuse(p, "a range from a class");
            continue;
        }
        last = first;
        if (has_dash) {
            p->at++;
            WGI_TRY(parse_member(p, set, &is_literal, &last));
            if (!is_literal || last < first) return refuse(p, "a range that ends before it begins");
        }
        if (p->ignores_case && (first >= 0x80 || last != first || is_letter(first)))
            return refuse(p, "letters in a class that ignores case");
        WGI_TRY(add_range(p, set, first, last));
    }
    if (p->at == p->end) return refuse(p, "a class without its end");
    p->at++;
    p->pattern->sets[set].is_negated = is_negated;
    finish_set(p, set);
    WGI_TRY(add_node(p, (node){.kind = NODE_SET, .set = set, .first = NONE, .next = NONE}, out));

cleanup:
    return status;
}

/* ------------------------------------------------------------------------------ literals */

/* What upper and lower case are one to the original: also the long s and the Kelvin sign. */
static wg_status add_letter(parse *p, uint32_t set, uint32_t lower)
{
    wg_status status = WG_OK;

    WGI_TRY(add_range(p, set, lower, lower));
    WGI_TRY(add_range(p, set, lower - 'a' + 'A', lower - 'a' + 'A'));
    if (lower == 's') WGI_TRY(add_range(p, set, 0x17F, 0x17F));
    if (lower == 'k') WGI_TRY(add_range(p, set, 0x212A, 0x212A));

cleanup:
    return status;
}

static wg_status add_literal(parse *p, uint32_t set, uint32_t code_point, uint32_t *out)
{
    wg_status status = WG_OK;
    node item = {.kind = NODE_SET, .set = set, .first = NONE, .next = NONE};

    if (p->ignores_case && code_point >= 0x80)
        return refuse(p, "a letter that is not ASCII where case is ignored");
    if (p->ignores_case && is_letter(code_point)) {
        item.letter = code_point | 0x20;
        WGI_TRY(add_letter(p, set, item.letter));
    } else {
        WGI_TRY(add_range(p, set, code_point, code_point));
    }
    finish_set(p, set);
    WGI_TRY(add_node(p, item, out));

cleanup:
    return status;
}

/* Pairs of letters that are one letter to somebody who ignores case (U+DF, U+FB00 to U+FB06). */
static bool is_ligature(uint32_t first, uint32_t second)
{
    return (first == 's' && (second == 's' || second == 't')) ||
           (first == 'f' && (second == 'f' || second == 'i' || second == 'l'));
}

/* -------------------------------------------------------------------------------- groups */

/* Behind "(". */
static wg_status parse_group(parse *p, uint32_t *out)
{
    wg_status status = WG_OK;
    const bool ignored_case = p->ignores_case;
    bool is_look = false, is_negative = false;
    uint32_t inner = 0;

    if (p->depth == WGI_PATTERN_DEPTH_MAX) return refuse(p, "groups nested too deep");
    if (p->at < p->end && *p->at == '?') {
        size_t left = (size_t)(p->end - p->at);
        if (left > 1 && p->at[1] == ':') {
            p->at += 2;
        } else if (left > 2 && p->at[1] == 'i' && p->at[2] == ':') {
            p->ignores_case = true;
            p->at += 3;
        } else if (left > 1 && (p->at[1] == '=' || p->at[1] == '!')) {
            is_look = true;
            is_negative = p->at[1] == '!';
            p->at += 2;
        } else if (left > 1 && p->at[1] == '<') {
            return refuse(p, "looking behind or a named group");
        } else {
            return refuse(p, "a group with an option");
        }
    }
    p->depth++;
    WGI_TRY(parse_alternatives(p, &inner));
    p->depth--;
    if (p->at == p->end || *p->at != ')') return refuse(p, "a group without its end");
    p->at++;
    p->ignores_case = ignored_case;
    *out = inner;
    if (is_look)
        WGI_TRY(add_node(
            p, (node){.kind = NODE_LOOK, .first = inner, .next = NONE, .is_negative = is_negative},
            out));

cleanup:
    return status;
}

static wg_status parse_any(parse *p, uint32_t *out)
{
    wg_status status = WG_OK;
    uint32_t set = 0;

    WGI_TRY(new_set(p, &set));
    WGI_TRY(add_range(p, set, '\n', '\n'));
    p->pattern->sets[set].is_negated = true;
    finish_set(p, set);
    WGI_TRY(add_node(p, (node){.kind = NODE_SET, .set = set, .first = NONE, .next = NONE}, out));

cleanup:
    return status;
}

static wg_status parse_single(parse *p, uint32_t *out)
{
    wg_status status = WG_OK;
    uint32_t set = 0, literal = 0;
    bool is_literal = true;
    size_t at = 0;

    WGI_TRY(new_set(p, &set));
    if (*p->at == '\\') {
        p->at++;
        WGI_TRY(parse_escape(p, set, false, &is_literal, &literal));
    } else {
        literal = wgi_char_next(p->at, &at);
        p->at += at;
    }
    if (is_literal) {
        WGI_TRY(add_literal(p, set, literal, out));
    } else {
        finish_set(p, set);
        WGI_TRY(
            add_node(p, (node){.kind = NODE_SET, .set = set, .first = NONE, .next = NONE}, out));
    }

cleanup:
    return status;
}

static wg_status parse_atom(parse *p, uint32_t *out)
{
    switch (*p->at) {
    case '(':
        p->at++;
        return parse_group(p, out);
    case '[':
        p->at++;
        return parse_class(p, out);
    case '.':
        p->at++;
        return parse_any(p, out);
    case '^':
    case '$':
        return refuse(p, "an anchor");
    case '*':
    case '+':
    case '?':
    case '{':
    case '}':
        return refuse(p, "a repetition of nothing, or a brace");
    case ']':
        return refuse(p, "] without its begin");
    default:
        return parse_single(p, out);
    }
}

/* --------------------------------------------------------------------------- repetitions */

static bool parse_number(parse *p, uint32_t *out)
{
    const char *begin = p->at;
    uint32_t value = 0;

    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        value = value > REPEAT_MAX ? value : 10 * value + (uint32_t)(*p->at - '0');
    *out = value;
    return p->at > begin;
}

/* Behind "{". */
static wg_status parse_braces(parse *p, uint32_t *min, uint32_t *max)
{
    bool has_min = parse_number(p, min), has_max = has_min;

    *max = *min;
    if (p->at < p->end && *p->at == ',') {
        p->at++;
        has_max = parse_number(p, max);
        if (!has_max) *max = WGI_PATTERN_NO_MOST;
    }
    if (p->at == p->end || *p->at != '}' || (!has_min && !has_max))
        return refuse(p, "a brace that repeats nothing");
    p->at++;
    if (p->at < p->end && strchr("?+*{", *p->at)) return refuse(p, "a repetition of {...}");
    if (*min > REPEAT_MAX || (*max != WGI_PATTERN_NO_MOST && (*max > REPEAT_MAX || *max < *min)))
        return refuse(p, "numbers in {...} that are too large or in the wrong order");
    return WG_OK;
}

static wg_status parse_repeated(parse *p, uint32_t *out)
{
    wg_status status = WG_OK;
    node item = {.kind = NODE_REPEAT, .next = NONE, .max = WGI_PATTERN_NO_MOST};
    uint32_t atom = 0;

    WGI_TRY(parse_atom(p, &atom));
    *out = atom;
    if (p->at == p->end || !strchr("*+?{", *p->at) || !*p->at) goto cleanup;
    item.first = atom;
    char kind = *p->at++;
    if (kind == '{') {
        WGI_TRY(parse_braces(p, &item.min, &item.max));
    } else {
        item.min = kind == '+';
        if (kind == '?') item.max = 1;
        if (p->at < p->end && *p->at == '?') {
            item.mode = WGI_PATTERN_LAZY;
            p->at++;
        } else if (p->at < p->end && *p->at == '+') {
            item.mode = WGI_PATTERN_POSSESSIVE;
            p->at++;
        }
    }
    if (p->at < p->end && *p->at && strchr("*+?{", *p->at))
        return refuse(p, "a repetition of a repetition");
    if (p->nodes[atom].kind == NODE_LOOK) return refuse(p, "a repetition of looking ahead");
    WGI_TRY(add_node(p, item, out));

cleanup:
    return status;
}

static wg_status parse_sequence(parse *p, uint32_t *out)
{
    wg_status status = WG_OK;
    uint32_t sequence = 0, last = NONE, item = 0, letter = 0;

    WGI_TRY(add_node(p, (node){.kind = NODE_CAT, .first = NONE, .next = NONE}, &sequence));
    while (p->at < p->end && *p->at != '|' && *p->at != ')') {
        WGI_TRY(parse_repeated(p, &item));
        if (is_ligature(letter, p->nodes[item].letter))
            return refuse(p, "letters that have a ligature where case is ignored");
        letter = p->nodes[item].letter;
        if (last == NONE) {
            p->nodes[sequence].first = item;
        } else {
            p->nodes[last].next = item;
        }
        last = item;
    }
    *out = sequence;

cleanup:
    return status;
}

static wg_status parse_alternatives(parse *p, uint32_t *out)
{
    wg_status status = WG_OK;
    uint32_t all = 0, last = 0, item = 0;

    WGI_TRY(parse_sequence(p, &item));
    *out = last = item;
    if (p->at == p->end || *p->at != '|') goto cleanup;
    WGI_TRY(add_node(p, (node){.kind = NODE_ALT, .first = item, .next = NONE}, &all));
    while (p->at < p->end && *p->at == '|') {
        p->at++;
        WGI_TRY(parse_sequence(p, &item));
        p->nodes[last].next = item;
        last = item;
    }
    *out = all;

cleanup:
    return status;
}

/* ---------------------------------------------------------------------------------- code */

/* Can the node match without taking anything? */
static bool is_nullable(const parse *p, uint32_t index)
{
    const node *item = &p->nodes[index];

    switch (item->kind) {
    case NODE_SET:
        return false;
    case NODE_REPEAT:
        return item->min == 0 || is_nullable(p, item->first);
    case NODE_CAT:
        for (uint32_t child = item->first; child != NONE; child = p->nodes[child].next)
            if (!is_nullable(p, child)) return false;
        return true;
    case NODE_ALT:
        for (uint32_t child = item->first; child != NONE; child = p->nodes[child].next)
            if (is_nullable(p, child)) return true;
        return false;
    default:
        return true;
    }
}

static wg_status add_code(parse *p, wgi_pattern_code code, uint32_t *out)
{
    wgi_pattern *pattern = p->pattern;
    wg_status status = WG_OK;

    if (pattern->code_count == WGI_PATTERN_CODE_MAX) return refuse(p, "too long");
    WGI_TRY(wgi_grow(&pattern->code, &pattern->code_capacity, pattern->code_count + 1,
                     sizeof(*pattern->code), p->err));
    *out = (uint32_t)pattern->code_count;
    pattern->code[pattern->code_count++] = code;

cleanup:
    return status;
}

static uint32_t here(const parse *p)
{
    return (uint32_t)p->pattern->code_count;
}

static wg_status emit(parse *p, uint32_t index);

static wg_status emit_alternatives(parse *p, uint32_t index)
{
    wg_status status = WG_OK;
    uint32_t split = 0, jump, jumps = NONE; /* jumps to the end, chained through `a` */

    for (uint32_t child = p->nodes[index].first; child != NONE; child = p->nodes[child].next) {
        bool is_last = p->nodes[child].next == NONE;
        if (!is_last) WGI_TRY(add_code(p, (wgi_pattern_code){.op = WGI_PATTERN_SPLIT}, &split));
        if (!is_last) p->pattern->code[split].a = here(p);
        WGI_TRY(emit(p, child));
        if (is_last) break;
        WGI_TRY(add_code(p, (wgi_pattern_code){.op = WGI_PATTERN_JUMP, .a = jumps}, &jump));
        jumps = jump;
        p->pattern->code[split].b = here(p);
    }
    while (jumps != NONE) {
        jump = jumps;
        jumps = p->pattern->code[jump].a;
        p->pattern->code[jump].a = here(p);
    }

cleanup:
    return status;
}

/* x{2,4}: x x (x (x)?)?; x{2,}: x x (x)* */
static wg_status emit_group_repeat(parse *p, const node *item)
{
    wg_status status = WG_OK;
    uint32_t split = 0, jump, splits = NONE;
    bool is_lazy = item->mode == WGI_PATTERN_LAZY, has_most = item->max != WGI_PATTERN_NO_MOST;

    if (item->mode == WGI_PATTERN_POSSESSIVE) return refuse(p, "a possessive group");
    if (is_nullable(p, item->first)) return refuse(p, "a repetition of what may be empty");
    for (uint32_t i = 0; i < item->min; i++)
        WGI_TRY(emit(p, item->first));
    for (uint32_t i = item->min; has_most ? i < item->max : i == item->min; i++) {
        WGI_TRY(add_code(p, (wgi_pattern_code){.op = WGI_PATTERN_SPLIT, .min = splits}, &split));
        splits = split;
        WGI_TRY(emit(p, item->first));
        if (!has_most)
            WGI_TRY(add_code(p, (wgi_pattern_code){.op = WGI_PATTERN_JUMP, .a = split}, &jump));
    }
    while (splits != NONE) {
        wgi_pattern_code *code = &p->pattern->code[splits];
        uint32_t inside = splits + 1;
        splits = code->min;
        code->a = is_lazy ? here(p) : inside;
        code->b = is_lazy ? inside : here(p);
    }

cleanup:
    return status;
}

static wg_status emit(parse *p, uint32_t index)
{
    const node item = p->nodes[index];
    wg_status status = WG_OK;
    uint32_t look = 0, end;

    switch (item.kind) {
    case NODE_SET:
        return add_code(p, (wgi_pattern_code){.op = WGI_PATTERN_SET, .a = item.set}, &end);
    case NODE_CAT:
        for (uint32_t child = item.first; child != NONE; child = p->nodes[child].next)
            WGI_TRY(emit(p, child));
        break;
    case NODE_ALT:
        return emit_alternatives(p, index);
    case NODE_REPEAT:
        if (p->nodes[item.first].kind != NODE_SET) return emit_group_repeat(p, &item);
        return add_code(p,
                        (wgi_pattern_code){.op = WGI_PATTERN_REPEAT,
                                           .mode = item.mode,
                                           .a = p->nodes[item.first].set,
                                           .min = item.min,
                                           .max = item.max},
                        &end);
    case NODE_LOOK:
        WGI_TRY(add_code(
            p, (wgi_pattern_code){.op = WGI_PATTERN_LOOK, .is_negative = item.is_negative}, &look));
        WGI_TRY(emit(p, item.first));
        WGI_TRY(add_code(p, (wgi_pattern_code){.op = WGI_PATTERN_MATCH}, &end));
        p->pattern->code[look].a = here(p);
        break;
    default:
        break;
    }

cleanup:
    return status;
}

static wg_status compile(parse *p)
{
    wg_status status = WG_OK;
    uint32_t root = 0, end;

    WGI_TRY(parse_alternatives(p, &root));
    if (p->at < p->end) return refuse(p, "a ) without its begin");
    if (is_nullable(p, root)) return refuse(p, "it may match nothing");
    WGI_TRY(emit(p, root));
    WGI_TRY(add_code(p, (wgi_pattern_code){.op = WGI_PATTERN_MATCH}, &end));

cleanup:
    return status;
}

wg_status wgi_pattern_open(wgi_pattern **out, wgi_slice source, const char **reason, wg_error *err)
{
    wg_status status = WG_OK;
    parse p = {.at = source.data, .end = source.data + source.count, .err = err};

    *out = NULL;
    *reason = NULL;
    p.pattern = wgi_calloc(1, sizeof(*p.pattern));
    if (!p.pattern) {
        status = wgi_fail(err, WG_ERR_NO_MEMORY, "no memory for a pattern");
        goto cleanup;
    }
    status = wgi_utf8_check(source.data, source.count) < source.count ? refuse(&p, "not UTF-8")
                                                                      : compile(&p);
    if (status == WG_OK) {
        *out = p.pattern;
        p.pattern = NULL;
    } else if (p.reason) {
        *reason = p.reason;
        status = WG_OK;
    }

cleanup:
    wgi_pattern_close(p.pattern);
    wgi_free(p.nodes);
    return status;
}

void wgi_pattern_close(wgi_pattern *pattern)
{
    if (!pattern) return;
    wgi_free(pattern->code);
    wgi_free(pattern->sets);
    wgi_free(pattern->ranges);
    wgi_free(pattern);
}
