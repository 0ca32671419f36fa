/*
 * head.h - the head of a sequence classifier: what stands behind the encoder in a directory that
 * one of transformers' ...ForSequenceClassification classes wrote, and what its labels are called.
 *
 *   pooled   the first token's hidden state, or the mean of all (is_mean)
 *   x        norm(activation(dense pooled)); without a norm, activation(dense pooled)
 *   scores   out x, one a label
 *
 * Tensors are borrowed from the weights and have been checked: type, shape, and one row a label.
 */
#ifndef WGI_HEAD_H
#define WGI_HEAD_H

#include "model/model.h"

/* What the scores mean (problem_type). */
typedef enum wgi_problem {
    WGI_PROBLEM_UNSAID,
    WGI_PROBLEM_REGRESSION,   /* scores are numbers as they are */
    WGI_PROBLEM_SINGLE_LABEL, /* softmax: one label holds */
    WGI_PROBLEM_MULTI_LABEL   /* sigmoid: each label holds or not */
} wgi_problem;

typedef struct wgi_head_layer {
    const wgi_tensor *weight, *bias; /* [out, in], [out]; bias NULL: none */
} wgi_head_layer;

typedef struct wgi_head {
    uint32_t label_count; /* 0: there is no head, and nothing else is set */
    char **labels;        /* [label_count], UTF-8: id2label, or "LABEL_0", ... */
    wgi_problem problem;
    bool is_mean;         /* else the first token */
    wgi_head_layer dense; /* [H, H] */
    wgi_activation activation;
    const wgi_tensor *norm_weight,
        *norm_bias;     /* [H]; weight NULL: no norm; epsilon: description's */
    wgi_head_layer out; /* [label_count, H] */
} wgi_head;

/*
 * Reads the head that config.json's architectures names, where the family has one. None: a GGUF
 * file, another class, or a file without a single tensor of the head (logged), as the class of the
 * bare model leaves it. WG_ERR_FORMAT names the tensor that is missing or contradicts the labels.
 */
wg_status wgi_head_load(wgi_head *out, const char *directory, const wgi_description *description,
                        const wgi_weights *weights, wg_error *err);
void wgi_head_fini(wgi_head *head);

/* "regression", ...; "" when it is not said. */
const char *wgi_problem_name(wgi_problem problem);

#endif
