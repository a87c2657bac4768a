"""What can be decoded: the model protocol, the transformers adapter, the KV cache, scripted models, pairs."""
