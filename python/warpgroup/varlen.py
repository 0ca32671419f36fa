"""Hugging Face models on packed bins: VarlenModel.

    model = VarlenModel(AutoModel.from_pretrained(directory))
    for bin in engine:
        hidden = model(bin).last_hidden_state            # [T, H], no padding
        vectors = pool(hidden, bin.cu_seqlens, "mean")   # [S, H]

    vectors = dict(model.embed(engine, "mean"))          # the same, on a CPU one bin a core

The model itself is left as it is: it gets one row of T tokens, positions that begin anew with each
text, and the boundaries of the texts as keyword arguments that its attention function reads
(warpgroup/hf_attention.py, or flash-attn). Refused: a fork of each model's forward pass, and masks.

transformers runs packed rows without complaint where texts attend to each other: BERT, XLM-R,
ModernBERT and many more with sdpa and eager attention, Llama and Qwen2 unless use_cache=False. So
every VarlenModel is put to a proof when it is made: made-up texts packed must give what they give
alone; else it raises and names the model's class.

Versions: transformers 5.0 or later, tried with 5.0 (ModernBERT, which does not go through the
attention interface there, is refused by it) and 5.24; torch 2.8 or later on a CPU, 2.10 or later or
flash-attn on CUDA. What another version does otherwise, the proof meets.

Letters: T tokens of a bin, S texts, H hidden size.

Threads: a VarlenModel may be called by several threads where its model may.
"""
from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.utils import ModelOutput, is_flash_attn_2_available

from warpgroup import _core
from warpgroup import hf_attention as _attention
from warpgroup.workers import run_bins, worker_count

__all__ = ["VarlenModel", "pool"]

_UNSAFE = ("sdpa", "eager", "flex_attention")
# Packed and alone are two orders of summation: by dtype, the share of the largest value that they
# may be apart. Texts that attend to each other are apart by a tenth and more.
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# A window up to this length is looked across in the proof.
_PROOF_WINDOW = 1024
_NOT_TAKEN = ("attention_mask", "past_key_values", "cache", "use_cache", "inputs_embeds", "labels",
              "output_attentions", "return_dict")


class VarlenModel:
    """A Hugging Face model that is called with packed texts.

    model: a transformers model in eval mode, best one without a head (AutoModel): its output has
        last_hidden_state or logits for every token. Heads that look at one place of a row
        (sequence classification) are refused.
    attention: "auto": on CUDA flash-attn where it can be imported (float16, bfloat16), else
        torch.nn.attention.varlen; on a CPU warpgroup's kernel. Or "warpgroup" or a
        "flash_attention_*" of transformers. "sdpa" and "eager" raise ArgumentError.
    threads: of warpgroup's kernel on a CPU; 0: as many as torch uses.

    On a CPU the kernel computes in float32; queries, keys and values of float16 and bfloat16
    models are copied to float32 and the result back.

    The model's config is changed: its attention implementation is set, as by
    model.set_attn_implementation(), until close(). Nothing else is. Models that share the config
    object are changed with it; called without packed texts they raise UnsupportedError.

    position_offset: what the model's positions begin at (padding_idx + 1 in RoBERTa's family).
    position_limit: longest text in tokens, or None.

    Raises UnsupportedError for a model that cannot be run over packed texts, naming its class and
    the reason.
    """

    def __init__(self, model: PreTrainedModel, *, attention: str = "auto", threads: int = 0):
        if not isinstance(model, PreTrainedModel):
            raise _core.ArgumentError(
                f"VarlenModel takes a transformers model, not {type(model).__name__}")
        if threads < 0:
            raise _core.ArgumentError(f"threads is {threads}: a number of threads, or 0")
        self.model = model
        self.threads = threads
        self._config = model.config.get_text_config()
        self.attention = _choose(model, attention)
        self._refuse()
        self.position_offset = _position_offset(model)
        self.position_limit = _position_limit(self._config, model, self.position_offset)
        self._has_token_types = any(name.endswith("token_type_ids")
                                    for name, _ in model.named_buffers())
        self._pooler = getattr(model, "pooler", None)
        self._usable: np.ndarray | None = None
        self._before: str | None = model.config._attn_implementation
        _attention.register()
        _attention.kwarg_names()
        try:
            self._prove()
        except BaseException:
            self.close()
            raise

    @property
    def config(self) -> Any:
        """The model's config."""
        return self.model.config

    @property
    def device(self) -> torch.device:
        return self.model.device

    def close(self) -> None:
        """Gives the model back the attention implementation that it came with. Again: no effect."""
        if self._before is not None:
            self.model.set_attn_implementation(self._before)
            self._before = None

    def __enter__(self) -> VarlenModel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __call__(self, input_ids: Any, cu_seqlens: Any = None, max_seqlen: int | None = None,
                 position_ids: Any = None, token_type_ids: Any = None,
                 **kwargs: Any) -> ModelOutput:
        """Runs the model over one bin, without gradients.

        input_ids: a Bin of an Engine, or [T] token ids, texts end to end.
        cu_seqlens: [S + 1], where each text begins, from 0 on; the last one is T. Not for a Bin.
        max_seqlen: tokens of the longest text; worked out where not given. With it, cu_seqlens
            that lie on a GPU are trusted and not waited for.
        position_ids: [T], counted from 0 in each text; worked out where not given. The offset of
            the model is added.
        token_type_ids: [T]; where not given those of the Bin, else zeros.
        Arrays are torch tensors, NumPy arrays, or whatever has the buffer protocol.
        Other arguments go to the model (output_hidden_states=True, ...).

        Gives the model's output, without the batch dimension: last_hidden_state is [T, H].
        pooler_output is [S, H], of the first token of each text, where the model has a pooler.

        Raises ArgumentError where the arrays contradict each other, and LimitError for a text
        longer than the model has positions, naming which.
        """
        if cu_seqlens is None:
            bin = input_ids
            if not hasattr(bin, "cu_seqlens"):
                raise _core.ArgumentError("give a bin, or input_ids and cu_seqlens")
            input_ids, cu_seqlens = bin.input_ids, bin.cu_seqlens
            if isinstance(bin, _core.Bin):
                # Rows that fill it up to the engine's multiple are nobody's. Its positions are not
                # taken: they may begin at the engine's position_offset, and the model's is added.
                input_ids = input_ids.numpy()[:bin.token_count]
                if token_type_ids is None and self._has_token_types:
                    token_type_ids = bin.token_type_ids.numpy()[:bin.token_count]
            elif position_ids is None:
                position_ids = getattr(bin, "position_ids", None)
            if max_seqlen is None:
                max_seqlen = getattr(bin, "max_seqlen", None)
        for name in _NOT_TAKEN:
            if name in kwargs:
                raise _core.ArgumentError(f"{name} cannot be given for packed texts")
        self._check_state()
        ids = self._row("input_ids", input_ids)
        total = ids.shape[1]
        cu, cu_host, longest = self._boundaries(cu_seqlens, max_seqlen, total)
        self._check_lengths(cu_host, longest)
        arguments = self._positions(position_ids, cu, cu_host, total)
        if token_type_ids is not None:
            arguments["token_type_ids"] = self._row("token_type_ids", token_type_ids, total)
        elif self._has_token_types:
            # Models that take them from a buffer look them up by position, or cut the buffer to T.
            arguments["token_type_ids"] = torch.zeros_like(ids)
        names = _attention.kwarg_names()
        arguments |= {names.cu_q: cu, names.cu_k: cu, names.max_q: longest, names.max_k: longest}
        _attention.calls.threads = self.threads
        try:
            with torch.no_grad():
                output = self.model(input_ids=ids, attention_mask=None, use_cache=False,
                                    return_dict=True, **arguments, **kwargs)
                return self._without_batch(output, cu, total)
        finally:
            _attention.calls.threads = 0

    def embed(self, engine: _core.Engine, how: str = "mean", *,
              workers: int = 0) -> Iterator[tuple[int, torch.Tensor]]:
        """Runs all bins of the engine: yields the id of each sequence with its vector [H].

        how: as in pool(). workers: bins at once, each in a thread with one core; 0: as many as
        torch uses threads and the engine was opened for (workers=, 1 if nothing else was said)
        on a CPU, one on a GPU. Vectors come in order of completion, until the engine is drained.
        """
        def run(bin: _core.Bin) -> tuple[list[int], torch.Tensor]:
            hidden = self(bin).last_hidden_state
            return bin.ids.tolist(), pool(hidden, bin.cu_seqlens, how)

        count = worker_count(engine, self.device, workers)
        for ids, vectors in run_bins(engine, run, count,
                                     self.device.type == "cpu" and count > 1):
            yield from zip(ids, vectors)

    # ------------------------------------------------------------------------- arguments

    def _check_state(self) -> None:
        if self._before is None:
            raise _core.ClosedError("this VarlenModel was closed")
        if self.model.training:
            raise _core.UnsupportedError(
                f"{self._name} is in training mode; call model.eval()")
        if {self.model.config._attn_implementation, self._config._attn_implementation} != {
                self.attention}:
            raise _core.Error(
                f"the attention implementation of {self._name} was changed to "
                f'"{self._config._attn_implementation}" since it was wrapped with '
                f'"{self.attention}"; texts would attend to each other')

    def _row(self, what: str, values: Any, total: int | None = None) -> torch.Tensor:
        """[1, T] int64 on the model's device."""
        if not isinstance(values, torch.Tensor):
            array = np.asarray(values)
            if array.dtype.kind not in "iu" and array.size:
                raise _core.ArgumentError(f"{what} are {array.dtype}; integers are needed")
            if what == "input_ids" and array.size:
                self._check_ids(array)
            values = torch.from_numpy(array.astype(np.int64))
        elif values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
            raise _core.ArgumentError(f"{what} are {values.dtype}; integers are needed")
        elif what == "input_ids" and values.device.type == "cpu" and values.numel():
            self._check_ids(values)
        if values.dim() == 2 and values.shape[0] == 1:
            values = values[0]
        if values.dim() != 1 or values.numel() == 0:
            raise _core.ArgumentError(
                f"{what} has shape {list(values.shape)}; [T] with at least one token is needed")
        if total is not None and values.numel() != total:
            raise _core.ArgumentError(f"{what} has {values.numel()} elements for {total} tokens")
        return values.to(self.model.device, torch.int64).unsqueeze(0)

    def _check_ids(self, ids: np.ndarray | torch.Tensor) -> None:
        """An id out of range stops a CUDA process for good, so those at hand are looked at."""
        count = self.model.get_input_embeddings().weight.shape[0]
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= count:
            raise _core.ArgumentError(
                f"token id {low if low < 0 else high} in input_ids: {self._name} knows 0 to "
                f"{count - 1}")

    def _boundaries(self, cu_seqlens: Any, max_seqlen: int | None,
                    total: int) -> tuple[torch.Tensor, np.ndarray | None, int]:
        """cu_seqlens as int32 on the device, on the host where known, and the longest length."""
        device = self.model.device
        if isinstance(cu_seqlens, torch.Tensor):
            if cu_seqlens.device.type != "cpu" and max_seqlen is not None:
                return cu_seqlens.to(device, torch.int32).contiguous(), None, int(max_seqlen)
            cu_seqlens = cu_seqlens.cpu().numpy()
        host = check_boundaries(cu_seqlens, total)
        longest = int(np.diff(host).max())
        if max_seqlen is not None and int(max_seqlen) < longest:
            raise _core.ArgumentError(
                f"max_seqlen is {max_seqlen}, but a text has {longest} tokens")
        return torch.from_numpy(host.astype(np.int32)).to(device), host, longest

    def _check_lengths(self, cu: np.ndarray | None, longest: int) -> None:
        limit = self.position_limit
        if limit is None or longest <= limit:
            return
        which = "a text" if cu is None else f"text {int(np.diff(cu).argmax())} of the bin"
        raise _core.LimitError(
            f"{which} has {longest} tokens, and {self._name} has positions for {limit}; cut it "
            "(max_length of the tokenizer)")

    def _positions(self, position_ids: Any, cu: torch.Tensor, cu_host: np.ndarray | None,
                   total: int) -> dict[str, torch.Tensor]:
        if position_ids is not None:
            row = self._row("position_ids", position_ids, total)
        elif cu_host is not None:
            starts = np.repeat(cu_host[:-1], np.diff(cu_host))
            row = torch.from_numpy(np.arange(total) - starts).to(self.model.device)[None]
        else:
            starts = torch.repeat_interleave(cu[:-1], cu[1:] - cu[:-1], output_size=total)
            row = (torch.arange(total, device=cu.device) - starts)[None]
        return {"position_ids": row + self.position_offset if self.position_offset else row}

    # ---------------------------------------------------------------------------- output

    def _without_batch(self, output: Any, cu: torch.Tensor, total: int) -> ModelOutput:
        if not isinstance(output, ModelOutput):
            raise _core.UnsupportedError(f"{self._name} gives {type(output).__name__}, not a "
                                         "ModelOutput")

        def flat(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.shape[:2] == (1, total):
                return value[0] if value.dim() > 2 else value
            if isinstance(value, tuple):
                return tuple(flat(item) for item in value)
            return value

        for name, value in list(output.items()):
            if name == "pooler_output":
                # The model's own is of the first token of the row, which is the first text's.
                first = output.last_hidden_state[cu[:-1].long()]
                output[name] = self._pooler(first[:, None]) if self._pooler else None
            else:
                output[name] = flat(value)
        return output

    # ----------------------------------------------------------------- refusals and proof

    @property
    def _name(self) -> str:
        return type(self.model).__name__

    def _refuse(self) -> None:
        """What is known not to work, said before anything is run."""
        model, config = self.model, self._config

        def refuse(reason: str) -> None:
            raise _core.UnsupportedError(f"{self._name}: {reason}")

        if model.training:
            refuse("it is in training mode; call model.eval()")
        if getattr(config, "is_encoder_decoder", False):
            refuse("encoder-decoder models cannot be run over packed texts")
        kinds = set(getattr(config, "layer_types", None) or ())
        strange = sorted(kinds - {"full_attention", "sliding_attention"})
        if strange:
            refuse(f"layers of kind {', '.join(strange)} carry state from text to text, or cut "
                   "rows without regard to them")
        rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
        if isinstance(rope, dict) and "mrope_section" in rope:
            refuse("its positions have three dimensions")
        if self.attention == _attention.NAME:
            cap = getattr(config, "attn_logit_softcapping", None)
            if cap is not None:
                refuse(f"attn_logit_softcapping is {cap:g}: attention with a soft cap is not "
                       f'supported by attention="{self.attention}"')
        parameters = inspect.signature(model.forward).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            refuse("its forward() takes no further keyword arguments, so the boundaries of texts "
                   "cannot reach its attention")
        can_set = getattr(model, "_can_set_attn_implementation", None)
        if can_set is not None and not can_set():
            refuse("it does not go through transformers' attention interface")

    def _prove(self) -> None:
        """Packed must give what alone gives; raises UnsupportedError where it does not."""
        texts = self._made_up_texts()
        before = "eager" if self._before == self.attention else self._before
        self._set(before)
        with torch.no_grad():
            alone = [self.model(input_ids=self._row("input_ids", ids), use_cache=False,
                                return_dict=True) for ids in texts]
        self._set(self.attention)
        layers = _attention.calls.layers
        cu = np.cumsum([0] + [len(ids) for ids in texts])
        try:
            packed = self(np.concatenate(texts), cu)
        except (_core.Error, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise _core.UnsupportedError(
                f"{self._name} cannot be called with packed texts: {error}") from error
        layers = _attention.calls.layers - layers
        want = getattr(self._config, "num_hidden_layers", 1)
        if self.attention == _attention.NAME and layers < want:
            raise _core.UnsupportedError(
                f"{self._name}: {layers} of {want} layers go through transformers' attention "
                "interface")
        self._compare(alone, packed, cu)

    def _compare(self, alone: list[ModelOutput], packed: ModelOutput, cu: np.ndarray) -> None:
        tolerance = _TOLERANCE.get(self.model.dtype, 5e-2)
        name = next(iter(alone[0]))
        want = torch.cat([output[name].flatten(0, 1) for output in alone]).float()
        got = packed[name].float()
        if got.shape != want.shape or len(want) != cu[-1]:
            raise _core.UnsupportedError(
                f"{self._name}: {name} is not of every token; wrap the model below its head "
                "(model.base_model)")
        largest = want.abs().max().item()
        apart = (got - want).abs().max().item()
        if not apart <= tolerance * largest:
            raise _core.UnsupportedError(
                f"{self._name} gives other values for packed texts than for each alone: {name} is "
                f"off by {apart:.3g} of {largest:.3g}; it cannot be run over packed texts with "
                f'attention="{self.attention}"')
        if self._pooler is not None and "pooler_output" in packed:
            want = torch.cat([output["pooler_output"] for output in alone]).float()
            apart = (packed["pooler_output"].float() - want).abs().max().item()
            if not apart <= tolerance * want.abs().max().item():
                self._pooler = None

    def _set(self, implementation: str) -> None:
        self.model.set_attn_implementation(implementation)
        if self._config._attn_implementation != implementation:
            raise _core.UnsupportedError(
                f"{self._name} does not go through transformers' attention interface")

    def _made_up_texts(self) -> list[np.ndarray]:
        """A short text before a longer one, which looks across a window where the model has one."""
        window = getattr(self._config, "sliding_window", None) or 0
        longer = window + 9 if window <= _PROOF_WINDOW else 12
        if self.position_limit is not None:
            longer = min(longer, self.position_limit)
        shorter = min(7, longer)
        ids, _ = self.made_up_bin(shorter + longer, longer)
        return [ids[:shorter], ids[shorter:]]

    def made_up_bin(self, tokens: int, max_seqlen: int) -> tuple[np.ndarray, np.ndarray]:
        """(ids [T], cu_seqlens [S + 1]) of texts of max_seqlen tokens, the last one maybe shorter,
        made of ids without a meaning of their own; the same each time."""
        if self._usable is None:
            special = {value for name, value in self.model.config.to_dict().items()
                       if name.endswith(("_token_id", "_token_index")) and isinstance(value, int)}
            count = self.model.get_input_embeddings().weight.shape[0]
            self._usable = np.array([i for i in range(min(count, 5000)) if i not in special])
        ids = np.random.default_rng(7).choice(self._usable, tokens)
        return ids, np.append(np.arange(0, tokens, max_seqlen), tokens).astype(np.int32)


def _choose(model: PreTrainedModel, attention: str) -> str:
    if attention == "auto":
        is_half = model.dtype in (torch.float16, torch.bfloat16)
        if (model.device.type == "cuda" and is_half and is_flash_attn_2_available()
                and getattr(model, "_supports_flash_attn", False)):
            return "flash_attention_2"
        return _attention.NAME
    if attention in _UNSAFE:
        raise _core.ArgumentError(
            f'attention="{attention}" lets packed texts attend to each other: transformers hands '
            'it no mask that keeps them apart in most encoders; use "auto"')
    if attention != _attention.NAME and not attention.startswith("flash_attention_"):
        raise _core.ArgumentError(
            f'attention="{attention}" is not known; "auto", "{_attention.NAME}" and '
            '"flash_attention_2" are')
    return attention


def _offset_embedding(model: PreTrainedModel) -> torch.nn.Embedding | None:
    """The table of learned positions that count from padding_idx + 1 (fairseq's way)."""
    for module in model.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, torch.nn.Embedding) and table.padding_idx is not None:
            return table
    return None


def _position_offset(model: PreTrainedModel) -> int:
    table = _offset_embedding(model)
    return 0 if table is None else table.padding_idx + 1


def _position_limit(config: Any, model: PreTrainedModel, offset: int) -> int | None:
    table = _offset_embedding(model)
    limit = getattr(config, "max_position_embeddings", None)
    if table is not None:
        return table.num_embeddings - offset
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    original = rope.get("original_max_position_embeddings") if isinstance(rope, dict) else None
    if original and rope.get("rope_type") in ("dynamic", "longrope"):
        # Beyond, the frequencies of all texts follow the longest one of the call.
        return min(int(original), limit or int(original))
    return limit if isinstance(limit, int) and limit > 0 else None


def check_boundaries(cu_seqlens: Any, total: int) -> np.ndarray:
    """[S + 1] int64; raises ArgumentError naming what is wrong."""
    cu = np.asarray(cu_seqlens)
    if cu.ndim != 1 or cu.size < 2 or cu.dtype.kind not in "iu":
        raise _core.ArgumentError(
            f"cu_seqlens has shape {list(cu.shape)} and type {cu.dtype}; [S + 1] integers, with at "
            "least one text, are needed")
    cu = cu.astype(np.int64)
    if cu[0] != 0 or cu[-1] != total:
        raise _core.ArgumentError(
            f"cu_seqlens goes from {cu[0]} to {cu[-1]}; 0 and {total}, the number of tokens, are "
            "needed")
    lengths = np.diff(cu)
    if lengths.min() < 1:
        which = int(lengths.argmin())
        raise _core.ArgumentError(
            f"text {which} has {lengths[which]} tokens by cu_seqlens; at least one is needed")
    return cu


def pool(hidden: torch.Tensor, cu_seqlens: Any, how: str = "mean") -> torch.Tensor:
    """One vector a text: hidden [T, H] and cu_seqlens [S + 1] to [S, H], in hidden's dtype.

    how: "mean" (summed in float32), "max", "cls" (the first token) or "last" (the last token).
    A text's vector depends on its own rows only.
    """
    if hidden.dim() != 2:
        raise _core.ArgumentError(f"hidden has shape {list(hidden.shape)}; [T, H] is needed")
    if isinstance(cu_seqlens, torch.Tensor):
        if cu_seqlens.device.type == "cpu":
            check_boundaries(cu_seqlens.numpy(), hidden.shape[0])
    else:
        cu_seqlens = torch.from_numpy(check_boundaries(cu_seqlens, hidden.shape[0]))
    cu = cu_seqlens.to(hidden.device, torch.int64)
    if how == "cls":
        return hidden[cu[:-1]]
    if how == "last":
        return hidden[cu[1:] - 1]
    if how in ("mean", "max"):
        return torch.segment_reduce(hidden.float(), how, lengths=cu.diff()).to(hidden.dtype)
    raise _core.ArgumentError(f'how is "{how}"; "mean", "max", "cls" and "last" are known')
