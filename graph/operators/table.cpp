#include "graph/operators/table.hpp"

namespace penstock {
namespace {

using View = OperatorTraits::View;
using Random = OperatorTraits::Random;
using Writes = OperatorTraits::Writes;
using Gradient = OperatorTraits::Gradient;
using Flops = OperatorTraits::Flops;
using Saved = OperatorTraits::Saved;
using Sharding = OperatorTraits::Sharding;
using Time = OperatorClass;

constexpr OperatorGroup groups[] = {
    // Matrix products
    {"linear",
     {.flops = Flops::linear,
      .saved = Saved::factors,
      .sharding = Sharding::linear,
      .time = Time::gemm}},
    {"matmul mm bmm",
     {.flops = Flops::product,
      .saved = Saved::factors,
      .sharding = Sharding::product,
      .time = Time::gemm}},
    {"mv dot", {.flops = Flops::product, .saved = Saved::factors, .time = Time::gemm}},
    {"addmm baddbmm",
     {.flops = Flops::added_product,
      .saved = Saved::factors,
      .sharding = Sharding::added_product,
      .time = Time::gemm}},
    {"addbmm addmv", {.flops = Flops::added_product, .saved = Saved::factors, .time = Time::gemm}},
    {"bilinear", {.flops = Flops::bilinear, .saved = Saved::factors, .time = Time::gemm}},
    {"lstm gru rnn_tanh rnn_relu",
     {.random = Random::recurrent_dropout, .flops = Flops::recurrent, .time = Time::gemm}},

    // Convolutions
    {"conv1d conv2d conv3d",
     {.flops = Flops::convolution,
      .saved = Saved::factors,
      .sharding = Sharding::convolution,
      .time = Time::convolution}},
    {"convolution _convolution",
     {.flops = Flops::convolution, .saved = Saved::factors, .time = Time::convolution}},
    {"conv_transpose1d conv_transpose2d conv_transpose3d",
     {.flops = Flops::transposed_convolution,
      .saved = Saved::factors,
      .sharding = Sharding::transposed_convolution,
      .time = Time::convolution}},

    // Attention
    {"scaled_dot_product_attention",
     {.random = Random::attention_dropout,
      .flops = Flops::attention,
      .saved = Saved::attention,
      .sharding = Sharding::attention,
      .time = Time::attention}},
    {"_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
     "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
     {.random = Random::attention_dropout,
      .gradient = Gradient::first_output_only,
      .flops = Flops::attention,
      .saved = Saved::attention,
      .time = Time::attention}},
    {"_flash_attention_forward _efficient_attention_forward",
     {.gradient = Gradient::first_output_only, .time = Time::attention}},

    // Normalisations
    {"layer_norm rms_norm",
     {.flops = Flops::normalisation,
      .saved = Saved::norm,
      .sharding = Sharding::norm,
      .time = Time::normalisation}},
    {"group_norm",
     {.flops = Flops::normalisation,
      .saved = Saved::group_norm,
      .sharding = Sharding::group_norm,
      .time = Time::normalisation}},
    {"batch_norm",
     {.writes = Writes::statistics,
      .functional = "_native_batch_norm_legit_functional",
      .flops = Flops::normalisation,
      .saved = Saved::norm,
      .sharding = Sharding::batch_norm,
      .time = Time::normalisation}},
    {"instance_norm",
     {.writes = Writes::instance_statistics,
      .flops = Flops::normalisation,
      .saved = Saved::norm,
      .time = Time::normalisation}},
    {"native_layer_norm _native_batch_norm_legit_no_training",
     {.gradient = Gradient::first_output_only,
      .flops = Flops::normalisation,
      .saved = Saved::norm,
      .time = Time::normalisation}},
    {"_native_batch_norm_legit_functional",
     {.gradient = Gradient::first_output_only,
      .flops = Flops::normalisation,
      .saved = Saved::norm,
      .sharding = Sharding::batch_norm,
      .time = Time::normalisation}},
    {"native_group_norm",
     {.gradient = Gradient::first_output_only,
      .flops = Flops::normalisation,
      .saved = Saved::group_norm,
      .time = Time::normalisation}},
    {"_native_batch_norm_legit",
     {.writes = Writes::statistics,
      .functional = "_native_batch_norm_legit_functional",
      .gradient = Gradient::first_output_only,
      .flops = Flops::normalisation,
      .saved = Saved::norm,
      .time = Time::normalisation}},
    {"native_batch_norm",
     {.writes = Writes::statistics,
      .gradient = Gradient::first_output_only,
      .saved = Saved::norm,
      .time = Time::normalisation}},
    {"_batch_norm_with_update_functional _fused_rms_norm",
     {.gradient = Gradient::first_output_only, .saved = Saved::norm, .time = Time::normalisation}},
    {"_batch_norm_impl_index cudnn_batch_norm",
     {.writes = Writes::statistics,
      .gradient = Gradient::first_output_only,
      .time = Time::normalisation}},
    {"miopen_batch_norm", {.writes = Writes::statistics, .time = Time::normalisation}},
    {"_batch_norm_with_update _batch_norm_no_update batch_norm_stats _weight_norm_interface",
     {.gradient = Gradient::first_output_only, .time = Time::normalisation}},
    {"_weight_norm", {.time = Time::normalisation}},
    {"softmax _softmax log_softmax _log_softmax",
     {.flops = Flops::softmax,
      .saved = Saved::result,
      .sharding = Sharding::one_dimension,
      .time = Time::normalisation}},
    {"cross_entropy_loss",
     {.counts_targets = true, .flops = Flops::softmax, .time = Time::normalisation}},
    {"nll_loss nll_loss_nd nll_loss2d", {.counts_targets = true}},
    {"nll_loss_forward nll_loss2d_forward",
     {.counts_targets = true, .gradient = Gradient::first_output_only}},

    // Lookups
    {"embedding",
     {.flops = Flops::lookup, .saved = Saved::nothing, .sharding = Sharding::embedding}},
    {"index_select",
     {.flops = Flops::lookup, .saved = Saved::nothing, .sharding = Sharding::index_select}},
    {"gather", {.flops = Flops::lookup, .saved = Saved::nothing, .sharding = Sharding::gather}},
    {"index", {.flops = Flops::lookup, .saved = Saved::nothing, .sharding = Sharding::index}},
    {"embedding_bag", {.flops = Flops::embedding_bag, .time = Time::lookup}},
    {"_embedding_bag", {.gradient = Gradient::first_output_only, .time = Time::lookup}},

    // Reductions
    {"sum",
     {.gradient = Gradient::passed,
      .flops = Flops::reduction,
      .saved = Saved::nothing,
      .sharding = Sharding::sum,
      .time = Time::reduction}},
    {"mean",
     {.gradient = Gradient::passed,
      .flops = Flops::reduction,
      .saved = Saved::nothing,
      .sharding = Sharding::mean,
      .time = Time::reduction}},
    {"amax amin var std",
     {.flops = Flops::reduction, .sharding = Sharding::reduced, .time = Time::reduction}},
    {"max min prod", {.flops = Flops::reduction, .time = Time::reduction}},
    {"argmax argmin",
     {.gradient = Gradient::stopped, .flops = Flops::reduction, .time = Time::reduction}},
    {"cumsum norm", {.time = Time::reduction}},

    // Element by element
    {"gelu silu pow log sin cos abs", {.sharding = Sharding::pointwise}},
    {"diff triu", {}},
    {"add",
     {.gradient = Gradient::shared,
      .saved = Saved::nothing,
      .sharding = Sharding::linear_pointwise}},
    {"sub",
     {.gradient = Gradient::passed,
      .saved = Saved::nothing,
      .sharding = Sharding::linear_pointwise}},
    {"neg", {.saved = Saved::nothing, .sharding = Sharding::linear_pointwise}},
    {"rsub where masked_fill", {.saved = Saved::nothing, .sharding = Sharding::pointwise}},
    {"mul", {.saved = Saved::factors, .sharding = Sharding::scaled}},
    {"div", {.saved = Saved::divisor, .sharding = Sharding::scaled}},
    {"relu sigmoid tanh exp sqrt rsqrt reciprocal",
     {.saved = Saved::result, .sharding = Sharding::pointwise}},
    {"max_pool1d max_pool2d max_pool3d",
     {.saved = Saved::positions, .sharding = Sharding::pooling}},
    {"max_pool2d_with_indices", {.saved = Saved::positions}},
    {"avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d",
     {.sharding = Sharding::pooling}},

    // Moving memory
    {"clone",
     {.gradient = Gradient::shared,
      .flops = Flops::none,
      .saved = Saved::nothing,
      .sharding = Sharding::linear_pointwise}},
    {"contiguous",
     {.view = View::perhaps,
      .gradient = Gradient::shared,
      .flops = Flops::none,
      .saved = Saved::nothing,
      .sharding = Sharding::linear_pointwise}},
    {"cat",
     {.gradient = Gradient::passed,
      .flops = Flops::none,
      .saved = Saved::nothing,
      .sharding = Sharding::pieces}},
    {"stack",
     {.gradient = Gradient::passed,
      .flops = Flops::none,
      .saved = Saved::nothing,
      .sharding = Sharding::stacked}},
    {"_to_copy", {.saved = Saved::nothing, .sharding = Sharding::linear_pointwise}},
    {"roll flip", {.saved = Saved::nothing, .sharding = Sharding::reordered}},
    {"repeat", {.saved = Saved::nothing, .sharding = Sharding::repeated}},
    {"constant_pad_nd pad", {.saved = Saved::nothing, .sharding = Sharding::padded}},
    {"upsample_nearest2d upsample_bilinear2d",
     {.saved = Saved::nothing, .sharding = Sharding::pooling}},
    {"to", {.view = View::perhaps, .saved = Saved::nothing}},
    {"type_as", {.view = View::perhaps, .sharding = Sharding::pointwise}},
    {"cpu sum_to_size conj conj_physical resolve_conj resolve_neg atleast_1d atleast_2d "
     "atleast_3d linalg_diagonal broadcast_tensors meshgrid einsum pixel_shuffle pixel_unshuffle "
     "_autocast_to_reduced_precision _autocast_to_full_precision",
     {.view = View::perhaps}},
    {"copy_", {.writes = Writes::copy}},

    // Views
    {"squeeze", {.view = View::shape, .sharding = Sharding::squeezed}},
    {"alias view _unsafe_view unsqueeze", {.view = View::shape, .sharding = Sharding::view}},
    {"view_as _reshape_alias unflatten", {.view = View::shape}},
    {"reshape flatten", {.view = View::shape_or_copy, .sharding = Sharding::view}},
    {"reshape_as ravel", {.view = View::shape_or_copy}},
    {"t transpose", {.view = View::swap, .sharding = Sharding::permuted}},
    {"swapaxes swapdims", {.view = View::swap}},
    {"permute", {.view = View::permutation, .sharding = Sharding::permuted}},
    {"select", {.view = View::part, .sharding = Sharding::selected}},
    {"slice", {.view = View::part, .sharding = Sharding::one_dimension}},
    {"diagonal", {.view = View::part}},
    {"expand", {.view = View::other, .sharding = Sharding::expanded}},
    {"chunk split split_with_sizes", {.view = View::other, .sharding = Sharding::pieces}},
    {"as_strided positive unfold movedim moveaxis numpy_T mT mH adjoint matrix_H expand_as "
     "broadcast_to narrow tensor_split hsplit vsplit dsplit unbind "
     "real imag view_as_real view_as_complex",
     {.view = View::other}},
    {"detach",
     {.view = View::other, .gradient = Gradient::stopped, .sharding = Sharding::pointwise}},

    // Randomness
    {"dropout",
     {.view = View::perhaps,
      .random = Random::dropout,
      .saved = Saved::mask,
      .sharding = Sharding::pointwise}},
    {"feature_dropout",  // drops whole channels
     {.view = View::perhaps, .random = Random::dropout, .saved = Saved::mask}},
    {"alpha_dropout feature_alpha_dropout", {.view = View::perhaps, .random = Random::dropout}},
    {"native_dropout",
     {.random = Random::dropout,
      .gradient = Gradient::first_output_only,
      .saved = Saved::mask,
      .sharding = Sharding::pointwise}},
    {"rrelu rrelu_with_noise rrelu_with_noise_functional", {.random = Random::training}},
    {"bernoulli cauchy exponential geometric log_normal normal poisson rand randint randn random "
     "randperm "
     "normal_functional binomial uniform _standard_gamma _sample_dirichlet _fused_dropout",
     {.random = Random::always}},
    {"multinomial rand_like randint_like randn_like",
     {.random = Random::always, .gradient = Gradient::stopped}},

    // Without gradients: new tensors, truth values, integers
    {"full zeros ones empty lift_fresh_copy", {.flops = Flops::none}},
    {"arange __and__ bitwise_not", {}},
    {"zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty "
     "new_empty_strided detach_copy isnan isinf isfinite isin isclose argsort bucketize "
     "searchsorted one_hot floor_divide histc nonzero signbit",
     {.gradient = Gradient::stopped}},
    {"eq ne lt le gt ge logical_and logical_or logical_not logical_xor",
     {.comparison = true, .gradient = Gradient::stopped}},
    {"not_equal less less_equal greater greater_equal", {.comparison = true}},
    {"_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async "
     "_functional_assert_scalar _functional_sym_constrain_range "
     "_functional_sym_constrain_range_for_size _print sym_constrain_range "
     "sym_constrain_range_for_size",
     {.assertion = true}},

    // Penstock's own: between the ranks of a tensor group, and on a part
    {"identity own_part among_zeros first_only all_reduce reduce_scatter all_gather all_to_all",
     {.flops = Flops::none, .saved = Saved::nothing}},
    {"all_gather_again", {.flops = Flops::none, .saved = Saved::operands}},
    {"embedding_of_rows", {.flops = Flops::lookup, .saved = Saved::nothing, .time = Time::lookup}},

    // In place: another name does the same without writing, or none does
    {"normal_", {.functional = "normal_functional"}},
    {"set_ resize_ resize_as_ unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_ "
     "detach_ requires_grad_ rename_ rrelu_with_noise_ embedding_renorm_",
     {.writes = Writes::unlike_functional}},
};

}  // namespace

std::span<const OperatorGroup> operator_table() { return groups; }

}  // namespace penstock
