/*
 * warpgroup.h - run transformer prefill over many texts of uneven length.
 *
 * A model is weights, tokenizer and backend; it is read-only once open and may be
 * shared by threads. A job is the whole road, from files to rows; a reader and a
 * tokenizer are the first two stops of that road for those who want a part.
 *
 *     wg_model *model = NULL;
 *     wg_error err;
 *     const char *texts[] = {"first text", "second, longer text"};
 *     float vectors[2 * 384];
 *
 *     if (wg_model_open(&model, &(wg_model_options){.path = path}, &err) != WG_OK ||
 *         wg_model_embed(model, texts, NULL, 2, vectors, sizeof(vectors), NULL, &err) != WG_OK)
 *         fprintf(stderr, "%s\n", err.message);
 *     wg_model_close(model);
 *
 * Errors: every call that can fail returns wg_status and, when err is not NULL, fills
 * it; the library never prints, exits or aborts. Options: zero means default.
 * Ownership: what an _open call hands out is given back to its _close call, which takes
 * NULL; every other pointer that is handed out is borrowed, until when is said there.
 * Threads: calls on different handles never meet; calls on one handle are for one
 * thread at a time, except where "any thread" is said.
 */
#ifndef WARPGROUP_H
#define WARPGROUP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WG_API     __attribute__((visibility("default")))
#define WG_CHECKED __attribute__((warn_unused_result)) /* dropping a status is a warning */

#define WG_VERSION "0.1.0"

/* X(name, value, text): values are frozen once released, new ones are appended. */
#define WG_STATUS_MAP(X)                                \
    X(OK, 0, "ok")                                      \
    X(ERR_NO_MEMORY, -1, "out of memory")               \
    X(ERR_IO, -2, "input or output failed")             \
    X(ERR_FORMAT, -3, "malformed file")                 \
    X(ERR_LIMIT, -4, "a configured limit was exceeded") \
    X(ERR_ARGUMENT, -5, "invalid argument")             \
    X(ERR_BACKEND, -6, "the backend failed")            \
    X(ERR_BUSY, -7, "in use")                           \
    X(ERR_CLOSED, -8, "closed or finished")             \
    X(ERR_UNSUPPORTED, -9, "known, but not supported")  \
    X(ERR_INTERRUPTED, -10, "stopped on request")

typedef enum wg_status {
#define WG_STATUS_ENUM(name, value, text) WG_##name = (value),
    WG_STATUS_MAP(WG_STATUS_ENUM)
#undef WG_STATUS_ENUM
} wg_status;

/* Filled by the call that failed; lives in the caller, so it needs no heap and no lock. */
typedef struct wg_error {
    wg_status status;
    char message[512];
} wg_error;

WG_API const char *wg_status_text(wg_status status);
WG_API const char *wg_version(void);

/*
 * Log: silent unless a callback is set. Called from any thread, one call at a time;
 * `message` is borrowed for the call and has no newline. Process-wide: set it before
 * anything is opened.
 */
typedef enum wg_log_level {
    WG_LOG_ERROR = 0,
    WG_LOG_WARNING = 1,
    WG_LOG_INFO = 2,
    WG_LOG_DEBUG = 3
} wg_log_level;
typedef void (*wg_log_function)(void *context, wg_log_level level, const char *message);
WG_API void wg_log_set(wg_log_function function, void *context, wg_log_level most);

/* ------------------------------------------------------------------ reader: files -> documents */

typedef enum wg_format {
    WG_FORMAT_AUTO = 0, /* by content and suffix */
    WG_FORMAT_TEXT,
    WG_FORMAT_JSONL,
    WG_FORMAT_PDF
} wg_format;

/* Why a document could not be done. X(name, code written to failures.jsonl). */
#define WG_FAILURE_MAP(X)               \
    X(NONE, "")                         \
    X(NO_TEXT_LAYER, "no_text_layer")   \
    X(NEEDS_PASSWORD, "needs_password") \
    X(DAMAGED, "damaged")               \
    X(BAD_ENCODING, "bad_encoding")     \
    X(BAD_JSON, "bad_json")             \
    X(NO_TEXT, "no_text")               \
    X(TOO_LONG, "too_long")             \
    X(NO_TOKENS, "no_tokens")           \
    X(NOT_FINITE, "not_finite")         \
    X(IO, "io")                         \
    X(BAD_TOKEN, "bad_token")           \
    X(NO_MEMORY, "no_memory")

typedef enum wg_failure {
#define WG_FAILURE_ENUM(name, code) WG_FAILURE_##name,
    WG_FAILURE_MAP(WG_FAILURE_ENUM)
#undef WG_FAILURE_ENUM
} wg_failure;

WG_API const char *wg_failure_code(wg_failure failure);

/* What `place` in a document counts. */
typedef enum wg_place {
    WG_PLACE_NONE = 0,
    WG_PLACE_LINE,  /* 1-based line of the unpacked file */
    WG_PLACE_PAGE,  /* 1-based */
    WG_PLACE_OFFSET /* byte offset in the unpacked file */
} wg_place;

/*
 * One document as it was read, or the failure that stands in its place. All pointers
 * are borrowed until the next wg_reader_next() or wg_reader_close().
 */
typedef struct wg_document {
    uint64_t ordinal; /* 0, 1, ...: position in the input, failures count */
    const char *id;   /* the id as a JSON value: a quoted string, or the literal of the record */
    size_t id_bytes;
    const char *source; /* path as JSON text without quotes (bytes that are not UTF-8: \udcXX) */
    size_t source_bytes;
    wg_place place_kind;
    uint64_t place;
    const char *text; /* UTF-8, may hold NUL; NULL when ids were given or on failure */
    size_t text_bytes;
    const int32_t *token_ids; /* ready ids (ids_field), else NULL */
    size_t token_count;
    wg_failure failure;
    const char *reason; /* a sentence, NUL-terminated; "" without failure */
} wg_document;

typedef struct wg_reader_options {
    const char *const
        *inputs; /* files, directories, "-" for standard input; borrowed until close */
    size_t input_count;
    wg_format format;       /* forced for every input; AUTO: by content and suffix, "-" is JSONL */
    const char *text_field; /* default "text"; dotted paths allowed, a literal key wins */
    const char *id_field;   /* default "id" */
    const char *ids_field;  /* NULL: records carry text */
    const char *pdf_password;   /* NULL: the empty one */
    int lines;                  /* text files: one document a line */
    uint32_t pdf_process_count; /* PDF children at once; 0: as many as there are cores */
    uint64_t pdf_seconds;       /* limit on one PDF; 0: 120 */
    uint64_t pdf_memory_bytes;  /* limit on one child; 0: 1 GiB */
    uint64_t record_bytes_max;  /* longest record or document; 0: 16 MiB for a JSONL record or line,
                                   256 MiB for a text file or the text of a PDF */
} wg_reader_options;

/* Counted while reading; failures are documents, warnings are not. */
typedef struct wg_reader_counts {
    uint64_t documents; /* handed out, failures included */
    uint64_t failures;
    uint64_t warnings;      /* each was also logged with file and place */
    uint64_t files;         /* opened as input */
    uint64_t files_skipped; /* in directories, of unknown kind */
    uint64_t bytes;         /* read, unpacked */
} wg_reader_counts;

typedef struct wg_reader wg_reader;

/* An input that does not exist is one failed document later on, not an error here. */
WG_API WG_CHECKED wg_status wg_reader_open(wg_reader **out, const wg_reader_options *options,
                                           wg_error *err);

/*
 * Next document in input order; *has_document is 0 at the end. A status that is not WG_OK
 * means that reading cannot go on (memory); bad input is a document with a failure.
 */
WG_API WG_CHECKED wg_status wg_reader_next(wg_reader *reader, wg_document *document,
                                           int *has_document, wg_error *err);
/*
 * Asks a reader to stop: the wg_reader_next that runs, or the next one, returns
 * WG_ERR_INTERRUPTED, also while it waits for a pipe or a PDF. Any thread; async-signal-safe.
 */
WG_API void wg_reader_stop(const wg_reader *reader);
WG_API wg_reader_counts wg_reader_counted(const wg_reader *reader);
WG_API void wg_reader_close(wg_reader *reader);

/* --------------------------------------------------------------- tokenizer: text -> token ids */

typedef enum wg_truncate {
    WG_TRUNCATE_HEAD = 0, /* keep the first tokens */
    WG_TRUNCATE_TAIL,     /* keep the last tokens */
    WG_TRUNCATE_ERROR     /* the document fails with too_long */
} wg_truncate;

typedef struct wg_tokenizer wg_tokenizer;

/* One encoding. The caller owns it, zeroes it once, reuses it, and frees it with _fini. */
typedef struct wg_encoding {
    int32_t *token_ids; /* [token_count] */
    int32_t *type_ids;  /* [token_count]; all 0 for a single text */
    size_t token_count;
    size_t capacity;      /* of both arrays, in tokens */
    int is_truncated;     /* tokens were left out */
    size_t content_begin; /* first token that is not a special token of the template */
    size_t content_end;   /* one past the last such token */
    void *scratch;        /* buffers kept between calls */
} wg_encoding;

typedef struct wg_encode_options {
    size_t token_count_max; /* special tokens included; 0: no limit */
    wg_truncate truncate;
    int no_special_tokens; /* leave the template's special tokens out */
    int plain_specials;    /* special tokens written in the text are plain text */
} wg_encode_options;

/* `path`: a model directory that holds tokenizer.json, that file, or a GGUF file. */
WG_API WG_CHECKED wg_status wg_tokenizer_open(wg_tokenizer **out, const char *path, wg_error *err);
WG_API void wg_tokenizer_close(wg_tokenizer *tokenizer);

/*
 * Encodes one text, or a pair when `pair` is not NULL (pairs truncate longest first).
 * Any thread, each with its own encoding. WG_ERR_LIMIT: over the limit with TRUNCATE_ERROR.
 * text: UTF-8, [text_bytes] bytes, may hold NUL; bytes that are not UTF-8 count as U+FFFD.
 */
WG_API WG_CHECKED wg_status wg_tokenizer_encode(const wg_tokenizer *tokenizer, const char *text,
                                                size_t text_bytes, const char *pair,
                                                size_t pair_bytes, const wg_encode_options *options,
                                                wg_encoding *encoding, wg_error *err);
WG_API void wg_encoding_fini(wg_encoding *encoding);

/* Text of tokens. Zero it before the first decoding, reuse it, wg_decoding_fini() at the end. */
typedef struct wg_decoding {
    char *text;        /* [text_bytes] UTF-8 and a NUL behind; until the next call */
    size_t text_bytes; /* it may hold NUL */
    void *scratch;
} wg_decoding;

/*
 * The text that token ids stand for, as the "decoder" of tokenizer.json puts it together, equal to
 * decode() of Hugging Face tokenizers; a GGUF file's as its kind of vocabulary does. Any thread,
 * each with its own decoding. An id without a token gives nothing, as in the original.
 * token_ids: [token_count], none negative (WG_ERR_ARGUMENT names the place).
 * skip_special_tokens: leave out tokens that are marked special.
 * WG_ERR_UNSUPPORTED: the decoder is of a kind that is not known; its name is in the message.
 */
WG_API WG_CHECKED wg_status wg_tokenizer_decode(const wg_tokenizer *tokenizer,
                                                const int32_t *token_ids, size_t token_count,
                                                int skip_special_tokens, wg_decoding *decoding,
                                                wg_error *err);
WG_API void wg_decoding_fini(wg_decoding *decoding);
WG_API size_t wg_tokenizer_vocabulary_count(const wg_tokenizer *tokenizer);

/* ------------------------------------------------------------------------------------- model */

typedef enum wg_isa { WG_ISA_AUTO = 0, WG_ISA_PLAIN, WG_ISA_AVX2, WG_ISA_AVX512 } wg_isa;

typedef enum wg_pooling {
    WG_POOLING_MODEL = 0, /* as the model directory says, else by architecture */
    WG_POOLING_MEAN,
    WG_POOLING_CLS,
    WG_POOLING_LAST,
    WG_POOLING_MAX,
    WG_POOLING_NONE, /* one row a token */
    WG_POOLING_WEIGHTED_MEAN,
    WG_POOLING_SQRT_LENGTH_MEAN
} wg_pooling;

typedef struct wg_model_options {
    const char *path;         /* a Hugging Face / sentence-transformers directory; required */
    const char *backend_name; /* NULL: the best one that probes; "cpu", "reference" */
    wg_isa isa;               /* forced instruction set; an error where the CPU lacks it */
} wg_model_options;

typedef struct wg_model wg_model;

/*
 * Loads and validates a model. On success *out is a handle for wg_model_close(); on failure
 * *out is NULL and nothing is left allocated.
 */
WG_API WG_CHECKED wg_status wg_model_open(wg_model **out, const wg_model_options *options,
                                          wg_error *err);
WG_API void wg_model_close(wg_model *model);

/* What is known of a model; strings are borrowed until wg_model_close(). */
typedef struct wg_model_info {
    const char *path;
    const char *architecture; /* "bert" */
    const char *backend;      /* "cpu" */
    const char *isa;          /* "avx512" */
    const char *hash;         /* hex, of configuration and weights' sizes and header */
    uint32_t layer_count, head_count, hidden_count, feed_forward_count;
    uint64_t vocabulary_count;
    uint64_t parameter_count;
    uint64_t weight_bytes;        /* of the files */
    uint64_t packed_bytes;        /* repacked for the kernels */
    uint32_t position_count;      /* the most tokens a text can have */
    uint32_t token_count_default; /* limit that the directory sets (max_seq_length) */
    uint32_t dim;                 /* floats in one vector, before truncate_dim */
    wg_pooling pooling;
    int normalize;
    const char *pooling_rule; /* which rule decided: "1_Pooling/config.json", "architecture", ... */
    const char *normalize_rule;
    const char *length_rule;
    double load_seconds;
    /* The head of a sequence classifier, which embedding leaves alone: */
    uint32_t label_count;      /* 0: there is none */
    const char *const *labels; /* [label_count], UTF-8 */
    const char *problem_type;  /* "single_label_classification", ...; "": not said */
} wg_model_info;
WG_API const wg_model_info *wg_model_describe(const wg_model *model);
WG_API const wg_tokenizer *wg_model_tokenizer(const wg_model *model);

/* Options of embedding, shared by wg_model_embed() and wg_job. Zero means default. */
typedef struct wg_embed_options {
    uint32_t token_count_max; /* special tokens included; 0: the model's own limit */
    wg_truncate truncate;
    wg_pooling pooling;
    int normalize;           /* 0: as the model says, 1: yes, -1: no */
    uint32_t truncate_dim;   /* 0: all */
    const char *prompt;      /* put before each text; wins over prompt_name */
    const char *prompt_name; /* a name in config_sentence_transformers.json */
    int plain_specials;      /* special tokens written in a text are plain text */
    uint64_t batch_tokens;   /* tokens of one bin; 0: auto */
    uint64_t memory_bytes;   /* ceiling for the process; 0: what machine and cgroup leave */
    uint32_t thread_count;   /* compute workers; 0: cores of the affinity mask */
    /*
     * wg_model_embed only, NULL: none. Called a few times a second and at the end, on the calling
     * thread, with the texts done so far; anything but 0 stops the call with WG_ERR_INTERRUPTED.
     */
    int (*tick)(void *context, uint64_t done, uint64_t count);
    void *tick_context;
    /*
     * wg_model_embed only, NULL: the first text that fails fails the call. Called on the calling
     * thread, in the order of the texts, for each text that fails: 0 fills its row with NaN and
     * goes on, anything else fails the call as without it. reason: a sentence, borrowed for the
     * call.
     */
    int (*failed)(void *context, uint64_t index, wg_failure failure, const char *reason);
    void *failed_context;
} wg_embed_options;

/*
 * Embeds `count` texts into `vectors` [count, dim] (dim after truncate_dim), row i for
 * text i. text_bytes: [count], or NULL for NUL-terminated texts. vectors_bytes is checked.
 * The first text that fails fails the call, and the message names its index (options->failed says
 * otherwise). Any thread.
 */
WG_API WG_CHECKED wg_status wg_model_embed(const wg_model *model, const char *const *texts,
                                           const size_t *text_bytes, size_t count, float *vectors,
                                           size_t vectors_bytes, const wg_embed_options *options,
                                           wg_error *err);

/* ----------------------------------------------- verify: is the model right on this machine? */

typedef struct wg_verify_options {
    wg_reader_options input; /* texts to try; without inputs: made-up ones of 1 token and more */
    const char *reference;   /* NULL, or a file of {"text", "embedding"} lines to compare with */
    double tolerance;        /* share of the largest value of a reference vector; 0: 1e-4 */
    uint32_t text_count_max; /* texts taken of the input; 0: 256 */
    wg_embed_options embed;
} wg_verify_options;

typedef struct wg_verify {
    uint64_t texts;           /* embedded packed, and each alone */
    uint64_t texts_failed;    /* could not be read or embedded; each is a message in the log */
    uint64_t texts_left_out;  /* beyond text_count_max, or without a text */
    uint64_t different;       /* whose bytes were not the same: should be 0 */
    uint64_t first_different; /* ordinal in the input; holds when different > 0 */
    uint64_t references;      /* lines compared */
    uint64_t outside;         /* of those, beyond the tolerance, or not embedded */
    uint64_t worst_line;      /* of the file, 1-based */
    double worst_error;       /* absolute, of a component */
} wg_verify;

/*
 * Embeds texts packed with all threads and each alone with one, and compares bytes; then compares
 * with reference vectors. A difference is an answer, not an error.
 */
WG_API WG_CHECKED wg_status wg_model_verify(const wg_model *model, const wg_verify_options *options,
                                            wg_verify *out, wg_error *err);

/* --------------------------------------------------------------------- job: files in, rows out */

/* Where a job stands; filled while it runs, final when wg_job_run() has returned. */
typedef struct wg_progress {
    uint64_t documents_read, documents_done, documents_failed;
    uint64_t tokens_done;
    uint64_t bytes_read, bytes_total; /* bytes_total 0: not known (standard input) */
    double seconds;
    int input_is_done;
} wg_progress;

typedef struct wg_job_options {
    wg_reader_options input;
    wg_embed_options embed;
    const char *output;              /* a directory, "FILE.jsonl", or "-" (the default) */
    const char *failures;            /* NULL: OUT/failures.jsonl, or the log at error level */
    uint32_t padded_batch;           /* 0: packed; N: padded batches of N, for comparison only */
    int padded_sorted;               /* with padded_batch: batches in order of length */
    int plan_only;                   /* read and tokenise, pack, run nothing, write nothing */
    uint32_t tokenizer_thread_count; /* 0: as many as it takes */
} wg_job_options;

typedef struct wg_job wg_job;

/*
 * Checks everything that can be checked before input is read (the output is claimed here:
 * an existing one is refused, and so is one that is also an input). The model must outlive
 * the job. options and what it points to are borrowed until wg_job_close().
 */
WG_API WG_CHECKED wg_status wg_job_open(wg_job **out, const wg_model *model,
                                        const wg_job_options *options, wg_error *err);

/*
 * Runs to the end of the input. WG_OK also when documents failed (ask wg_job_progress);
 * WG_ERR_INTERRUPTED after wg_job_stop(), with whole rows written.
 */
WG_API WG_CHECKED wg_status wg_job_run(wg_job *job, wg_error *err);

/* Asks a running job to stop: bins in flight are finished and written. Any thread, and
 * async-signal-safe. */
WG_API void wg_job_stop(wg_job *job);

/* Any thread, while the job runs. */
WG_API wg_progress wg_job_progress(const wg_job *job);

/* report.json as one JSON text, NUL-terminated; after wg_job_run(), borrowed until close. */
WG_API const char *wg_job_report(const wg_job *job);
WG_API void wg_job_close(wg_job *job);

/* ----------------------------------------------------------------------------------- machine */

/* Instruction sets that this CPU can run, best last; a NULL ends the list. Static storage. */
WG_API const char *const *wg_isa_names(void);

/* Libraries inside and their versions, one "name version" a line. Static storage. */
WG_API const char *wg_libraries(void);

#ifdef __cplusplus
}
#endif
#endif
