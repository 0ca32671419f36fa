"""Memory that a padded forward pass of transformers needs for its activations, from shapes alone.

For where such a batch cannot be run. Counted are the tensors that are alive at once, in the two places of a
layer where most are; the head and its logits are not, nor what libraries and the allocator keep for themselves.
No tensor outlives its last use there, so a process that runs the batch holds at least this. The cache of keys
and values that a plain call of a causal model keeps is a figure of its own.

    B batch, S its longest text, T = B S rows, H hidden, F feed-forward, N heads, K heads of keys, D head
    dimension, e bytes of an element
"""

FORMULA = (
    "peak = max(attention, feed_forward); "
    "attention = B S^2 (1 + e) + T e (2 H + 4 N D + 2 K D): the mask as booleans and as the numbers that sdpa "
    "makes of it, the residual and what the layer was given, queries, output, keys and values before and after "
    "they are repeated for grouped heads (2 H + 4 N D where K = N: nothing is repeated); "
    "feed_forward = B S^2 + T e (2 H + 3 F), or T e (2 H + 2 F) without a gate: the mask, the residual, the normed "
    "input, gate, up and their product; "
    "B texts padded to S tokens, T = B S rows, H hidden, F feed-forward, N heads, K heads of keys, D head dimension, "
    "e bytes an element; logits, cache and weights are left out")
BYTES = {"f32": 4, "bf16": 2, "f16": 2}
PLAIN_FEED_FORWARD = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet")


def shape(config, dtype):
    """What the formula needs of a config.json."""
    heads = config["num_attention_heads"]
    return {"hidden": config["hidden_size"], "feed_forward": config["intermediate_size"], "heads": heads,
            "key_heads": config.get("num_key_value_heads") or heads,
            "head_dim": config.get("head_dim") or config["hidden_size"] // heads, "bytes": BYTES[dtype],
            "gated": config["model_type"] not in PLAIN_FEED_FORWARD, "layers": config.get("num_hidden_layers", 0),
            "causal": (config.get("architectures") or [""])[0].endswith("ForCausalLM")}


def padded(shape, batch, longest):
    """{attention, feed_forward, peak} in bytes of a batch padded to `longest` tokens."""
    rows, e = batch * longest, shape["bytes"]
    mask = batch * longest * longest
    heads = shape["heads"] * shape["head_dim"]
    repeated = 2 * shape["key_heads"] * shape["head_dim"] if shape["key_heads"] < shape["heads"] else 0
    attention = mask * (1 + e) + rows * e * (2 * shape["hidden"] + 4 * heads + repeated)
    feed_forward = mask + rows * e * (2 * shape["hidden"] + (3 if shape["gated"] else 2) * shape["feed_forward"])
    return {"attention": attention, "feed_forward": feed_forward, "peak": max(attention, feed_forward)}


def cache(shape, batch, longest):
    """Bytes of the keys and values of all layers, which model(**batch) keeps unless use_cache=False; 0 for encoders."""
    row = 2 * shape["layers"] * shape["key_heads"] * shape["head_dim"] * shape["bytes"]
    return batch * longest * row if shape["causal"] else 0
