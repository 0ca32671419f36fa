/*
 * config_pattern.h - keys of config.json that say which layers see only their neighbourhood, and
 * how rotary positions turn (ModernBERT).
 *
 *     global_attn_every_n_layers, or layer_types      which layers are local
 *     local_attention                                 how far a local layer sees, both sides
 * together global_rope_theta, local_rope_theta,            the base of the angles in each kind of
 * layer or rope_parameters attention_bias, mlp_bias, norm_bias             which tensors have a
 * bias
 */
#ifndef WGI_CONFIG_PATTERN_H
#define WGI_CONFIG_PATTERN_H

#include "model/directory.h"
#include "model/model.h"

typedef struct wgi_pattern_reading {
    double base, base_local;               /* of the two numbers; 0: not said */
    double object_base, object_base_local; /* of rope_parameters; 0: not said */
    uint64_t local_attention, global_every;
    bool has_attention_bias, has_feed_forward_bias, has_norm_bias;
    uint32_t layer_type_count; /* 0: layer_types is not there */
    uint8_t local_layers[WGI_LAYER_MAX / 8];
    wgi_buf text;
} wgi_pattern_reading;

/* Values of ModernBertConfig where a key is not there. */
void wgi_pattern_init(wgi_pattern_reading *reading);
void wgi_pattern_fini(wgi_pattern_reading *reading);
/* Reads the value of `key` if it is one of those above; *is_taken says whether it was. */
wg_status wgi_pattern_read(wgi_pattern_reading *reading, wgi_settings *settings, wgi_slice key,
                           bool *is_taken, wg_error *err);
/* Fills out->encoder; layer_count and head_dim are known by now. */
wg_status wgi_pattern_describe(const wgi_pattern_reading *reading, const wgi_settings *settings,
                               wgi_description *out, wg_error *err);

#endif
