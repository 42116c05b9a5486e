// Operators that draw, as torch's kernels for CUDA do it on a device of 132 multiprocessors: thread by thread, see
// ATen/native/cuda/DistributionTemplates.h, Dropout.cu and the headers of cuRAND.
#pragma once

#include "state.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/core/TransformationHelper.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

constexpr int64_t BLOCK = 256, BLOCKS = 132 * 2048 / BLOCK;

using Words = std::array<uint32_t, 4>;

// curandStatePhilox4_32_10_t
struct Philox {
    uint64_t seed, number, call;

    Words next()
    {
        uint32_t c[] = {(uint32_t)call, (uint32_t)(call >> 32), (uint32_t)number, (uint32_t)(number >> 32)};
        uint32_t key[] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
        for (int round = 0; round < 10; round++) {
            uint64_t a = (uint64_t)c[0] * 0xD2511F53, b = (uint64_t)c[2] * 0xCD9E8D57;
            c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key[0], c[1] = (uint32_t)b;
            c[2] = (uint32_t)(a >> 32) ^ c[3] ^ key[1], c[3] = (uint32_t)a;
            key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
        }
        call++;
        return {c[0], c[1], c[2], c[3]};
    }
};

// ---- what is made of four words ----

static std::array<float, 4> uniform4(const Words &x)
{
    constexpr float step = 2.3283064e-10f;
    return {x[0] * step + step / 2, x[1] * step + step / 2, x[2] * step + step / 2, x[3] * step + step / 2};
}
static double uniform_double(uint32_t x, uint32_t y)
{
    constexpr double step = 1.1102230246251565e-16;
    return ((uint64_t)x ^ ((uint64_t)y << 21)) * step + step / 2;
}
static std::array<double, 2> uniform2(const Words &x)
{
    return {uniform_double(x[0], x[1]), uniform_double(x[2], x[3])};
}
static std::array<float, 4> normal4(const Words &x)
{
    constexpr float step = 2.3283064e-10f, factor = step * 6.2831855f;
    std::array<float, 4> made;
    for (int i = 0; i < 4; i += 2) {
        float u = x[i] * step + step / 2, v = std::fma((float)x[i + 1], factor, factor / 2);
        float radius = std::sqrt(-2.0f * std::log(u));
        made[i] = std::sin(v) * radius, made[i + 1] = std::cos(v) * radius;
    }
    return made;
}
static std::array<double, 2> normal2(const Words &x)
{
    double u = uniform_double(x[0], x[1]), v = uniform_double(x[2], x[3]) * 2;
    double radius = std::sqrt(-2.0 * std::log(u));
    return {std::sin(v * M_PI) * radius, std::cos(v * M_PI) * radius};
}
static std::array<uint64_t, 2> words2(const Words &x)
{
    return {(uint64_t)x[0] << 32 | x[1], (uint64_t)x[2] << 32 | x[3]};
}

// ---- layouts ----

// Where each element is, in the order of a TensorIterator: along the dimension with the smallest stride first.
static std::vector<int64_t> places_of(const at::Tensor &x, bool by_strides)
{
    std::vector<int64_t> order(x.dim()), places{0};
    std::iota(order.begin(), order.end(), 0);
    if (by_strides) {
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x.stride(a) > x.stride(b); });
    }
    for (int64_t dim : order) {
        std::vector<int64_t> next;
        next.reserve(places.size() * x.size(dim));
        for (int64_t place : places) {
            for (int64_t i = 0; i < x.size(dim); i++) {
                next.push_back(place + i * x.stride(dim));
            }
        }
        places = std::move(next);
    }
    return places;
}

static int64_t threads_of(int64_t count) { return BLOCK * std::min((count + BLOCK - 1) / BLOCK, BLOCKS); }

static Random &generator_for(const at::Tensor &x, const std::optional<at::Generator> &given)
{
    return random_of(given && given->defined() ? *given : default_generator(x.device().index()));
}

// distribution_elementwise_grid_stride_kernel: `put` is given the number of an element and what is drawn for it.
template <int together, class Make, class Put> static void in_rows(Random &random, int64_t count, Make make, Put put)
{
    if (count == 0) {
        return;
    }
    int64_t threads = threads_of(count), step = threads * together;
    uint64_t offset = random.take(((count - 1) / step + 1) * 4);
    int64_t rounded = ((count - 1) / step + 1) * step;
    for (int64_t thread = 0; thread < threads; thread++) {
        Philox stream{random.own_seed, (uint64_t)thread, offset / 4};
        for (int64_t first = thread; first < rounded; first += step) {
            auto drawn = make(stream.next());
            for (int i = 0; i < together && first + threads * i < count; i++) {
                put(first + threads * i, drawn[i]);
            }
        }
    }
}

template <int together, class T, class Make, class Transform>
static void fill(at::Tensor &x, const std::optional<at::Generator> &given, Make make, Transform transform)
{
    auto places = places_of(x, true);
    T *data = x.mutable_data_ptr<T>();
    in_rows<together>(generator_for(x, given), x.numel(), make,
                      [&](int64_t number, auto drawn) { data[places[number]] = transform(drawn); });
}

template <class T, class Transform>
static void by_uniform(at::Tensor &x, const std::optional<at::Generator> &given, Transform transform)
{
    if constexpr (std::is_same_v<T, double>) {
        fill<2, T>(x, given, uniform2, transform);
    } else {
        fill<4, T>(x, given, uniform4, transform);
    }
}

// ---- operators ----

#define ON_FLOATS(type, ...) AT_DISPATCH_FLOATING_TYPES_AND2(kHalf, kBFloat16, type, "draw", __VA_ARGS__)
#define ON_ALL(type, ...) AT_DISPATCH_ALL_TYPES_AND3(kHalf, kBFloat16, kBool, type, "draw", __VA_ARGS__)
using Given = std::optional<at::Generator>;

static at::Tensor &draw_uniform(at::Tensor &x, double low, double high, Given given)
{
    ON_FLOATS(x.scalar_type(), [&] {
        auto from = (scalar_t)low, to = (scalar_t)high;
        using wide_t = at::opmath_type<scalar_t>;
        auto range = (wide_t)(to - from);
        by_uniform<scalar_t>(x, given, [=](wide_t drawn) {
            auto value = (scalar_t)std::fma(drawn, range, (wide_t)from);
            return value == to ? from : value;
        });
    });
    return x;
}

static at::Tensor &draw_normal(at::Tensor &x, double mean, double deviation, Given given)
{
    ON_FLOATS(x.scalar_type(), [&] {
        using wide_t = at::opmath_type<scalar_t>;
        auto transform = [=](wide_t drawn) { return (scalar_t)std::fma(drawn, (wide_t)deviation, (wide_t)mean); };
        if constexpr (std::is_same_v<scalar_t, double>) {
            fill<2, scalar_t>(x, given, normal2, transform);
        } else {
            fill<4, scalar_t>(x, given, normal4, transform);
        }
    });
    return x;
}

static at::Tensor &draw_exponential(at::Tensor &x, double rate, Given given)
{
    ON_FLOATS(x.scalar_type(), [&] {
        using wide_t = at::opmath_type<scalar_t>;
        by_uniform<scalar_t>(x, given, [=](wide_t drawn) {
            constexpr wide_t half = std::numeric_limits<wide_t>::epsilon() / 2;
            auto log = drawn >= 1 - half ? -half : std::log(drawn);
            return (scalar_t)((wide_t)-1 / (wide_t)rate * log);
        });
    });
    return x;
}

static at::Tensor &draw_bernoulli(at::Tensor &x, double chance, Given given)
{
    ON_ALL(x.scalar_type(), [&] {
        by_uniform<scalar_t>(x, given, [=](auto drawn) { return (scalar_t)(drawn < (decltype(drawn))chance); });
    });
    return x;
}

// A thread makes four elements that stand side by side, in blocks of 512.
static at::Tensor &draw_bernoulli_by(at::Tensor &x, const at::Tensor &chances, Given given)
{
    if (x.numel() == 0) {
        return x;
    }
    Random &random = generator_for(x, given);
    uint64_t offset = random.take(10);
    bool is_double = x.scalar_type() == kDouble;
    at::Tensor p = chances.to(is_double ? kDouble : kFloat).expand(x.sizes()).contiguous();
    auto places = places_of(x, false);
    ON_ALL(x.scalar_type(), [&] {
        auto *data = x.mutable_data_ptr<scalar_t>();
        for (int64_t first = 0; first < x.numel(); first += 4) {
            auto drawn = uniform4(Philox{random.own_seed, (uint64_t)(first / 4), offset / 4}.next());
            for (int64_t i = 0; i < 4 && first + i < x.numel(); i++) {
                double chance = is_double ? p.data_ptr<double>()[first + i] : p.data_ptr<float>()[first + i];
                data[places[first + i]] = (scalar_t)((double)drawn[i] <= chance);
            }
        }
    });
    return x;
}

static at::Tensor &draw_between(at::Tensor &x, int64_t low, std::optional<int64_t> high, Given given)
{
    TORCH_CHECK(high, "the simulated device draws between two ends");
    uint64_t range = (uint64_t)*high - (uint64_t)low;
    ON_ALL(x.scalar_type(), [&] {
        auto transform = [=](auto drawn) { return (scalar_t)(int64_t)(drawn % range + low); };
        if (range >= 1ull << 28) {
            fill<2, scalar_t>(x, given, words2, transform);
        } else {
            fill<4, scalar_t>(x, given, [](const Words &words) { return words; }, transform);
        }
    });
    return x;
}

static at::Tensor &draw_below(at::Tensor &x, int64_t high, Given given) { return draw_between(x, 0, high, given); }

static at::Tensor &draw_any(at::Tensor &x, Given given)
{
    ON_ALL(x.scalar_type(), [&] {
        auto transform = [](auto drawn) { return at::transformation::uniform_int<scalar_t>(drawn); };
        if constexpr (std::is_same_v<scalar_t, double> || std::is_same_v<scalar_t, int64_t>) {
            fill<2, scalar_t>(x, given, words2, transform);
        } else {
            fill<4, scalar_t>(x, given, [](const Words &words) { return words; }, transform);
        }
    });
    return x;
}

// How many elements a thread makes at once.
static int64_t elements_together(const at::Tensor &x)
{
    int64_t size = x.element_size(), together = 16 / size;
    if (!x.is_non_overlapping_and_dense()) {
        return 1;
    }
    while (together > 1 && ((uintptr_t)x.const_data_ptr() % (together * size) || x.numel() % together)) {
        together /= 2;
    }
    return together;
}

static std::tuple<at::Tensor, at::Tensor> draw_dropout(const at::Tensor &x, double p, std::optional<bool> train)
{
    if (train && !*train) {
        return {x.clone(), at::ones_like(x, x.options().dtype(kBool))};
    }
    if (p == 1) {
        return {at::zeros_like(x), at::zeros_like(x, x.options().dtype(kBool))};
    }
    at::Tensor result = at::empty_like(x), mask = at::empty_like(x, x.options().dtype(kBool));
    int64_t count = x.numel(), together = elements_together(x);
    Random &random = generator_for(x, std::nullopt);
    auto from = places_of(x, together > 1), to = places_of(result, together > 1);
    ON_FLOATS(x.scalar_type(), [&] {
        using wide_t = at::opmath_type<scalar_t>;
        wide_t share = 1 - p, scale = 1.0 / share;
        const auto *source = x.const_data_ptr<scalar_t>();
        auto *data = result.mutable_data_ptr<scalar_t>();
        auto *kept = mask.mutable_data_ptr<bool>();
        auto put = [&](int64_t number, float drawn) {
            bool keep = drawn < share;
            data[to[number]] = (scalar_t)(source[from[number]] * (float)keep * scale);
            kept[to[number]] = keep;
        };
        if (together == 1 || count == 0) {
            in_rows<4>(random, count, uniform4, put);
            return;
        }
        int64_t threads = threads_of(count);
        uint64_t offset = random.take(((count - 1) / (threads * 4) + 1) * 4);
        for (int64_t thread = 0; thread < threads; thread++) {
            Philox stream{random.own_seed, (uint64_t)thread, offset / 4};
            for (int64_t first = thread * together; first < count; first += threads * together) {
                for (int64_t i = 0; i < together; i += 4) {
                    auto drawn = uniform4(stream.next());
                    for (int64_t k = 0; k < std::min<int64_t>(together, 4); k++) {
                        put(first + i + k, drawn[k]);
                    }
                }
            }
        }
    });
    return {result, mask};
}

template <class Add> static void register_draws(Add add)
{
    add("uniform_", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_uniform));
    add("normal_", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_normal));
    add("exponential_", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_exponential));
    add("bernoulli_.float", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_bernoulli));
    add("bernoulli_.Tensor", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_bernoulli_by));
    add("random_.from", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_between));
    add("random_.to", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_below));
    add("random_", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_any));
    add("native_dropout", KernelFunction::makeFromUnboxedRuntimeFunction(&draw_dropout));
}
