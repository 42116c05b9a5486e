"""The only importer of private torch modules: fake tensors, aten schemas, the aten recorder, symbolic sizes, global state."""
