/*
 * utf8.h - decoding of UTF-8 with the replacement rule of the Unicode Standard (chapter 3,
 * "maximal subpart"): each ill-formed run becomes one U+FFFD, as Python and HF tokenizers see it.
 */
#ifndef WGI_UTF8_H
#define WGI_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define WGI_UTF8_REPLACEMENT 0xFFFDu

/*
 * Decodes one code point at text[*at], moves *at behind it (count > *at). Ill-formed bytes give
 * U+FFFD and *is_bad (may be NULL) true.
 */
uint32_t wgi_utf8_next(const char *text, size_t count, size_t *at, bool *is_bad);

/* Writes 1 to 4 bytes, returns how many. Surrogates and values above U+10FFFF: U+FFFD. */
size_t wgi_utf8_put(uint32_t code_point, char out[4]);

/* Offset of the first ill-formed byte, or count when all is well. Fast on ASCII. */
size_t wgi_utf8_check(const char *text, size_t count);

/* Appends text with each ill-formed run replaced; *replaced counts them (may be NULL). */
wg_status wgi_utf8_repair(wgi_buf *out, const char *text, size_t count, uint64_t *replaced,
                          wg_error *err);

#endif
