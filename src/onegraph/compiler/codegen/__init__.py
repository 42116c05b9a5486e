"""From kernels to machine code: LLVM text, vector functions, the target machine."""
