#!/usr/bin/env python3
"""Dumps a forward pass of transformers' DeepSeek-V4 for `hadal compare`.

    scripts/dump_transformers.py MODEL OUT.safetensors --ids 0,671,6102 [--dtype float32]
    hadal compare HADAL_MODEL OUT.safetensors --act exact

MODEL is a folder that transformers loads.  Hooks take what modules leave and write it, as f32,
under the names of `hadal trace --dump`; --names prints which name comes from which module.  The
file's metadata has the ids, so that compare runs the same tokens.  Needs torch, safetensors and a
transformers with `deepseek_v4` (tried with 5.24); --names needs none of them.

Not there: single experts, queries and keys behind their norm and RoPE, compressed rows, the indexer's choice and
the MTP block, which transformers computes inside functions or not at all.  A stack with modules of
other names needs another table, nothing else.
"""
import argparse
import re
import sys

# What a module of a layer leaves: its path in model.layers.N, the name in hadal's L<N>, and how the
# tensor is found in the module's arguments and result (below).
LAYER = [
    ("attn_hc", "hc_attn_pre.post", "result 0"),
    ("attn_hc", "hc_attn_pre.comb", "result 1"),
    ("attn_hc", "hc_attn_pre.x", "result 2"),
    ("input_layernorm", "attn_norm.y", "result"),
    ("self_attn.q_a_proj", "q_a.y", "result"),
    ("self_attn.q_a_norm", "q_norm.y", "result"),
    ("self_attn.q_b_proj", "q_b.y", "result"),
    ("self_attn.kv_proj", "kv.y", "result"),
    ("self_attn.compressor.kv_proj", "comp_kv.y", "result"),
    ("self_attn.compressor.gate_proj", "comp_gate.y", "result"),
    ("self_attn.compressor.indexer.q_b_proj", "index_q.y", "result"),
    ("self_attn.compressor.indexer.kv_proj", "index_kv.y", "result"),
    ("self_attn.compressor.indexer.gate_proj", "index_gate.y", "result"),
    ("self_attn.compressor.indexer.scorer.weights_proj", "index_weights.y", "result"),
    ("self_attn.o_a_proj", "attn.y", "argument"),
    ("self_attn.o_a_proj", "o_a.y", "result"),
    ("self_attn.o_b_proj", "o_b.y", "result"),
    ("ffn_hc", "hc_attn_post.s", "argument"),
    ("ffn_hc", "hc_ffn_pre.post", "result 0"),
    ("ffn_hc", "hc_ffn_pre.comb", "result 1"),
    ("ffn_hc", "hc_ffn_pre.x", "result 2"),
    ("post_attention_layernorm", "ffn_norm.y", "result"),
    ("mlp.gate", "gate.y", "rows 0"),
    ("mlp.gate", "router.w", "routing 1"),
    ("mlp.gate", "router.ids", "routing 2"),
    ("mlp.shared_experts.gate_proj", "shared_w1.y", "result"),
    ("mlp.shared_experts.up_proj", "shared_w3.y", "result"),
    ("mlp.shared_experts.down_proj", "shared_swiglu.y", "argument"),
    ("mlp.shared_experts.down_proj", "shared_w2.y", "result"),
    ("mlp", "moe_sum.out", "result"),
    ("", "hc_ffn_post.s", "result"),
]
# The same outside the layers: paths in the whole model.
OUTSIDE = [
    ("model.layers.0", "embed.y", "argument"),
    ("model.hc_head", "hc_head.x", "result"),
    ("model.norm", "norm.y", "result"),
    ("lm_head", "head.y", "result"),
    ("lm_head", "logits", "result"),
]


def print_names():
    for path, name, where in OUTSIDE:
        print(f"{name:<24} {path}, {where}")
    for path, name, where in LAYER:
        print(f"{'L<N>.' + name:<24} model.layers.<N>{'.' if path else ''}{path}, {where}")


def order_of_choice(result):
    """Transformers leaves the experts of a token in any order, hadal by falling weight, equal ones by
    rising id."""
    _, weights, ids = result
    by_id = ids.argsort(dim=-1)
    falling = weights.gather(1, by_id).argsort(dim=-1, descending=True, stable=True)
    return by_id.gather(1, falling)


def find(where, arguments, result):
    """The tensor that an entry of the table means, without the axis of the batch."""
    kind, _, index = where.partition(" ")
    if kind == "argument":
        return arguments[0][0]
    if kind == "routing":
        return result[int(index)].gather(1, order_of_choice(result))
    if kind == "rows":  # [tokens, ...] already
        return result[int(index)]
    return result[int(index)][0] if index else result[0]


def attach(torch, model, wanted, tensors):
    def hook(path, name, where):
        def take(module, arguments, keywords, result):
            values = arguments or (keywords["hidden_states"],)
            x = find(where, values, result).detach()
            is_whole = not x.is_floating_point()
            tensors[name] = x.to(torch.int32 if is_whole else torch.float32).contiguous().clone()
        try:
            module = model.get_submodule(path)
        except AttributeError:
            return  # layers differ: not all have a compressor, or an indexer
        if wanted(name):
            module.register_forward_hook(take, with_kwargs=True)

    for path, name, where in OUTSIDE:
        hook(path, name, where)
    for n in range(model.config.num_hidden_layers):
        for path, name, where in LAYER:
            hook(f"model.layers.{n}" + (f".{path}" if path else ""), f"L{n:02d}.{name}", where)


def stack_experts(torch, model, folder):
    """Fills fused experts from a folder that has them one by one under Hugging Face's names, which
    transformers does not read.  Returns the parameters that it filled."""
    import pathlib

    from safetensors import safe_open
    name = re.compile(r"(model\.layers\.\d+\.mlp\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")
    filled = set()
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with safe_open(path, "pt") as f:
            for key in f.keys():
                found = name.fullmatch(key)
                if not found:
                    continue
                w = f.get_tensor(key)
                if not w.is_floating_point() or w.element_size() < 2:
                    sys.exit(f"{key} is {w.dtype}: experts one by one must be plain floats")
                experts = model.get_submodule(found[1])
                whole = (experts.down_proj if found[3] == "down" else experts.gate_up_proj).data
                begin = whole.shape[1] // 2 if found[3] == "up" else 0
                whole[int(found[2]), begin:begin + w.shape[0]] = w.to(whole.dtype)
                filled.add(f"{found[1]}.{'down_proj' if found[3] == 'down' else 'gate_up_proj'}")
    return filled


def load(torch, folder, dtype):
    from transformers import AutoModelForCausalLM
    # Eager: the only attention with sinks everywhere, and experts in the precision that is asked for.
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager",
        output_loading_info=True)
    missing = set(info["missing_keys"])
    if missing:
        missing -= stack_experts(torch, model, folder)
    if missing:
        sys.exit(f"{folder}: transformers does not find {len(missing)} tensors, such as {min(missing)}")
    return model.eval()


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("model", nargs="?", help="folder that transformers loads")
    p.add_argument("out", nargs="?", help="safetensors file to write")
    p.add_argument("--ids", help="token ids with commas between them")
    p.add_argument("--dtype", default="float32", choices=["float32", "float64", "bfloat16"])
    p.add_argument("--steps", default="*", help="glob of names to write")
    p.add_argument("--names", action="store_true", help="print which name is which module, and end")
    a = p.parse_args()
    if not a.names and not (a.model and a.out and a.ids):
        p.error("MODEL, OUT and --ids are needed")
    return a


def main():
    a = parse()
    if a.names:
        print_names()
        return
    import fnmatch

    import torch
    from safetensors.torch import save_file
    ids = [int(i) for i in a.ids.split(",")]
    tensors = {}
    model = load(torch, a.model, getattr(torch, a.dtype))
    attach(torch, model, lambda name: fnmatch.fnmatchcase(name, a.steps), tensors)
    with torch.no_grad():
        model(input_ids=torch.tensor([ids]), use_cache=False)
    if not tensors:
        sys.exit(f"no tensor is called {a.steps}")
    save_file(tensors, a.out, metadata={"ids": ",".join(map(str, ids)), "model": a.model,
                                        "act": a.dtype, "engine": "transformers"})
    print(f"{a.out}: {len(ids)} tokens, {len(tensors)} tensors; greedy next token "
          f"{int(tensors['logits'][-1].argmax()) if 'logits' in tensors else '-'}")


if __name__ == "__main__":
    main()
