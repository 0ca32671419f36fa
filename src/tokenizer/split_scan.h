/*
 * split_scan.h - scanners for the split patterns that most models have, by hand: several times as
 * fast as the pattern they stand for, and equal to it (tests/unit/test_pattern.c compares them).
 */
#ifndef WGI_SPLIT_SCAN_H
#define WGI_SPLIT_SCAN_H

#include "base/json.h"
#include "tokenizer/unicode.h"

/* The end of the word that begins at `at` (< end); every place in a text belongs to a word. */
typedef size_t wgi_split_scan(const wgi_char_table *chars, const char *text, size_t at, size_t end);

/* The scanner that stands for a pattern, or NULL. */
wgi_split_scan *wgi_split_scan_find(wgi_slice pattern);

/* The pattern of the pre-tokeniser ByteLevel. */
extern const char wgi_gpt2_pattern[];
wgi_split_scan wgi_scan_gpt2;

/* For tests: the pattern and the scanner of row i; false behind the last. */
bool wgi_split_scan_at(size_t index, const char **pattern, wgi_split_scan **scan);

#endif
