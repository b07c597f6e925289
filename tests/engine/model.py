"""model.py FOLDER TEMPLATE TEXT...: a model that a small machine serves, made on the spot, the same every time.

A Llama of two layers with random weights, a byte-level BPE tokenizer of 2,000 tokens trained on the given texts, and the chat
template. Two folders with different templates are the same model in all but the prompt.
"""

import pathlib
import sys

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

BEGIN, END, PAD = "<s>", "</s>", "<pad>"


def tokenizer(texts):
    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=[BEGIN, END, PAD], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    bpe.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BEGIN, eos_token=END, pad_token=PAD)


def weights(vocabulary):
    torch.manual_seed(0)
    shape = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    return transformers.LlamaForCausalLM(shape).to(torch.float32)


def main(folder, template, *texts):
    made = tokenizer([pathlib.Path(text).read_text(encoding="utf-8") for text in texts])
    made.chat_template = pathlib.Path(template).read_text(encoding="utf-8")
    made.save_pretrained(folder)
    weights(len(made)).save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
