/*
 * description_check.h - what holds of every description that was accepted, whatever file it came
 * from: sizes below the ceilings that keep products of them in range, heads that divide, scales
 * that are numbers above 0.
 */
#ifndef WGT_DESCRIPTION_CHECK_H
#define WGT_DESCRIPTION_CHECK_H

#include <float.h>
#include <string.h>

#include "model/model.h"

static inline void expect(bool condition)
{
    if (!condition) __builtin_trap();
}

static inline void check_scale(float scale)
{
    expect(scale > 0 && scale <= FLT_MAX);
}

static inline void check_rope(const wgi_rope *rope)
{
    expect(rope->base > 0 && rope->base <= DBL_MAX);
    expect(rope->factor > 0 && rope->factor <= DBL_MAX);
    expect(!rope->is_llama3 || (rope->low > 0 && rope->low < rope->high && rope->original > 0));
}

/* Only layers that there are have a window. */
static inline void check_layers(const uint8_t *local_layers, uint32_t layer_count)
{
    for (uint32_t i = layer_count; i < WGI_LAYER_MAX; i++)
        expect(!(local_layers[i / 8] >> i % 8 & 1));
}

static inline void check_decoder(const wgi_description *d)
{
    const wgi_decoder_traits *traits = &d->decoder;

    expect(d->key_head_count > 0 && d->head_count % d->key_head_count == 0);
    expect(traits->rotary_count > 0 && traits->rotary_count <= d->head_dim);
    expect(traits->rotary_count % 2 == 0);
    expect(traits->window <= 1u << 30);
    expect(d->position_offset == 0 && d->type_count == 0);
    check_rope(&traits->rope);
    check_rope(&traits->rope_local);
    check_scale(traits->attention_scale);
    check_scale(traits->embedding_scale);
    check_scale(traits->residual_scale);
    check_layers(traits->local_layers, d->layer_count);
}

static inline void check_encoder(const wgi_description *d)
{
    const wgi_encoder_traits *traits = &d->encoder;

    expect(d->key_head_count == d->head_count);
    expect(traits->rotary_count % 2 == 0 && traits->rotary_count <= d->head_dim);
    expect(!traits->rotary_count || (traits->rotary_base > 0 && traits->rotary_base_local > 0));
    check_layers(traits->local_layers, d->layer_count);
    for (uint32_t i = 0; i < d->layer_count; i++)
        expect(!(traits->local_layers[i / 8] >> i % 8 & 1) || traits->window);
}

static inline void check_description(const wgi_description *d)
{
    expect(memchr(d->architecture, 0, sizeof(d->architecture)) && d->architecture[0]);
    expect(d->layer_count > 0 && d->layer_count <= WGI_LAYER_MAX);
    expect(d->hidden_count > 0 && d->hidden_count <= 1u << 16);
    expect(d->head_count > 0 && d->head_count <= 1u << 12);
    expect(d->head_dim > 0 && d->head_dim <= 1u << 16);
    expect(d->feed_forward_count > 0 && d->feed_forward_count <= 1u << 20);
    expect(d->vocabulary_count <= INT32_MAX && d->type_count <= 1u << 10);
    expect(d->position_offset < d->position_count && d->position_count <= 1u << 30);
    expect(d->norm_epsilon >= 0 && d->norm_epsilon <= 1);
    if (d->is_decoder)
        check_decoder(d);
    else
        check_encoder(d);
}

static inline void expect_same_rope(const wgi_rope *a, const wgi_rope *b)
{
    expect(a->base == b->base && a->factor == b->factor && a->is_llama3 == b->is_llama3);
    expect(a->low == b->low && a->high == b->high && a->original == b->original);
}

static inline void expect_same_encoder(const wgi_encoder_traits *a, const wgi_encoder_traits *b)
{
    expect(a->lacks_norm_bias == b->lacks_norm_bias);
    expect(a->lacks_attention_bias == b->lacks_attention_bias);
    expect(a->lacks_feed_forward_bias == b->lacks_feed_forward_bias);
    expect(a->rotary_count == b->rotary_count && a->window == b->window);
    expect(a->rotary_base == b->rotary_base && a->rotary_base_local == b->rotary_base_local);
    expect(memcmp(a->local_layers, b->local_layers, sizeof(a->local_layers)) == 0);
}

static inline void expect_same_decoder(const wgi_decoder_traits *a, const wgi_decoder_traits *b)
{
    expect_same_rope(&a->rope, &b->rope);
    expect_same_rope(&a->rope_local, &b->rope_local);
    expect(a->rotary_count == b->rotary_count && a->window == b->window);
    expect(memcmp(a->local_layers, b->local_layers, sizeof(a->local_layers)) == 0);
    expect(a->embedding_scale == b->embedding_scale && a->attention_scale == b->attention_scale);
    expect(a->residual_scale == b->residual_scale && a->has_qkv_bias == b->has_qkv_bias);
    expect(a->has_out_bias == b->has_out_bias && a->has_mlp_bias == b->has_mlp_bias);
    expect(a->has_head_norm == b->has_head_norm && a->has_post_norm == b->has_post_norm);
    expect(a->is_fused == b->is_fused && a->is_norm_plus_one == b->is_norm_plus_one);
    expect(a->keep_stored == b->keep_stored && a->has_rope_factors == b->has_rope_factors);
}

/* By member: bytes between members may be anything. */
static inline void expect_same_description(const wgi_description *a, const wgi_description *b)
{
    expect(strcmp(a->architecture, b->architecture) == 0 && a->is_decoder == b->is_decoder);
    expect(a->layer_count == b->layer_count && a->hidden_count == b->hidden_count);
    expect(a->head_count == b->head_count && a->key_head_count == b->key_head_count);
    expect(a->head_dim == b->head_dim && a->feed_forward_count == b->feed_forward_count);
    expect(a->vocabulary_count == b->vocabulary_count && a->type_count == b->type_count);
    expect(a->position_count == b->position_count && a->position_offset == b->position_offset);
    expect(a->activation == b->activation && a->norm_epsilon == b->norm_epsilon);
    expect(a->has_pooling == b->has_pooling && a->pooling == b->pooling);
    expect_same_encoder(&a->encoder, &b->encoder);
    expect_same_decoder(&a->decoder, &b->decoder);
}

#endif
