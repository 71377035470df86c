"""Make a small Llama model folder for vLLM: configuration and tokenizer only, the weights are `--load-format dummy`.

Runs in vLLM's own environment. Usage: make_vllm_model.py FOLDER HIDDEN LAYERS
"""

import argparse
import inspect
import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found,unused-ignore]

VOCABULARY = 1024
CONTEXT = 2048
HEAD = 32


def tokenizer() -> "Tokenizer":
    """A byte-level BPE tokenizer, trained on the source text of two standard modules so that it needs no download."""
    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    built.train_from_iterator([inspect.getsource(module) for module in (argparse, pathlib)], trainer)
    return built


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("hidden", type=int)
    parser.add_argument("layers", type=int)
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    words = tokenizer()
    words.save(str(wanted.folder / "tokenizer.json"))
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    files = {
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": CONTEXT,
            "chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}",
            **special,
        },
        "special_tokens_map.json": special,
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2},
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": wanted.hidden,
            "intermediate_size": wanted.hidden * 3,
            "num_hidden_layers": wanted.layers,
            "num_attention_heads": wanted.hidden // HEAD,
            "num_key_value_heads": max(1, wanted.hidden // HEAD // 2),
            "head_dim": HEAD,
            "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-5,
            "vocab_size": words.get_vocab_size(),
            "bos_token_id": 1,
            "eos_token_id": 2,
            "torch_dtype": "bfloat16",
        },
    }
    for name, content in files.items():
        (wanted.folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
