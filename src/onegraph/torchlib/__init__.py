"""The only importer of private torch modules: fake tensors, aten schemas, the recorder, symbolic sizes, state."""
