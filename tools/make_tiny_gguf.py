#!/usr/bin/env python3
"""Makes the GGUF files of tests/data: two tiny BERTs, and vocabularies with ids of `tokenizers`.

usage: make_tiny_gguf.py [OUT]        (OUT: tests/data of this checkout)
needs: gguf, numpy, safetensors, tokenizers==0.23.3

tiny-bert-h32-d8-mean.gguf       F32 \\ the folders of the same names in another form, so that vectors
tiny-bert-h128-d64-f16-mean.gguf F16 / must be the same bytes
tiny-bert-quantised.gguf         the first one with a kind of blocks after the other, and
tiny-bert-quantised-wide.gguf    what these blocks stand for in F32: again the same bytes
gguf-vocabularies/NAME.gguf      a vocabulary alone, one a way to split texts
gguf-vocabularies/sample.jsonl   a line each: {"file", "cases": [{"text", "ids"}, ...]}

The byte-level vocabularies are those of tokenizer-families-sample.jsonl with plain added tokens, since
GGUF has no flags for them; "default" is the pipeline that llama.cpp runs for a file of that name,
written down as a tokenizer.json. WordPiece vocabularies are counted here from the same texts: with
and without capital letters and accents, and with and without the keys that say so. Running it again
gives the same bytes.
"""
import base64
import collections
import itertools
import json
import pathlib
import sys

import gguf
import numpy as np
from safetensors import safe_open
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tokenizer_families import byte_level, split, template

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MARK = "\u2581"
CASES = 90  # texts a vocabulary

# Hugging Face's name without its layer, and GGUF's.
TABLES = {"embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
          "embeddings.position_embeddings": "position_embd", "embeddings.LayerNorm": "token_embd_norm"}
LAYER = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
         "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
         "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}


def put_pieces(writer, vocabulary, special):
    """WordPiece as GGUF has it: a mark where words begin, nothing elsewhere."""
    pieces = sorted(vocabulary, key=vocabulary.get)
    kinds = [gguf.TokenType.CONTROL if p in special else gguf.TokenType.NORMAL for p in pieces]
    written = [p if k == gguf.TokenType.CONTROL else p[2:] if p.startswith("##") else MARK + p
               for p, k in zip(pieces, kinds)]
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(written)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(vocabulary["[CLS]"])
    writer.add_unk_token_id(vocabulary["[UNK]"])
    writer.add_sep_token_id(vocabulary["[SEP]"])
    writer.add_pad_token_id(vocabulary["[PAD]"])
    writer.add_mask_token_id(vocabulary["[MASK]"])


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


KINDS = [gguf.GGMLQuantizationType[kind] for kind in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "BF16")]


def as_stored(values):
    return values, None


def quantised():
    """Each matrix whose rows are whole blocks in the next of KINDS."""
    kinds = itertools.cycle(KINDS)

    def put(values):
        if values.shape[-1] % 32:
            return values, None
        kind = next(kinds)
        return gguf.quants.quantize(values, kind), kind
    return put


def widened():
    """What a reader of quantised() sees."""
    put = quantised()

    def widen(values):
        blocks, kind = put(values)
        return (values if kind is None else gguf.quants.dequantize(blocks, kind)), None
    return widen


def make_bert(folder, out, put_matrix=as_stored):
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
    assert config["hidden_act"] == "gelu" and pooling["pooling_mode_mean_tokens"]
    writer = gguf.GGUFWriter(out, "bert")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_token_type_count(config["type_vocab_size"])
    put_pieces(writer, tokenizer["model"]["vocab"], SPECIAL)
    with safe_open(folder / "model.safetensors", framework="numpy") as file:
        for name in sorted(file.keys()):
            part, suffix = name.rsplit(".", 1)
            if part.startswith("pooler."):
                continue
            values = file.get_tensor(name)
            if part.startswith("encoder.layer."):
                number, part = part.removeprefix("encoder.layer.").split(".", 1)
                to = f"blk.{number}.{LAYER[part]}.{suffix}"
            else:
                to = f"{TABLES[part]}.{suffix}"
            # Converters keep only matrices of layers and the token table in half precision.
            kind = None
            if values.ndim == 1 or to.startswith(("position_embd", "token_types")):
                values = values.astype(np.float32)
            else:
                values, kind = put_matrix(values)
            writer.add_tensor(to, values, raw_dtype=kind)
    finish(writer)


# ---------------------------------------------------------------------------------- vocabularies

def default_pipeline():
    """What llama.cpp does with texts when a file says "default", as pre-tokenizers."""
    patterns = [r"[\p{P}\$\+<=>\^~\|]+",
                r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)", r"\p{N}+", "[0-9][0-9][0-9]"]
    return {"type": "Sequence", "pretokenizers": [*(split({"Regex": p}) for p in patterns), byte_level(use_regex=False)]}


def byte_vocabularies(families):
    for name, pre, family in [("qwen2", "qwen2", "qwen2"), ("default", "default", "llama3"),
                              ("llama-bpe", "llama-bpe", "llama3"), ("smollm", "smollm", "smollm2"),
                              ("roberta-bpe", "roberta-bpe", "roberta")]:
        tokenizer = json.loads(json.dumps(families[family]["tokenizer"]))
        for token in tokenizer["added_tokens"]:
            token.update(single_word=False, lstrip=False, rstrip=False, normalized=False)
        if name == "default":
            tokenizer["pre_tokenizer"], tokenizer["normalizer"] = default_pipeline(), None
            tokenizer["model"]["ignore_merges"], tokenizer["post_processor"] = False, None
        writer_keys = {}
        if family == "roberta":
            tokenizer["post_processor"] = template(["<s>"], ["</s>"], {"<s>": 0, "</s>": 2})
            writer_keys = {"add_bos_token": True, "add_eos_token": True}
        yield name, pre, tokenizer, writer_keys


def make_bytes(out, pre, tokenizer, switches):
    model = tokenizer["model"]
    ids = {**model["vocab"], **{t["content"]: t["id"] for t in tokenizer["added_tokens"]}}
    kinds = {t["content"]: gguf.TokenType.CONTROL if t["special"] else gguf.TokenType.USER_DEFINED
             for t in tokenizer["added_tokens"]}
    names = sorted(ids, key=ids.get)
    assert [ids[n] for n in names] == list(range(len(names)))
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(names)
    writer.add_token_types([kinds.get(n, gguf.TokenType.NORMAL) for n in names])
    writer.add_token_merges([" ".join(m) for m in model["merges"]])
    writer.add_bos_token_id(ids["<s>"])
    writer.add_eos_token_id(ids["</s>"])
    for key, value in switches.items():
        getattr(writer, "add_" + key)(value)
    finish(writer)


def count_pieces(texts, normalizer):
    """A WordPiece vocabulary: every letter, and the commonest beginnings and rests of words."""
    letters, parts = set(), collections.Counter()
    split_words = pre_tokenizers.BertPreTokenizer()
    for text in texts:
        for word, _ in split_words.pre_tokenize_str(normalizer.normalize_str(text)):
            letters.update(word)
            for n in (2, 3, 4):
                if len(word) > n:
                    parts[word[:n]] += 1
                    parts["##" + word[-n:]] += 1
    letters = sorted(c for c in letters if c != "\ufffd")
    pieces = SPECIAL + ["[Unused0]"] + letters + ["##" + c for c in letters]
    common = sorted(parts, key=lambda p: (-parts[p], p))
    return {p: i for i, p in enumerate(dict.fromkeys(pieces + common[:300]))}


def bert_vocabularies(texts):
    """name, normaliser's options, vocabulary's options, keys of the file"""
    for name, flags, counted, keys in [
            ("bert-cased", (False, False), (False, False), {}),
            ("bert-uncased", (True, True), (True, True), {}),
            ("bert-uncased-accents", (True, False), (True, False), {}),
            # The pieces say one thing and the keys another: the keys hold.
            ("bert-uncased-said", (True, None), (False, False), {"normalizer_lowercase": True}),
            ("bert-cased-said", (False, True), (True, True),
             {"normalizer_lowercase": False, "normalizer_strip_accents": True})]:
        vocabulary = count_pieces(texts, normalizers.BertNormalizer(lowercase=counted[0], strip_accents=counted[1]))
        vocabulary.setdefault("##" + MARK, len(vocabulary))
        tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=flags[0], strip_accents=flags[1])
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(SPECIAL)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])])
        yield name, tokenizer, vocabulary, keys


def make_pieces(out, vocabulary, keys):
    writer = gguf.GGUFWriter(out, "bert")
    put_pieces(writer, vocabulary, SPECIAL)
    for key, value in keys.items():
        writer.add_bool("tokenizer.ggml." + key.replace("normalizer_", "normalizer."), value)
    finish(writer)


def make_unigram(out, tokenizer, charsmap, spare):
    """As XLM-RoBERTa is converted; `spare` rows of the embedding without a piece stand last."""
    model = tokenizer["model"]
    special = {t["content"] for t in tokenizer["added_tokens"]}
    # f32 in the file: the tokenizer that is compared with has the same scores.
    model["vocab"] = [[piece, float(np.float32(score))] for piece, score in model["vocab"]]
    pieces = [piece for piece, _ in model["vocab"]] + [f"[PAD{i}]" for i in range(spare)]
    unknown = model["unk_id"]
    kinds = [gguf.TokenType.UNKNOWN if i == unknown else gguf.TokenType.CONTROL if p in special else
             gguf.TokenType.NORMAL for i, p in enumerate(pieces[:len(model["vocab"])])]
    writer = gguf.GGUFWriter(out, "bert")
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_scores([score for _, score in model["vocab"]] + [-10000.0] * spare)
    writer.add_token_types(kinds + [gguf.TokenType.UNUSED] * spare)
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    if charsmap:
        writer.add_precompiled_charsmap(charsmap)
    writer.add_bos_token_id(pieces.index("<s>"))
    writer.add_eos_token_id(pieces.index("</s>"))
    writer.add_unk_token_id(unknown)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    finish(writer)


def unigram_vocabularies(families):
    """With SentencePiece's character map, and without one."""
    value = json.loads(json.dumps(families["xlm-roberta"]["tokenizer"]))
    value["added_tokens"] = value["added_tokens"][:4]  # <mask> takes the blanks before it along
    charsmap = base64.b64decode(value["normalizer"]["precompiled_charsmap"])
    yield "unigram", value, charsmap
    value = json.loads(json.dumps(value))
    value["normalizer"] = None
    yield "unigram-plain", value, None


def cases(tokenizer, texts):
    return [{"text": text, "ids": tokenizer.encode(text).ids} for text in texts]


def read_texts(families, name):
    texts = [case["text"] for case in families[name]["cases"]]
    return [f"a{MARK}b {MARK} {MARK}a 123456 x1234,5 \u00c9t\u00e9 \u00e9t\u00e9 [MASK] [Unused0]",
            "e\u0301t\u00e9 u\u0308 A\u030a 1 12 123 1234 12345 123456 1234567 0 00 000 0000.25 +1-2=3",  *texts]


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/data"
    for name in ("tiny-bert-h32-d8-mean", "tiny-bert-h128-d64-f16-mean"):
        make_bert(out / name, out / f"{name}.gguf")
    make_bert(out / "tiny-bert-h32-d8-mean", out / "tiny-bert-quantised.gguf", quantised())
    make_bert(out / "tiny-bert-h32-d8-mean", out / "tiny-bert-quantised-wide.gguf", widened())
    families = {}
    for line in (out / "tokenizer-families-sample.jsonl").open(encoding="utf-8"):
        entry = json.loads(line)
        families[entry["family"]] = entry
    folder = out / "gguf-vocabularies"
    folder.mkdir(exist_ok=True)
    samples = []
    for name, pre, value, switches in byte_vocabularies(families):
        make_bytes(folder / f"{name}.gguf", pre, value, switches)
        texts = read_texts(families, "llama3")[:CASES]
        samples.append({"file": f"{name}.gguf", "cases": cases(Tokenizer.from_str(json.dumps(value)), texts)})
    texts = read_texts(families, "roberta")
    for name, tokenizer, vocabulary, keys in bert_vocabularies(texts):
        make_pieces(folder / f"{name}.gguf", vocabulary, keys)
        samples.append({"file": f"{name}.gguf", "cases": cases(tokenizer, texts[:CASES])})
    texts = read_texts(families, "xlm-roberta")[:CASES]
    for name, value, charsmap in unigram_vocabularies(families):
        make_unigram(folder / f"{name}.gguf", value, charsmap, 3)
        samples.append({"file": f"{name}.gguf", "cases": cases(Tokenizer.from_str(json.dumps(value)), texts)})
    with (folder / "sample.jsonl").open("w", encoding="utf-8") as file:
        for sample in samples:
            file.write(json.dumps(sample, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
