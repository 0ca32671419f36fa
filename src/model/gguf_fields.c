/*
 * gguf_fields.c - the metadata that describes a model; see gguf_names.h.
 *
 * The idea: keys are "ARCHITECTURE.something" and mean the same for every architecture, so one
 * table of (something, where it goes, range, default) reads them all. What cannot be a row is
 * written out below it: the architecture itself, what depends on two keys, and settings that would
 * change the answer and are refused by name.
 *
 * Threads: no shared state.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/directory.h"
#include "model/gguf_names.h"

#define BIT(architecture) (1u << WGI_GGUF_##architecture)
#define ALL               ((1u << WGI_GGUF_ARCHITECTURE_COUNT) - 1)
#define DECODERS          (ALL & ~BIT(BERT))

#define KEY_BYTES  96
#define FLOAT_MOST 1e15

typedef struct field_row {
    const char *key; /* behind "ARCHITECTURE." */
    size_t at;
    uint64_t least, most; /* of a count; most 0: a float */
    double initial;       /* where the key is not and need not be */
    unsigned needed_by;   /* architectures that must have the key, and that alone have it; 0: any */
} field_row;

#define AT(field) offsetof(wgi_gguf_fields, field)

/* Ceilings far above any published model; whether a size is true is for the tensors to say. */
static const field_row rows[] = {
    {"block_count", AT(layer_count), 1, 1u << 12, 0, ALL},
    {"embedding_length", AT(hidden_count), 1, 1u << 16, 0, ALL},
    {"feed_forward_length", AT(feed_forward_count), 1, 1u << 20, 0, ALL},
    {"attention.head_count", AT(head_count), 1, 1u << 12, 0, ALL},
    {"attention.head_count_kv", AT(key_head_count), 1, 1u << 12, 0, 0},
    {"attention.key_length", AT(head_dim), 1, 1u << 12, 0, 0},
    {"rope.dimension_count", AT(rotary_count), 1, 1u << 12, 0, 0},
    {"context_length", AT(position_count), 1, 1u << 30, 0, ALL},
    {"attention.layer_norm_rms_epsilon", AT(norm_epsilon), 0, 0, 0, DECODERS},
    {"attention.layer_norm_epsilon", AT(norm_epsilon), 0, 0, 0, BIT(BERT)},
    {"rope.freq_base", AT(rope_base), 0, 0, 10000, 0},
    {"rope.freq_base_swa", AT(rope_base_local), 0, 0, 10000, 0},
    {"attention.sliding_window", AT(sliding_window), 0, 1u << 30, 0, 0},
    {"attention.sliding_window_pattern", AT(sliding_pattern), 1, 1u << 12, 0, 0},
    {"attention.scale", AT(attention_scale), 0, 0, 0, 0},
    {"attn_logit_softcapping", AT(attention_softcap), 0, 0, 0, 0},
    {"final_logit_softcapping", AT(final_softcap), 0, 0, 0, 0},
};

typedef struct fields_reading {
    wgi_gguf_fields *out;
    const wgi_gguf *gguf;
    char key[KEY_BYTES]; /* the key that is being read */
} fields_reading;

/* Sets reading->key; says whether the file has it. */
static bool has_key(fields_reading *reading, const char *suffix)
{
    (void)snprintf(reading->key, KEY_BYTES, "%s.%s",
                   wgi_gguf_architecture_name(reading->out->architecture), suffix);
    return wgi_gguf_has(reading->gguf, reading->key);
}

static wg_status fail_key(const fields_reading *reading, wg_status status, const char *text,
                          wg_error *err)
{
    return wgi_fail(err, status, "%s: key %s: %s", wgi_gguf_path(reading->gguf), reading->key,
                    text);
}

static wg_status refuse_value(const fields_reading *reading, const char *key, wgi_slice value,
                              const char *allowed, wg_error *err)
{
    char shown[WGI_SHOWN_BYTES];

    return wgi_fail(err, WG_ERR_UNSUPPORTED, "%s: key %s: '%s' is not supported (%s)",
                    wgi_gguf_path(reading->gguf), key,
                    wgi_text_show(shown, value.data, value.count), allowed);
}

/* What is neither 0 nor of a size that a float and products of it can hold is of no model. */
static wg_status check_float(const fields_reading *reading, double value, double most,
                             wg_error *err)
{
    if (value == 0 || (value >= 1e-30 && value <= most)) return WG_OK;
    return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: %g is not from 1e-30 to %g",
                    wgi_gguf_path(reading->gguf), reading->key, value, most);
}

static wg_status read_row(fields_reading *reading, const field_row *row, wg_error *err)
{
    void *to = (char *)reading->out + row->at;
    bool is_needed = row->needed_by >> reading->out->architecture & 1;
    uint64_t count = (uint64_t)row->initial;
    double value = row->initial;
    bool is_there = has_key(reading, row->key);
    wg_status status = WG_OK;

    /* Two keys may fill one field, each for its architectures. */
    if (row->needed_by && !is_needed) return WG_OK;
    if (row->most == 0 && (is_there || is_needed)) {
        WGI_TRY(wgi_gguf_float(reading->gguf, reading->key, &value, err));
        if (value < 0) return fail_key(reading, WG_ERR_FORMAT, "the float is negative", err);
        WGI_TRY(check_float(reading, value, row->at == AT(norm_epsilon) ? 1 : FLOAT_MOST, err));
    } else if (is_there || is_needed) {
        WGI_TRY(wgi_gguf_uint(reading->gguf, reading->key, &count, err));
        if (count < row->least || count > row->most)
            return wgi_fail(err, WG_ERR_FORMAT, "%s: key %s: %llu is not from %llu to %llu",
                            wgi_gguf_path(reading->gguf), reading->key, (unsigned long long)count,
                            (unsigned long long)row->least, (unsigned long long)row->most);
    }
    if (row->most == 0)
        memcpy(to, &value, sizeof(value));
    else
        memcpy(to, &count, sizeof(count));

cleanup:
    return status;
}

/* -------------------------------------------------------------------------- what is not a row */

static wg_status read_architecture(fields_reading *reading, wg_error *err)
{
    static const char key[] = "general.architecture", type_key[] = "general.type";
    static const char split_key[] = "split.count";
    wg_status status = WG_OK;
    uint64_t split_count = 0;
    wgi_slice name, type;
    int found = -1;

    WGI_TRY(wgi_gguf_string(reading->gguf, key, &name, err));
    for (int i = 0; i < WGI_GGUF_ARCHITECTURE_COUNT; i++)
        if (wgi_slice_is(name, wgi_gguf_architecture_name((wgi_gguf_architecture)i))) found = i;
    if (found < 0)
        return refuse_value(reading, key, name, "llama, qwen2, qwen3, gemma3 and bert are", err);
    reading->out->architecture = (wgi_gguf_architecture)found;

    if (wgi_gguf_has(reading->gguf, type_key)) {
        WGI_TRY(wgi_gguf_string(reading->gguf, type_key, &type, err));
        if (!wgi_slice_is(type, "model"))
            return refuse_value(reading, type_key, type, "a whole model is needed", err);
    }
    if (wgi_gguf_has(reading->gguf, split_key)) {
        WGI_TRY(wgi_gguf_uint(reading->gguf, split_key, &split_count, err));
        if (split_count > 1)
            return wgi_fail(err, WG_ERR_UNSUPPORTED,
                            "%s: key %s: one of %llu parts of a split model; join them into one "
                            "file first",
                            wgi_gguf_path(reading->gguf), split_key,
                            (unsigned long long)split_count);
    }

cleanup:
    return status;
}

/*
 * The tensor says how many token types there are. The key may be left out, and converters write 1
 * for a model that has no such tensor at all (DistilBERT).
 */
static wg_status read_types(fields_reading *reading, wg_error *err)
{
    static const char key[] = "tokenizer.ggml.token_type_count";
    const wgi_tensor *table = wgi_gguf_find(reading->gguf, "token_types.weight");
    uint64_t said = 0, found = table && table->rank == 2 ? table->shape[0] : 0;
    wg_status status = WG_OK;

    if (wgi_gguf_has(reading->gguf, key)) WGI_TRY(wgi_gguf_uint(reading->gguf, key, &said, err));
    if (said > 1 || (said == 1 && table)) found = said; /* a table that differs is refused later */
    reading->out->type_count = found;

cleanup:
    return status;
}

static wg_status read_vocabulary(fields_reading *reading, wg_error *err)
{
    static const char key[] = "tokenizer.ggml.tokens";
    wgi_gguf_fields *out = reading->out;
    const wgi_tensor *embedding = NULL;
    wg_status status = WG_OK;
    wgi_gguf_array tokens;

    if (wgi_gguf_has(reading->gguf, key)) {
        WGI_TRY(wgi_gguf_strings(reading->gguf, key, &tokens, err));
        out->token_count = tokens.count;
    }
    WGI_TRY(read_types(reading, err));
    embedding = wgi_gguf_find(reading->gguf, "token_embd.weight");
    if (!embedding) return WG_OK; /* whoever needs the tensor says so */
    if (embedding->rank != 2 || embedding->shape[0] > INT32_MAX ||
        embedding->shape[0] < out->token_count)
        return wgi_fail(err, WG_ERR_FORMAT,
                        "%s: tensor 'token_embd.weight' has no row for each of the %llu strings of "
                        "key %s",
                        wgi_gguf_path(reading->gguf), (unsigned long long)out->token_count, key);
    out->vocabulary_count = embedding->shape[0];

cleanup:
    return status;
}

static wg_status read_heads(fields_reading *reading, wg_error *err)
{
    wgi_gguf_fields *out = reading->out;
    wg_status status = WG_OK;
    uint64_t value_dim = 0;

    if (out->key_head_count == 0) out->key_head_count = out->head_count;
    if (out->head_count % out->key_head_count != 0) {
        (void)has_key(reading, "attention.head_count_kv");
        return fail_key(reading, WG_ERR_FORMAT, "it does not divide attention.head_count", err);
    }
    if (out->head_dim == 0) {
        if (out->hidden_count % out->head_count != 0) {
            (void)has_key(reading, "attention.head_count");
            return fail_key(reading, WG_ERR_FORMAT, "it does not divide embedding_length", err);
        }
        out->head_dim = out->hidden_count / out->head_count;
    }
    if (has_key(reading, "attention.value_length")) {
        WGI_TRY(wgi_gguf_uint(reading->gguf, reading->key, &value_dim, err));
        if (value_dim != out->head_dim)
            return fail_key(reading, WG_ERR_UNSUPPORTED,
                            "values of another size than keys are not supported", err);
    }
    if (out->architecture == WGI_GGUF_BERT) {
        out->rotary_count = 0;
    } else if (out->rotary_count == 0) {
        out->rotary_count = out->head_dim;
    } else if (out->rotary_count > out->head_dim) {
        (void)has_key(reading, "rope.dimension_count");
        return fail_key(reading, WG_ERR_FORMAT, "it is more than a head has", err);
    }

cleanup:
    return status;
}

/* Only linear scaling is a number here; llama3's is a tensor. */
static wg_status read_scaling(fields_reading *reading, wg_error *err)
{
    wgi_gguf_fields *out = reading->out;
    wg_status status = WG_OK;
    bool is_none = false;
    double factor = 0;
    wgi_slice type;

    if (has_key(reading, "rope.scaling.type")) {
        WGI_TRY(wgi_gguf_string(reading->gguf, reading->key, &type, err));
        is_none = wgi_slice_is(type, "none");
        if (!is_none && !wgi_slice_is(type, "linear"))
            return refuse_value(reading, reading->key, type, "none and linear are", err);
    }
    /* The second is what the key was called before the first. */
    if (has_key(reading, "rope.scaling.factor") || has_key(reading, "rope.scale_linear"))
        WGI_TRY(wgi_gguf_float(reading->gguf, reading->key, &factor, err));
    if (factor < 0) return fail_key(reading, WG_ERR_FORMAT, "the factor is negative", err);
    WGI_TRY(check_float(reading, factor, FLOAT_MOST, err));
    out->rope_factor = is_none || factor == 0 ? 1 : factor;

cleanup:
    return status;
}

static wg_status read_others(fields_reading *reading, wg_error *err)
{
    wgi_gguf_fields *out = reading->out;
    wg_status status = WG_OK;
    uint64_t experts = 0;

    if (has_key(reading, "expert_count")) {
        WGI_TRY(wgi_gguf_uint(reading->gguf, reading->key, &experts, err));
        if (experts > 0)
            return fail_key(reading, WG_ERR_UNSUPPORTED, "mixtures of experts are not supported",
                            err);
    }
    out->is_causal = out->architecture != WGI_GGUF_BERT;
    if (has_key(reading, "attention.causal"))
        WGI_TRY(wgi_gguf_bool(reading->gguf, reading->key, &out->is_causal, err));
    if (out->is_causal && out->architecture == WGI_GGUF_BERT)
        return fail_key(reading, WG_ERR_UNSUPPORTED, "a causal BERT is not supported", err);
    out->pooling_type = -1;
    if (has_key(reading, "pooling_type"))
        WGI_TRY(wgi_gguf_int(reading->gguf, reading->key, &out->pooling_type, err));
    /* The files do not say it: every sixth layer of every published Gemma 3 sees everything. */
    if (out->architecture == WGI_GGUF_GEMMA3 && out->sliding_pattern == 0) out->sliding_pattern = 6;
    out->has_rope_factors = wgi_gguf_find(reading->gguf, "rope_freqs.weight") != NULL;
    out->has_output = wgi_gguf_find(reading->gguf, "output.weight") != NULL;

cleanup:
    return status;
}

wg_status wgi_gguf_fields_read(wgi_gguf_fields *out, const wgi_gguf *gguf, wg_error *err)
{
    fields_reading reading = {.out = out, .gguf = gguf};
    wg_status status = WG_OK;

    *out = (wgi_gguf_fields){0};
    WGI_TRY(read_architecture(&reading, err));
    WGI_TRY(read_vocabulary(&reading, err));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        WGI_TRY(read_row(&reading, &rows[i], err));
    WGI_TRY(read_heads(&reading, err));
    WGI_TRY(read_scaling(&reading, err));
    WGI_TRY(read_others(&reading, err));

cleanup:
    return status;
}
