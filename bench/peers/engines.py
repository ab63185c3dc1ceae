# SPDX-License-Identifier: Apache-2.0
"""Encoders of everybody else on the CPU, each at its best setting: BERT checkpoints converted once (convert), then
loaded by processes that import one engine alone (load). An engine maps ids and mask, int64 [texts, tokens], to hidden
states, f32 [texts, tokens, hidden]."""
from __future__ import annotations

import math
from pathlib import Path

# Of one engine the better of its settings counts, row by row (best_settings).
SETTINGS = {"openvino-streams": ("openvino", "a stream for each thread"), "openvino": ("openvino", "all threads in one stream")}
NAMES = ("openvino f32", "openvino bf16", "openvino-streams f32", "openvino-streams bf16",
         "onnxruntime f32", "ctranslate2 f32", "torch f32", "torch bf16")  # fmt: skip


def convert(checkpoint: Path, to: Path) -> None:
    """ONNX as exported (OpenVINO reads it), with ONNX Runtime's fused operators, and CTranslate2's own format."""
    if (to / "complete").exists():
        return
    to.mkdir(parents=True, exist_ok=True)
    import ctranslate2.converters
    import torch
    from onnxruntime.transformers import optimizer
    from transformers import BertModel

    class Hidden(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    model = BertModel.from_pretrained(checkpoint, attn_implementation="eager", add_pooling_layer=False).eval()
    ids = torch.ones(2, 16, dtype=torch.int64)
    inputs = ["input_ids", "attention_mask"]
    # The exporter by tracing: ONNX Runtime's patterns of attention are those that it writes.
    torch.onnx.export(Hidden(model), (ids, ids), to / "model.onnx", input_names=inputs, output_names=["hidden"],
                      dynamo=False, opset_version=17,
                      dynamic_axes={name: {0: "texts", 1: "tokens"} for name in [*inputs, "hidden"]})  # fmt: skip
    fused = optimizer.optimize_model(str(to / "model.onnx"), "bert", num_heads=model.config.num_attention_heads,
                                     hidden_size=model.config.hidden_size, opt_level=1)  # fmt: skip
    found = fused.get_fused_operator_statistics()["Attention"]
    assert found == model.config.num_hidden_layers, f"ONNX Runtime fused {found} attentions"
    fused.save_model_to_file(str(to / "fused.onnx"))
    ctranslate2.converters.TransformersConverter(str(checkpoint)).convert(str(to / "ctranslate2"), force=True)
    (to / "complete").touch()


def is_of_use(name: str, texts: int) -> bool:
    """Not streams for texts that come one by one: all but one of them would wait."""
    return not name.startswith("openvino-streams") or texts > 1


def best_settings(peers: dict) -> dict:
    """Contenders of a row, of each engine the faster setting, with its name."""
    best: dict = {}
    for name, found in peers.items():
        engine, *dtype = name.split()
        if engine not in SETTINGS:
            best[name] = found
            continue
        engine, setting = SETTINGS[engine]
        together = " ".join([engine, *dtype])
        if together not in best or took(found) < took(best[together]):
            best[together] = {**found, "setting": setting}
    return best


def took(found: dict) -> float:
    return found.get("median_us", found.get("seconds", math.inf))  # of rows that are all the one or the other


def load(name: str, checkpoint: Path, converted: Path, threads: int):
    """(encode, version); encode.many, where there is one, maps an iterable of (ids, mask) to a list, several at a time."""
    engine, dtype = name.split()
    return {"openvino": openvino, "openvino-streams": openvino_streams, "onnxruntime": onnxruntime, "ctranslate2": ctranslate2, "torch": torch_engine}[engine](
        dtype, checkpoint, converted, threads)


def openvino_model(dtype, converted, threads, **more):
    import openvino as ov
    options = {"INFERENCE_PRECISION_HINT": dtype, "INFERENCE_NUM_THREADS": threads, **more}
    return ov.Core().compile_model(str(converted / "model.onnx"), "CPU", options), ov


def openvino(dtype, checkpoint, converted, threads):
    # Of latency: one request at a time on all threads, as the others work.
    model, ov = openvino_model(dtype, converted, threads, PERFORMANCE_HINT="LATENCY")
    request = model.create_infer_request()
    return lambda ids, mask: request.infer([ids, mask])[0], ov.__version__


def openvino_streams(dtype, checkpoint, converted, threads):
    """Of throughput: as many requests at a time as threads, each on a stream of its own."""
    model, ov = openvino_model(dtype, converted, threads, PERFORMANCE_HINT="THROUGHPUT", NUM_STREAMS=threads)

    queue = ov.AsyncInferQueue(model, threads)
    queue.set_callback(lambda request, to: to.append(request.get_output_tensor(0).data.copy()))

    def many(batches):
        found = []
        for ids, mask in batches:
            found.append([])
            queue.start_async([ids, mask], found[-1])
        queue.wait_all()
        return [hidden for (hidden,) in found]

    def encode(ids, mask):
        """A batch in as many parts."""
        import numpy
        parts = min(threads, len(ids))
        return numpy.concatenate(many(zip(numpy.array_split(ids, parts), numpy.array_split(mask, parts))))

    encode.many = many
    return encode, ov.__version__


def onnxruntime(dtype, checkpoint, converted, threads):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(str(converted / "fused.onnx"), options, ["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0], ort.__version__


def ctranslate2(dtype, checkpoint, converted, threads):
    import ctranslate2 as ct
    import numpy
    encoder = ct.Encoder(str(converted / "ctranslate2"), device="cpu", compute_type="float32", intra_threads=threads)

    def encode(ids, mask):
        lengths = mask.sum(1).astype(numpy.int32)
        out = encoder.forward_batch(ct.StorageView.from_array(ids.astype(numpy.int32)),
                                    ct.StorageView.from_array(lengths))  # fmt: skip
        return numpy.array(out.last_hidden_state)

    return encode, ct.__version__


def torch_engine(dtype, checkpoint, converted, threads):
    import torch
    from transformers import BertModel
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    model = BertModel.from_pretrained(checkpoint, attn_implementation="sdpa", add_pooling_layer=False, dtype=kind).eval()

    def encode(ids, mask):
        whole = bool(mask.all())  # without a mask SDPA takes its faster path
        out = model(input_ids=torch.from_numpy(ids), attention_mask=None if whole else torch.from_numpy(mask))
        return out.last_hidden_state.float().numpy()

    return encode, torch.__version__
