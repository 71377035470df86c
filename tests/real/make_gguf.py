"""Make a Llama GGUF file with random weights and a hand-made byte tokenizer, for llama-server.

Runs in an environment that has `gguf`. Usage: make_gguf.py FILE HIDDEN LAYERS
"""

import argparse

import gguf  # type: ignore[import-not-found,unused-ignore]
import numpy as np

HEADS = 12
VOCABULARY = 2048
CONTEXT = 32768
UNKNOWN, CONTROL, NORMAL, BYTE = 2, 3, 1, 6
"""GGUF's token types."""


def vocabulary() -> tuple[list[bytes], list[float], list[int]]:
    """Tokens, scores and types of a SentencePiece-style vocabulary: specials, the 256 bytes, then made-up words."""
    tokens = [b"<unk>", b"<s>", b"</s>"]
    types = [UNKNOWN, CONTROL, CONTROL]
    tokens += [f"<0x{byte:02X}>".encode() for byte in range(256)]
    types += [BYTE] * 256
    tokens += [f"\N{LOWER ONE EIGHTH BLOCK}w{number}".encode() for number in range(VOCABULARY - len(tokens))]
    types += [NORMAL] * (VOCABULARY - len(types))
    return tokens, [-float(index) for index in range(VOCABULARY)], types


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("hidden", type=int)
    parser.add_argument("layers", type=int)
    wanted = parser.parse_args()
    hidden, feed_forward = wanted.hidden, wanted.hidden * 8 // 3
    writer = gguf.GGUFWriter(wanted.file, "llama")
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(hidden)
    writer.add_block_count(wanted.layers)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(hidden // HEADS)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    tokens, scores, types = vocabulary()
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    random = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> None:
        writer.add_tensor(name, (random.standard_normal(shape, dtype=np.float32) * 0.05).astype(np.float16))

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(hidden, np.float32))

    weights("token_embd.weight", VOCABULARY, hidden)
    weights("output.weight", VOCABULARY, hidden)
    norm("output_norm.weight")
    for layer in range(wanted.layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight")
        norm(block + "ffn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"{block}{part}.weight", hidden, hidden)
        weights(block + "ffn_gate.weight", feed_forward, hidden)
        weights(block + "ffn_up.weight", feed_forward, hidden)
        weights(block + "ffn_down.weight", hidden, feed_forward)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
