/*
 * byte_letters.h - the letter that stands for each byte in byte-level vocabularies (GPT-2): itself
 * where it prints, else one of U+0100 and up, in the order of the bytes.
 */
#ifndef WGI_BYTE_LETTERS_H
#define WGI_BYTE_LETTERS_H

#include "base/json.h"

extern const uint16_t wgi_byte_letters[256];

/* Appends the letters of bytes. */
wg_status wgi_byte_letters_put(wgi_buf *out, const char *bytes, size_t count, wg_error *err);
/* Appends the bytes that a piece of letters stands for; false (and nothing) when it has another. */
wg_status wgi_byte_letters_read(wgi_buf *out, wgi_slice piece, bool *is_good, wg_error *err);

#endif
