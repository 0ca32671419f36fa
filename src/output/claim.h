/*
 * claim.h - may this path be written, with these inputs? Part of src/output for its own use.
 */
#ifndef WGI_CLAIM_H
#define WGI_CLAIM_H

#include <stddef.h>

#include "base/status.h"

/*
 * Refuses a path that is an input, lies in an input directory, or would come to be an input once it
 * is made; "-" is standard output. `what` begins the sentence: "the output".
 */
wg_status wgi_claim_check(const char *path, const char *what, const char *const *inputs,
                          size_t input_count, wg_error *err);

#endif
