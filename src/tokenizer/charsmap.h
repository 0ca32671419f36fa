/*
 * charsmap.h - the precompiled character map of a SentencePiece model, as the normaliser
 * Precompiled uses it: a double array from strings to strings.
 */
#ifndef WGI_CHARSMAP_H
#define WGI_CHARSMAP_H

#include "tokenizer/normalizer.h"

/* From the file's base64. A map that is cut is WG_ERR_FORMAT. */
wg_status wgi_charsmap_open(wgi_charsmap **out, wgi_slice base64, wg_error *err);
void wgi_charsmap_close(wgi_charsmap *map);
/* What the shortest key that begins `text` stands for; false when there is none. */
bool wgi_charsmap_find(const wgi_charsmap *map, wgi_slice text, wgi_slice *to);

#endif
