/*
 * backoff.h - how large a bin may be after one did not fit.
 */
#ifndef WGI_BACKOFF_H
#define WGI_BACKOFF_H

#include <stdint.h>

typedef struct wgi_backoff {
    uint64_t most;  /* what was measured at the start */
    uint64_t least; /* never below */
    double tokens;  /* capacity now */
    double step;    /* tokens that the last failure took away, 0: none so far */
} wgi_backoff;

void wgi_backoff_init(wgi_backoff *backoff, uint64_t tokens);
static inline uint64_t wgi_backoff_tokens(const wgi_backoff *backoff)
{
    return (uint64_t)backoff->tokens;
}
/* A bin of so many tokens did not fit; was done. */
void wgi_backoff_failed(wgi_backoff *backoff, uint64_t tokens);
void wgi_backoff_done(wgi_backoff *backoff, uint64_t tokens);

#endif
