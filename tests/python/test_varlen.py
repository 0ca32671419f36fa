"""VarlenModel: packed texts give what each gives alone, in every family; and what is refused.

The models are random and made here by transformers; "alone" is transformers' own eager attention,
each text by itself. Weights are large enough that texts which attend to each other are seen: the
first test shows that they are with sdpa.
"""
from __future__ import annotations

import types

import numpy as np
import pytest

from conftest import cached_model, requires

requires("torch", "transformers")

import torch  # noqa: E402
import transformers  # noqa: E402

import warpgroup  # noqa: E402
from warpgroup import hf_attention  # noqa: E402
from warpgroup.varlen import VarlenModel, pool  # noqa: E402

AGREE = 1e-5  # of the largest value, float32
LENGTHS = [1, 2, 9, 33, 1, 17, 40, 5]
VOCAB = 97

SIZES = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
             intermediate_size=48, initializer_range=0.25, pad_token_id=0, bos_token_id=1,
             eos_token_id=2)
GQA = dict(SIZES, num_key_value_heads=2, max_position_embeddings=64)


def config_of(family):
    """A config of few layers; windows are shorter than the texts."""
    t = transformers
    if family == "bert":
        return t.BertConfig(**SIZES, max_position_embeddings=64)
    if family == "distilbert":
        return t.DistilBertConfig(vocab_size=VOCAB, dim=32, n_layers=3, n_heads=4, hidden_dim=48,
                                  initializer_range=0.25, max_position_embeddings=64)
    if family in ("roberta", "xlm-roberta", "camembert"):
        kind = {"roberta": t.RobertaConfig, "xlm-roberta": t.XLMRobertaConfig,
                "camembert": t.CamembertConfig}[family]
        # 64 positions, counted from padding_idx + 1 = 4.
        return kind(**dict(SIZES, pad_token_id=3), max_position_embeddings=68, type_vocab_size=1)
    if family == "modernbert":
        return t.ModernBertConfig(**SIZES, local_attention=10, global_attn_every_n_layers=3,
                                  max_position_embeddings=64)
    if family == "llama":
        return t.LlamaConfig(**GQA)
    if family == "qwen2":
        return t.Qwen2Config(**GQA)
    if family == "qwen2-window":
        return t.Qwen2Config(**GQA, use_sliding_window=True, sliding_window=7, max_window_layers=1)
    if family == "qwen3":
        return t.Qwen3Config(**GQA, head_dim=16)
    if family == "mistral":
        return t.MistralConfig(**GQA, sliding_window=6)
    if family in ("gemma3", "gemma3-both-ways"):
        return t.Gemma3TextConfig(
            **GQA, head_dim=16, sliding_window=6, query_pre_attn_scalar=16,
            use_bidirectional_attention=family == "gemma3-both-ways",
            layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    raise AssertionError(family)


FAMILIES = ["bert", "distilbert", "roberta", "xlm-roberta", "camembert", "modernbert", "llama",
            "qwen2", "qwen2-window", "qwen3", "mistral", "gemma3", "gemma3-both-ways"]


@pytest.fixture(autouse=True)
def one_thread():
    """Small models are slower with more, by far where the machine is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def model_of(family, seed=0, **kwargs):
    torch.manual_seed(seed)
    return transformers.AutoModel.from_config(config_of(family), **kwargs).eval()


def texts_of(seed, lengths=LENGTHS, low=4):
    """Ids of texts, shuffled lengths, and cu_seqlens."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(low, VOCAB, n) for n in rng.permutation(lengths)]
    return texts, np.cumsum([0] + [len(ids) for ids in texts]).astype(np.int32)


def alone(model, texts, **kwargs):
    """[T, H] of each text by itself, by transformers' own attention."""
    with torch.no_grad():
        return torch.cat([model(input_ids=torch.as_tensor(ids)[None], use_cache=False,
                                **kwargs)[0][0] for ids in texts])


def apart(got, want):
    """The largest difference, as a share of the largest value."""
    return ((got - want).abs().max() / want.abs().max()).item()


def wrapped(family, seed=0, **kwargs):
    """The same weights twice: a plain eager model, and a VarlenModel."""
    return (model_of(family, seed, attn_implementation="eager"),
            VarlenModel(model_of(family, seed), **kwargs))


# ------------------------------------------------------------------------- packed is alone


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "modernbert"])
def test_without_the_wrapper_texts_see_each_other(family):
    """The difference that the other tests look for is there, and is large."""
    model = model_of(family)
    texts, cu = texts_of(1)
    start = 4 if family == "xlm-roberta" else 0
    positions = np.concatenate([np.arange(len(ids)) + start for ids in texts])
    with torch.no_grad():
        packed = model(input_ids=torch.as_tensor(np.concatenate(texts))[None],
                       position_ids=torch.as_tensor(positions)[None])[0][0]
    assert apart(packed, alone(model, texts)) > 0.05


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_is_alone(family, seed):
    plain, model = wrapped(family, seed)
    texts, cu = texts_of(seed)
    want = alone(plain, texts)
    output = model(np.concatenate(texts), cu)
    assert output.last_hidden_state.shape == want.shape
    assert apart(output.last_hidden_state, want) <= AGREE


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_pooler_is_of_each_text(family):
    plain, model = wrapped(family, 4)
    texts, cu = texts_of(4)
    with torch.no_grad():
        want = torch.cat([plain(input_ids=torch.as_tensor(ids)[None]).pooler_output
                          for ids in texts])
    output = model(np.concatenate(texts), cu)
    assert apart(output.pooler_output, want) <= AGREE
    assert output["pooler_output"] is output.pooler_output


def test_place_and_neighbours_change_no_bit():
    _, model = wrapped("bert")
    texts, _ = texts_of(5)
    last = len(texts) - 1

    def run(chosen):
        cu = np.cumsum([0] + [len(texts[i]) for i in chosen])
        hidden = model(np.concatenate([texts[i] for i in chosen]), cu).last_hidden_state
        at = chosen.index(3)
        return hidden[cu[at]:cu[at + 1]]

    # The attention alone is held to bits; torch's matrix products round by shape, so the model as a
    # whole is held to its tolerance.
    assert apart(run([3, 0, last]), run([1, 2, 3])) <= AGREE


def test_sizes_as_bins_tensors_lists_and_arrays():
    _, model = wrapped("llama")
    texts, cu = texts_of(6)
    ids = np.concatenate(texts)
    want = model(ids, cu).last_hidden_state
    positions = np.concatenate([np.arange(len(t)) for t in texts]).astype(np.int32)
    for arguments in [
        (torch.as_tensor(ids), torch.as_tensor(cu)),
        (ids.astype(np.int32), cu.astype(np.int64), 40),
        (ids.tolist(), cu.tolist(), None, positions),
        (torch.as_tensor(ids)[None], torch.as_tensor(cu).long(), 64, torch.as_tensor(positions)),
        (types.SimpleNamespace(input_ids=ids, cu_seqlens=cu),),
        (types.SimpleNamespace(input_ids=ids.astype(np.int32), cu_seqlens=cu, max_seqlen=40,
                               position_ids=positions),),
    ]:
        assert torch.equal(model(*arguments).last_hidden_state, want)


def test_a_bin_of_the_engine():
    plain, model = wrapped("xlm-roberta")
    texts, _ = texts_of(7)
    with warpgroup.Engine(256) as engine:
        for ids in texts:
            engine.submit(ids.astype(np.int32))
        engine.finish()
        done = 0
        for bin in engine:
            output = model(bin)
            order = [int(i) for i in np.asarray(bin.ids)]
            assert apart(output.last_hidden_state, alone(plain, [texts[i] for i in order])) <= AGREE
            vectors = pool(output.last_hidden_state, bin.cu_seqlens)
            assert vectors.shape == (len(order), 32)
            done += len(order)
    assert done == len(texts)


def test_token_types():
    plain, model = wrapped("bert", 8)
    texts, cu = texts_of(8)
    kinds = [np.arange(len(ids)) % 2 for ids in texts]
    with torch.no_grad():
        want = torch.cat([plain(input_ids=torch.as_tensor(ids)[None],
                                token_type_ids=torch.as_tensor(kind)[None])[0][0]
                          for ids, kind in zip(texts, kinds)])
    got = model(np.concatenate(texts), cu, token_type_ids=np.concatenate(kinds))
    assert apart(got.last_hidden_state, want) <= AGREE
    assert apart(model(np.concatenate(texts), cu).last_hidden_state, want) > 1e-3


def test_heads_on_every_token():
    """A language model's logits are of every token; the heads of causal models are no trouble."""
    torch.manual_seed(9)
    model = transformers.AutoModelForCausalLM.from_config(config_of("llama")).eval()
    texts, cu = texts_of(9)
    want = alone(model, texts)
    with VarlenModel(model) as packed:
        logits = packed(np.concatenate(texts), cu).logits
    assert logits.shape == (cu[-1], VOCAB)
    assert apart(logits, want) <= AGREE


def test_hidden_states_are_flat():
    _, model = wrapped("bert")
    texts, cu = texts_of(10)
    output = model(np.concatenate(texts), cu, output_hidden_states=True)
    assert len(output.hidden_states) == 4
    assert all(h.shape == (cu[-1], 32) for h in output.hidden_states)


@pytest.mark.parametrize("dtype, most", [(torch.bfloat16, 0.05), (torch.float16, 0.01)])
def test_half_precision_goes_through_float32(dtype, most):
    plain = model_of("llama", 11, attn_implementation="eager").to(dtype)
    model = VarlenModel(model_of("llama", 11).to(dtype))
    texts, cu = texts_of(11)
    hidden = model(np.concatenate(texts), cu).last_hidden_state
    assert hidden.dtype == dtype
    assert apart(hidden.float(), alone(plain, texts).float()) <= most


def test_threads_change_no_bit():
    texts, cu = texts_of(12)
    ids = np.concatenate(texts)
    one, three = (VarlenModel(model_of("qwen3", 12), threads=n) for n in (1, 3))
    assert torch.equal(one(ids, cu).last_hidden_state, three(ids, cu).last_hidden_state)


def test_minilm():
    path = cached_model("all-MiniLM-L6-v2")
    plain = transformers.AutoModel.from_pretrained(path, attn_implementation="eager",
                                                   dtype=torch.float32).eval()
    model = VarlenModel(transformers.AutoModel.from_pretrained(path, dtype=torch.float32).eval())
    assert model.position_limit == 512
    rng = np.random.default_rng(0)
    texts = [rng.integers(1000, 30000, n) for n in (3, 130, 512, 1, 64)]
    cu = np.cumsum([0] + [len(ids) for ids in texts])
    assert apart(model(np.concatenate(texts), cu).last_hidden_state, alone(plain, texts)) <= AGREE


# ------------------------------------------------------------------------------- positions


@pytest.mark.parametrize("family, offset, limit", [
    ("bert", 0, 64), ("xlm-roberta", 4, 64), ("roberta", 4, 64), ("camembert", 4, 64),
    ("modernbert", 0, 64), ("llama", 0, 64)])
def test_offset_and_limit(family, offset, limit):
    _, model = wrapped(family)
    assert (model.position_offset, model.position_limit) == (offset, limit)


def test_xlm_r_gets_positions_from_its_padding_index_on():
    """The ids that reach the embeddings, for bins with and without positions."""
    _, model = wrapped("xlm-roberta")
    seen = []
    table = model.model.embeddings.position_embeddings
    table.register_forward_pre_hook(lambda module, args: seen.append(args[0].tolist()))
    model([5, 6, 7, 8, 9], [0, 2, 5])
    model([5, 6, 7, 8, 9], [0, 2, 5], position_ids=[0, 1, 0, 1, 2])
    assert seen == [[[4, 5, 4, 5, 6]]] * 2


def test_a_text_longer_than_the_positions_is_named():
    _, model = wrapped("xlm-roberta")
    ids = np.full(80, 9)
    model(ids[:64], [0, 64])
    with pytest.raises(warpgroup.LimitError, match="text 1 of the bin has 65 tokens.*for 64"):
        model(ids, [0, 15, 80])


# -------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("attention", ["sdpa", "eager", "flex_attention"])
def test_unsafe_attention_is_refused(attention):
    with pytest.raises(warpgroup.ArgumentError, match=f'"{attention}" lets packed texts attend'):
        VarlenModel(model_of("bert"), attention=attention)


def test_unknown_attention_is_refused():
    with pytest.raises(warpgroup.ArgumentError, match='"quick" is not known'):
        VarlenModel(model_of("bert"), attention="quick")


def refused(model, match):
    before = model.config._attn_implementation
    with pytest.raises(warpgroup.UnsupportedError, match=match):
        VarlenModel(model)
    assert model.config._attn_implementation == before


def test_models_that_cannot_be_packed_are_refused_by_name():
    t = transformers
    small = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
    refused(t.MPNetModel(t.MPNetConfig(**small, intermediate_size=48)).eval(),
            "MPNetModel: it does not go through transformers' attention interface")
    mamba = t.MambaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2)
    refused(t.MambaModel(mamba).eval(), "MambaModel")
    refused(t.Gemma2Model(t.Gemma2Config(**GQA, head_dim=16)).eval(),
            "Gemma2Model: attn_logit_softcapping is 50")
    refused(t.T5Model(t.T5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2,
                                 num_heads=4)).eval(), "T5Model: encoder-decoder")
    refused(t.T5EncoderModel(t.T5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2,
                                        num_heads=4)).eval(), "T5EncoderModel|T5Attention")
    refused(t.Qwen3NextModel(t.Qwen3NextConfig(
        **GQA, head_dim=16, layer_types=["linear_attention", "full_attention", "full_attention"],
        linear_num_value_heads=2, linear_num_key_heads=2, num_experts=2)).eval(),
        "Qwen3NextModel: layers of kind linear_attention")
    refused(t.Qwen2VLTextModel(t.Qwen2VLTextConfig(
        **GQA, rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                "mrope_section": [1, 1, 2]})).eval(),
        "Qwen2VLTextModel: its positions have three dimensions")


def test_heads_that_look_at_one_place_are_refused():
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(config_of("bert")).eval()
    refused(model, "BertForSequenceClassification: logits is not of every token")


def test_training_mode_is_refused():
    model = transformers.AutoModel.from_config(config_of("bert")).train()
    refused(model, "BertModel: it is in training mode")
    packed = VarlenModel(model.eval())
    model.train()
    with pytest.raises(warpgroup.UnsupportedError, match="training mode"):
        packed([5, 6], [0, 2])


def test_no_model():
    with pytest.raises(warpgroup.ArgumentError, match="not Linear"):
        VarlenModel(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("ids, cu, match", [
    ([5, 6, 7], [0, 2], "from 0 to 2; 0 and 3"),
    ([5, 6, 7], [1, 3], "from 1 to 3; 0 and 3"),
    ([5, 6, 7], [0, 2, 2, 3], "text 1 has 0 tokens"),
    ([5, 6, 7], [0, 2, 1, 3], "text 1 has -1 tokens"),
    ([5, 6, 7], [0], r"shape \[1\]"),
    ([5, 6, 7], [0.0, 3.0], "float64"),
    ([], [0], "at least one token"),
    ([5, 97], [0, 2], "token id 97 in input_ids: BertModel knows 0 to 96"),
    ([5, -1], [0, 2], "token id -1"),
    ([5.0], [0, 1], "integers are needed"),
])
def test_arrays_that_contradict_each_other(ids, cu, match):
    _, model = wrapped("bert")
    with pytest.raises(warpgroup.ArgumentError, match=match):
        model(ids, cu)


def test_arguments_that_make_no_sense_for_packed_texts():
    _, model = wrapped("bert")
    for name in ("attention_mask", "use_cache", "past_key_values", "labels"):
        with pytest.raises(warpgroup.ArgumentError, match=name):
            model([5, 6], [0, 2], **{name: True})
    with pytest.raises(warpgroup.ArgumentError, match="max_seqlen is 1, but a text has 2"):
        model([5, 6], [0, 2], max_seqlen=1)
    with pytest.raises(warpgroup.ArgumentError, match="a bin, or input_ids and cu_seqlens"):
        model([5, 6])
    with pytest.raises(warpgroup.ArgumentError, match="3 elements for 2 tokens"):
        model([5, 6], [0, 2], position_ids=[0, 1, 2])


@pytest.mark.parametrize("device, dtype, is_importable, supports, want", [
    ("cpu", torch.float32, True, True, "warpgroup"),
    ("cpu", torch.bfloat16, True, True, "warpgroup"),
    ("cuda", torch.bfloat16, True, True, "flash_attention_2"),
    ("cuda", torch.float16, True, True, "flash_attention_2"),
    ("cuda", torch.float32, True, True, "warpgroup"),
    ("cuda", torch.bfloat16, False, True, "warpgroup"),
    ("cuda", torch.bfloat16, True, False, "warpgroup"),
])
def test_automatic_attention(device, dtype, is_importable, supports, want, monkeypatch):
    from warpgroup import varlen

    monkeypatch.setattr(varlen, "is_flash_attn_2_available", lambda: is_importable)
    model = types.SimpleNamespace(device=torch.device(device), dtype=dtype,
                                  _supports_flash_attn=supports)
    assert varlen._choose(model, "auto") == want


def test_float32_on_cuda_is_refused():
    query = types.SimpleNamespace(dtype=torch.float32, device=torch.device("cuda", 0))
    with pytest.raises(warpgroup.UnsupportedError, match="cuda:0 is of float16 and bfloat16, not "
                                                         r"float32; use model.to\(torch.bfloat16"):
        hf_attention._on_cuda(query, query, query, None, 1, 1.0, True, 0)


# ------------------------------------------------------------------- the proof, and close


def broken(change):
    """The registered function with something wrong in it."""
    def attention(module, query, key, value, attention_mask=None, **kwargs):
        return change(module, query, key, value, attention_mask, kwargs)
    return attention


def one_text(module, query, key, value, mask, kwargs):
    """All texts as one: what a lost cu_seqlens would do."""
    names = hf_attention.kwarg_names()
    kwargs[names.cu_q] = torch.tensor([0, query.shape[2]], dtype=torch.int32)
    return hf_attention.attention(module, query, key, value, mask, **kwargs)


def other_window(module, query, key, value, mask, kwargs):
    if kwargs.get("sliding_window"):
        kwargs["sliding_window"] += 1
    return hf_attention.attention(module, query, key, value, mask, **kwargs)


def other_way(module, query, key, value, mask, kwargs):
    kwargs["is_causal"] = not module.is_causal
    return hf_attention.attention(module, query, key, value, mask, **kwargs)


def other_scale(module, query, key, value, mask, kwargs):
    kwargs["scaling"] = kwargs["scaling"] * 1.05
    return hf_attention.attention(module, query, key, value, mask, **kwargs)


def nothing(module, query, key, value, mask, kwargs):
    hf_attention.calls.layers += 1
    return torch.full_like(query, float("nan")).transpose(1, 2), None


@pytest.mark.parametrize("change, family", [
    (one_text, "bert"), (one_text, "llama"), (one_text, "gemma3"), (one_text, "modernbert"),
    (other_window, "modernbert"), (other_window, "mistral"), (other_window, "gemma3"),
    (other_way, "bert"), (other_way, "llama"), (other_scale, "qwen3"), (nothing, "bert")])
def test_the_proof_catches_a_broken_attention(change, family, monkeypatch):
    model = model_of(family)
    monkeypatch.setattr(hf_attention, "register", lambda: transformers.AttentionInterface.register(
        hf_attention.NAME, broken(change)))
    with pytest.raises(warpgroup.UnsupportedError,
                       match=f"{type(model).__name__} gives other values for packed texts"):
        VarlenModel(model)
    assert model.config._attn_implementation == "sdpa"


def test_the_proof_catches_wrong_positions(monkeypatch):
    monkeypatch.setattr("warpgroup.varlen._position_offset", lambda model: 0)
    with pytest.raises(warpgroup.UnsupportedError, match="XLMRobertaModel gives other values"):
        VarlenModel(model_of("xlm-roberta"))


def test_layers_that_do_not_attend_through_the_interface_are_counted(monkeypatch):
    def silent(*args, **kwargs):
        result = hf_attention.attention(*args, **kwargs)
        hf_attention.calls.layers -= 1
        return result

    monkeypatch.setattr(hf_attention, "register", lambda: transformers.AttentionInterface.register(
        hf_attention.NAME, silent))
    with pytest.raises(warpgroup.UnsupportedError, match="0 of 3 layers"):
        VarlenModel(model_of("bert"))


def test_close_gives_the_model_back():
    model = model_of("llama")
    texts, cu = texts_of(13)
    with torch.no_grad():
        want = model(input_ids=torch.as_tensor(texts[0])[None]).last_hidden_state
    packed = VarlenModel(model)
    assert model.config._attn_implementation == "warpgroup"
    packed.close()
    packed.close()
    assert model.config._attn_implementation == "sdpa"
    with torch.no_grad():
        assert torch.equal(model(input_ids=torch.as_tensor(texts[0])[None]).last_hidden_state, want)
    with pytest.raises(warpgroup.ClosedError):
        packed([5], [0, 1])


def test_an_attention_changed_from_outside_is_noticed():
    _, model = wrapped("bert")
    model.model.set_attn_implementation("sdpa")
    with pytest.raises(warpgroup.Error, match='was changed to "sdpa"'):
        model([5, 6], [0, 2])


def test_a_second_wrapper_of_the_same_model():
    plain, first = wrapped("bert")
    second = VarlenModel(first.model)
    texts, cu = texts_of(14)
    assert apart(second(np.concatenate(texts), cu).last_hidden_state, alone(plain, texts)) <= AGREE


# ----------------------------------------------------------------------- attention function


def attend(**kwargs):
    module = types.SimpleNamespace(is_causal=False)
    query = kwargs.pop("query", torch.zeros(1, 2, 3, 8))
    names = hf_attention.kwarg_names()
    cu = torch.tensor([0, 1, 3], dtype=torch.int32)
    arguments = {names.cu_q: cu, names.cu_k: cu, names.max_q: 2, names.max_k: 2, **kwargs}
    return hf_attention.attention(module, query, query, query, **arguments)


@pytest.mark.parametrize("arguments, match", [
    (dict(attention_mask=torch.zeros(1, 1, 3, 3)), "mask of its own"),
    (dict(dropout=0.1), "dropout 0.1"),
    (dict(softcap=30.0), "softcap"),
    (dict(s_aux=torch.zeros(2)), "s_aux"),
    (dict(position_bias=torch.zeros(1)), "position_bias"),
    (dict(query=torch.zeros(2, 2, 3, 8)), "one row"),
    (dict(query=torch.zeros(1, 2, 3, 8, requires_grad=True)), "no gradient"),
])
def test_attention_refuses_what_it_cannot_do(arguments, match):
    attend()
    with pytest.raises(warpgroup.UnsupportedError, match=match):
        attend(**arguments)


def test_attention_without_boundaries():
    query = torch.zeros(1, 2, 3, 8)
    with pytest.raises(warpgroup.UnsupportedError, match="did not reach its attention"):
        hf_attention.attention(types.SimpleNamespace(is_causal=False), query, query, query)


def fake_210(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, return_aux=None,
             scale=None):
    return dict(is_causal=is_causal, scale=scale, max_q=max_q)


def fake_211(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, return_aux=None, scale=None,
             window_size=(-1, -1)):
    return dict(window_size=window_size, scale=scale, max_q=max_q)


def fake_212(query, key, value, cu_seq_q=None, cu_seq_k=None, max_q=0, max_k=0, *, return_aux=None,
             scale=None, window_size=(-1, -1), enable_gqa=False, seqused_k=None, block_table=None,
             num_splits=None):
    return dict(window_size=window_size, scale=scale, max_q=max_q, enable_gqa=enable_gqa)


@pytest.mark.parametrize("function, is_causal, window, want", [
    (fake_210, True, 0, dict(is_causal=True)),
    (fake_210, False, 0, dict(is_causal=False)),
    (fake_211, True, 0, dict(window_size=(-1, 0))),
    (fake_211, False, 0, dict(window_size=(-1, -1))),
    (fake_211, True, 8, dict(window_size=(7, 0))),
    (fake_211, False, 6, dict(window_size=(5, 5))),
    (fake_212, True, 0, dict(window_size=(-1, 0), enable_gqa=True)),
])
def test_varlen_attn_is_called_by_its_version(function, is_causal, window, want):
    query, key = torch.zeros(3, 4, 8), torch.zeros(3, 2, 8)
    cu = torch.tensor([0, 3], dtype=torch.int32)
    got = hf_attention.call_varlen(function, query, key, key, cu, 3, 0.5, is_causal, window)
    assert got == dict(want, scale=0.5, max_q=3)


def test_varlen_attn_without_windows():
    x, cu = torch.zeros(3, 2, 8), torch.tensor([0, 3], dtype=torch.int32)
    with pytest.raises(warpgroup.UnsupportedError, match="need torch 2.11"):
        hf_attention.call_varlen(fake_210, x, x, x, cu, 3, 0.5, True, 4)


def test_varlen_attn_takes_what_this_torch_has():
    """The real signature, with the kernel behind it replaced: it runs on CUDA only."""
    function = hf_attention.varlen_function()
    x, cu = torch.zeros(3, 2, 8, dtype=torch.bfloat16), torch.tensor([0, 1, 3], dtype=torch.int32)
    with pytest.raises((NotImplementedError, RuntimeError), match="CPU"):
        hf_attention.call_varlen(function, x, x, x, cu, 2, 0.5, True, 2)


# -------------------------------------------------------------------------------- pooling


@pytest.mark.parametrize("how", ["mean", "cls", "last", "max"])
def test_pool(how):
    rng = np.random.default_rng(15)
    lengths = [1, 7, 30, 2, 600, 1]
    cu = np.cumsum([0] + lengths)
    hidden = torch.as_tensor(rng.normal(size=(cu[-1], 5)).astype(np.float32))
    rows = [hidden[a:b].double() for a, b in zip(cu, cu[1:])]
    want = {"mean": lambda r: r.mean(0), "cls": lambda r: r[0], "last": lambda r: r[-1],
            "max": lambda r: r.max(0).values}[how]
    for boundaries in (cu, cu.astype(np.int32), torch.as_tensor(cu), cu.tolist()):
        got = pool(hidden, boundaries, how)
        assert got.shape == (6, 5) and got.dtype == torch.float32
        assert torch.allclose(got.double(), torch.stack([want(r) for r in rows]), atol=1e-6)
    half = pool(hidden.bfloat16(), cu, how)
    assert half.dtype == torch.bfloat16
    # A text's vector depends on its own rows only.
    assert torch.equal(pool(hidden[cu[2]:cu[3]], [0, 30], how)[0], pool(hidden, cu, how)[2])


def test_pool_refuses():
    hidden = torch.zeros(3, 2)
    with pytest.raises(warpgroup.ArgumentError, match='how is "sum"'):
        pool(hidden, [0, 3], "sum")
    with pytest.raises(warpgroup.ArgumentError, match="0 and 3"):
        pool(hidden, torch.tensor([0, 2]))
    with pytest.raises(warpgroup.ArgumentError, match=r"\[T, H\]"):
        pool(hidden[None], [0, 3])
