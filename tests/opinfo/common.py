"""The operators that programs commonly use, by their names in torch's database."""

from __future__ import annotations

COMMON = """
    abs add addcmul addmm all amax any arange argmax argmin as_strided baddbmm bitwise_and bmm cat clamp clone
    constant_pad_nd contiguous copysign cos count_nonzero cumsum diagonal diagonal_scatter div_floor_rounding
    div_no_rounding_mode div_trunc_rounding dot einsum empty_like eq erf exp expand eye flatten flip floor fmod
    full_like gather ge index_add index_put index_select isnan lerp linalg_vector_norm log log_softmax logical_not
    logsumexp lt masked_fill matmul max_binary max_reduction_no_dim max_reduction_with_dim mean min_binary mm mul
    nan_to_num narrow native_batch_norm native_layer_norm neg new_zeros nn_functional_adaptive_avg_pool2d
    nn_functional_avg_pool2d nn_functional_batch_norm nn_functional_binary_cross_entropy_with_logits
    nn_functional_conv2d nn_functional_cross_entropy nn_functional_dropout nn_functional_embedding
    nn_functional_gelu nn_functional_glu nn_functional_group_norm nn_functional_hardswish
    nn_functional_interpolate_nearest nn_functional_layer_norm nn_functional_linear nn_functional_max_pool2d
    nn_functional_mse_loss nn_functional_nll_loss nn_functional_pad_constant nn_functional_pad_reflect
    nn_functional_pixel_shuffle nn_functional_relu nn_functional_rms_norm nn_functional_scaled_dot_product_attention
    nn_functional_silu nn_functional_softplus ones permute pow prod rand_like reciprocal remainder repeat reshape
    roll rsqrt rsub scatter select select_scatter sigmoid sign sin slice slice_scatter softmax sort split
    split_with_sizes sqrt squeeze stack std sub sum tanh topk transpose tril triu true_divide unbind unfold
    unsqueeze var var_mean view where zeros_like
""".split()
