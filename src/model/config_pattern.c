/*
 * config_pattern.c - local and global layers, rotary bases, and biases of an encoder's config.json.
 *
 * Two spellings are in use for the same thing: a period (layer i is global when i is a multiple of
 * it) or a list of names; two numbers or an object with one entry for each kind of layer. The list
 * and the object win, as in transformers. A kind of layer or of rotary scaling that is not known is
 * refused by name.
 *
 * A local layer's query sees keys at most local_attention / 2 rows away, rounded down, on each
 * side.
 *
 * Threads: no shared state.
 */
#include "model/config_pattern.h"

#include <string.h>

static const char types_key[] = "layer_types", rope_key[] = "rope_parameters";
static const char global_name[] = "full_attention", local_name[] = "sliding_attention";

void wgi_pattern_init(wgi_pattern_reading *reading)
{
    *reading = (wgi_pattern_reading){.local_attention = 128, .global_every = 3};
}

void wgi_pattern_fini(wgi_pattern_reading *reading)
{
    wgi_buf_fini(&reading->text);
}

static wg_status refuse(const wgi_pattern_reading *reading, const wgi_settings *settings,
                        const char *key, const char *supported, wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];

    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s \"%s\" (supported: %s)",
                    settings->path, key,
                    wgi_text_show(shown, reading->text.data, reading->text.count), supported);
}

static wg_status read_types(wgi_pattern_reading *reading, wgi_settings *settings, wg_error *err)
{
    wgi_json *json = &settings->json;
    wg_status status = WG_OK;
    uint32_t count = 0;

    memset(reading->local_layers, 0, sizeof(reading->local_layers));
    reading->layer_type_count = 0;
    if (wgi_settings_take_null(settings)) return WG_OK;
    WGI_TRY(wgi_settings_blame(settings, types_key, wgi_json_array_begin(json, err), err));
    while (wgi_json_array_next(json)) {
        bool is_local;

        WGI_TRY(wgi_settings_string(settings, types_key, &reading->text, err));
        is_local = strcmp(reading->text.data, local_name) == 0;
        if (!is_local && strcmp(reading->text.data, global_name) != 0)
            return refuse(reading, settings, types_key, "full_attention, sliding_attention", err);
        if (count == WGI_LAYER_MAX)
            return wgi_settings_fail(settings, types_key, WG_ERR_FORMAT, err, "more than %d layers",
                                     WGI_LAYER_MAX);
        if (is_local) reading->local_layers[count / 8] |= (uint8_t)(1u << count % 8);
        count++;
    }
    WGI_TRY(wgi_settings_blame(settings, types_key, wgi_json_status(json, err), err));
    if (count == 0)
        return wgi_settings_fail(settings, types_key, WG_ERR_FORMAT, err, "the list is empty");
    reading->layer_type_count = count;

cleanup:
    return status;
}

static wg_status read_base(wgi_settings *settings, const char *key, double *out, wg_error *err)
{
    wg_status status = wgi_settings_double(settings, key, out, err);

    if (status != WG_OK || (*out > 0 && *out <= 1e12)) return status;
    return wgi_settings_fail(settings, key, WG_ERR_FORMAT, err, "%g is out of range", *out);
}

/* {"rope_type": "default", "rope_theta": 10000.0} */
static wg_status read_rope(wgi_pattern_reading *reading, wgi_settings *settings, double *base,
                           wg_error *err)
{
    wgi_json *json = &settings->json;
    wg_status status = WG_OK;
    char shown[WGI_SHOWN_BYTES];
    wgi_slice key;

    if (wgi_settings_take_null(settings)) return WG_OK;
    WGI_TRY(wgi_settings_blame(settings, rope_key, wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key)) {
        if (wgi_slice_is(key, "rope_theta")) {
            WGI_TRY(read_base(settings, "rope_parameters.rope_theta", base, err));
        } else if (wgi_slice_is(key, "rope_type")) {
            WGI_TRY(
                wgi_settings_string(settings, "rope_parameters.rope_type", &reading->text, err));
            if (strcmp(reading->text.data, "default") != 0)
                return refuse(reading, settings, "rope_parameters.rope_type", "default", err);
        } else {
            return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s.%s", settings->path,
                            rope_key, wgi_text_show(shown, key.data, key.count));
        }
    }
    WGI_TRY(wgi_settings_blame(settings, rope_key, wgi_json_status(json, err), err));

cleanup:
    return status;
}

/* One entry for each kind of layer. */
static wg_status read_ropes(wgi_pattern_reading *reading, wgi_settings *settings, wg_error *err)
{
    wgi_json *json = &settings->json;
    wg_status status = WG_OK;
    char shown[WGI_SHOWN_BYTES];
    wgi_slice key;

    if (wgi_settings_take_null(settings)) return WG_OK;
    WGI_TRY(wgi_settings_blame(settings, rope_key, wgi_json_object_begin(json, err), err));
    while (wgi_json_object_next(json, &key)) {
        bool is_local = wgi_slice_is(key, local_name);

        if (!is_local && !wgi_slice_is(key, global_name))
            return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: not supported yet: %s.%s", settings->path,
                            rope_key, wgi_text_show(shown, key.data, key.count));
        WGI_TRY(read_rope(reading, settings,
                          is_local ? &reading->object_base_local : &reading->object_base, err));
    }
    WGI_TRY(wgi_settings_blame(settings, rope_key, wgi_json_status(json, err), err));

cleanup:
    return status;
}

wg_status wgi_pattern_read(wgi_pattern_reading *reading, wgi_settings *settings, wgi_slice key,
                           bool *is_taken, wg_error *err)
{
    const struct {
        const char *key;
        bool *value;
    } flags[] = {{"attention_bias", &reading->has_attention_bias},
                 {"mlp_bias", &reading->has_feed_forward_bias},
                 {"norm_bias", &reading->has_norm_bias}};
    const struct {
        const char *key;
        double *value;
    } bases[] = {{"global_rope_theta", &reading->base}, {"local_rope_theta", &reading->base_local}};
    const struct {
        const char *key;
        uint64_t most, *value;
    } counts[] = {{"local_attention", 1u << 24, &reading->local_attention},
                  {"global_attn_every_n_layers", WGI_LAYER_MAX, &reading->global_every}};

    *is_taken = true;
    for (size_t i = 0; i < 3; i++)
        if (wgi_slice_is(key, flags[i].key))
            return wgi_settings_bool(settings, flags[i].key, flags[i].value, err);
    for (size_t i = 0; i < 2; i++) {
        if (!wgi_slice_is(key, bases[i].key)) continue;
        *bases[i].value = 0;
        if (wgi_settings_take_null(settings)) return WG_OK;
        return read_base(settings, bases[i].key, bases[i].value, err);
    }
    for (size_t i = 0; i < 2; i++)
        if (wgi_slice_is(key, counts[i].key))
            return wgi_settings_count(settings, counts[i].key, counts[i].most, counts[i].value,
                                      err);
    if (wgi_slice_is(key, types_key)) return read_types(reading, settings, err);
    if (wgi_slice_is(key, rope_key)) return read_ropes(reading, settings, err);
    *is_taken = false;
    return WG_OK;
}

wg_status wgi_pattern_describe(const wgi_pattern_reading *reading, const wgi_settings *settings,
                               wgi_description *out, wg_error *err)
{
    wgi_encoder_traits *traits = &out->encoder;

    if (reading->layer_type_count && reading->layer_type_count != out->layer_count)
        return wgi_settings_fail(settings, types_key, WG_ERR_FORMAT, err,
                                 "names %u layers, num_hidden_layers is %u",
                                 reading->layer_type_count, out->layer_count);
    if (out->head_dim % 2)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "%s: hidden_size / num_attention_heads is %u; rotary positions need an "
                        "even number",
                        settings->path, out->head_dim);
    traits->lacks_attention_bias = !reading->has_attention_bias;
    traits->lacks_feed_forward_bias = !reading->has_feed_forward_bias;
    traits->lacks_norm_bias = !reading->has_norm_bias;
    traits->rotary_count = out->head_dim;
    traits->rotary_base = reading->object_base > 0 ? reading->object_base
                          : reading->base > 0      ? reading->base
                                                   : 160000;
    traits->rotary_base_local = reading->object_base_local > 0 ? reading->object_base_local
                                : reading->base_local > 0      ? reading->base_local
                                                               : 10000;
    traits->window = (uint32_t)(reading->local_attention / 2 + 1);
    for (uint32_t i = 0; i < out->layer_count; i++) {
        bool is_local = reading->layer_type_count ? reading->local_layers[i / 8] >> i % 8 & 1
                                                  : i % reading->global_every != 0;
        if (is_local) traits->local_layers[i / 8] |= (uint8_t)(1u << i % 8);
    }
    return WG_OK;
}
