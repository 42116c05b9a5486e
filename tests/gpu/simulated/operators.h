// The operators of the simulated devices: the fallback of the dispatch key CUDA gives the operator tensors of the CPU
// over the same memory, and takes what comes back as tensors of the device.
#pragma once

#include "draws.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

constexpr const char *DIFFERENT = "Expected all tensors to be on the same device, but found at least two devices, ";

static void drop_storage(void *held) { delete (Storage *)held; }

// The memory of a storage as that of the CPU; it lives as long as the new one does.
static Storage seen_from_cpu(const Storage &storage)
{
    DataPtr data(const_cast<void *>(storage.data()), new Storage(storage), &drop_storage, kCPU);
    return Storage(Storage::use_byte_size_t(), storage.nbytes(), std::move(data), GetAllocator(kCPU), true);
}

// What an operator of the CPU has made, as memory of the device.
struct Made {
    Storage storage;
    const void *data;
};

static void drop_made(void *held)
{
    device_memory.forget(((Made *)held)->data);
    delete (Made *)held;
}

static Storage made_on(Device device, const Storage &storage)
{
    device_memory.know(storage.data(), storage.nbytes());
    DataPtr data(const_cast<void *>(storage.data()), new Made{storage, storage.data()}, &drop_made, device);
    return Storage(Storage::use_byte_size_t(), storage.nbytes(), std::move(data), &device_memory, true);
}

static void copy_place(const TensorImpl *from, TensorImpl *to)
{
    to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
}

// A tensor as one of another device, whose storage this is.
static at::Tensor seen_in(Storage storage, DispatchKey key, const at::Tensor &tensor)
{
    auto made = at::detail::make_tensor<TensorImpl>(std::move(storage), DispatchKeySet(key), tensor.dtype());
    copy_place(tensor.unsafeGetTensorImpl(), made.unsafeGetTensorImpl());
    made.unsafeGetTensorImpl()->_set_conj(tensor.is_conj());
    made.unsafeGetTensorImpl()->_set_neg(tensor.is_neg());
    return made;
}

// What is exchanged in one call of an operator.
struct Exchange {
    const OperatorHandle &op;
    std::vector<std::pair<at::Tensor, at::Tensor>> tensors; // of the device, and what stands for it
    std::vector<std::pair<Storage, Storage>> storages;
    std::vector<TensorImpl *> given; // tensors of the CPU
    std::optional<Device> device;

    // Operators that take tensors of several devices.
    bool mixes() const
    {
        static const std::vector<std::string> names{"copy_", "index", "_index", "_unsafe_index", "set_", "_foreach",
                                                    "_fused", "_amp", "record_stream", "_pack_padded"};
        std::string name = op.operator_name().name.substr(6); // behind aten::
        auto begins = [&](const std::string &each) { return name.compare(0, each.size(), each) == 0; };
        return op.operator_name().name.compare(0, 6, "aten::") != 0 || std::any_of(names.begin(), names.end(), begins);
    }
    void on(Device found)
    {
        TORCH_CHECK(!device || *device == found || mixes(), DIFFERENT, *device, " and ", found, "!");
        device = device ? device : found;
    }
    Storage storage(const Storage &given)
    {
        for (auto &[own, other] : storages) {
            if (own.unsafeGetStorageImpl() == given.unsafeGetStorageImpl()) {
                return other;
            }
        }
        storages.emplace_back(given, seen_from_cpu(given));
        return storages.back().second;
    }
    at::Tensor tensor(const at::Tensor &tensor)
    {
        if (!tensor.defined() || !tensor.is_cuda()) {
            if (tensor.defined()) {
                given.push_back(tensor.unsafeGetTensorImpl());
            }
            return tensor;
        }
        on(tensor.device());
        for (auto &[own, other] : tensors) {
            if (own.is_same(tensor)) {
                return other;
            }
        }
        TORCH_CHECK(tensor.layout() == kStrided, "the simulated device has strided tensors only");
        at::Tensor other = seen_in(storage(tensor.storage()), DispatchKey::CPU, tensor);
        if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
            other.unsafeGetTensorImpl()->set_wrapped_number(true);
        }
        tensors.emplace_back(tensor, other);
        return other;
    }
    void check_given() const
    {
        for (TensorImpl *each : given) {
            bool joins = each->dim() == 0 || !each->device().is_cpu() || mixes();
            TORCH_CHECK(!device || joins, DIFFERENT, *device, " and cpu!");
        }
    }
    IValue to_cpu(const IValue &value)
    {
        if (value.isTensor()) {
            return tensor(value.toTensor());
        }
        if (value.isDevice() && value.toDevice().is_cuda()) {
            on(numbered(index_of(value.toDevice())));
            check_index(device->index());
            return Device(kCPU);
        }
        if (value.isStorage() && value.toStorage().device().is_cuda()) {
            return storage(value.toStorage());
        }
        if (value.isGenerator()) {
            return on_cpu(value.toGenerator());
        }
        if (value.isTensorList()) {
            List<at::Tensor> made;
            for (const at::Tensor &each : value.toTensorVector()) {
                made.push_back(tensor(each));
            }
            return made;
        }
        if (value.isList()) {
            List<IValue> list = value.toList();
            impl::GenericList made(list.elementType());
            for (const IValue &each : list) {
                made.push_back(to_cpu(each));
            }
            return made;
        }
        return value;
    }

    Storage storage_back(const Storage &from)
    {
        for (auto &[own, other] : storages) {
            if (other.unsafeGetStorageImpl() == from.unsafeGetStorageImpl()) {
                return own;
            }
        }
        storages.emplace_back(made_on(*device, from), from);
        return storages.back().first;
    }
    at::Tensor tensor_back(const at::Tensor &tensor)
    {
        if (!tensor.defined() || !device ||
            std::find(given.begin(), given.end(), tensor.unsafeGetTensorImpl()) != given.end()) {
            return tensor;
        }
        for (auto &[own, other] : tensors) {
            if (other.is_same(tensor)) {
                return own;
            }
        }
        TORCH_CHECK(tensor.layout() == kStrided, "the simulated device has strided tensors only");
        return seen_in(storage_back(tensor.storage()), DispatchKey::CUDA, tensor);
    }
    IValue to_device(const IValue &value)
    {
        if (value.isTensor()) {
            return tensor_back(value.toTensor());
        }
        if (value.isTensorList()) {
            List<at::Tensor> made;
            for (const at::Tensor &each : value.toTensorVector()) {
                made.push_back(tensor_back(each));
            }
            return made;
        }
        return value;
    }
    // What the operator has changed of its arguments besides what their elements are.
    void take_changes()
    {
        for (auto &[own, other] : storages) {
            if (own.data() != other.data()) {
                Storage held = made_on(own.device(), other);
                own.set_data_ptr_noswap(std::move(held.mutable_data_ptr()));
            }
            if (own.nbytes() != other.nbytes()) {
                own.set_nbytes(other.nbytes());
            }
        }
        for (auto &[own, other] : tensors) {
            Storage storage = storage_back(other.storage());
            if (storage.unsafeGetStorageImpl() != own.storage().unsafeGetStorageImpl()) {
                own.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
            }
            if (own.sizes() != other.sizes() || own.strides() != other.strides() ||
                own.storage_offset() != other.storage_offset()) {
                copy_place(other.unsafeGetTensorImpl(), own.unsafeGetTensorImpl());
            }
        }
    }
};

static bool is_optional_generator(const TypePtr &type)
{
    return type->kind() == TypeKind::OptionalType && type->containedType(0)->kind() == TypeKind::GeneratorType;
}

static void run_on_cpu(const OperatorHandle &op, DispatchKeySet, torch::jit::Stack *stack)
{
    Exchange exchange{op, {}, {}, {}, {}};
    const auto &arguments = op.schema().arguments();
    size_t first = stack->size() - arguments.size();
    for (size_t i = 0; i < arguments.size(); i++) {
        (*stack)[first + i] = exchange.to_cpu((*stack)[first + i]);
    }
    exchange.check_given();
    bool takes_generator = false;
    for (size_t i = 0; exchange.device && i < arguments.size(); i++) {
        if (is_optional_generator(arguments[i].type())) {
            takes_generator = true;
            if ((*stack)[first + i].isNone()) {
                (*stack)[first + i] = on_cpu(default_generator(exchange.device->index()));
            }
        }
    }
    DeviceIndex index = exchange.device ? exchange.device->index() : current.device;
    note(op.operator_name().name, " on stream ", current.streams[index]);
    {
        impl::ExcludeDispatchKeyGuard below(autograd_dispatch_keyset_with_ADInplaceOrView | autocast_dispatch_keyset);
        std::optional<Drawing> drawing;
        if (exchange.device && !takes_generator && op.hasTag(at::Tag::nondeterministic_seeded)) {
            drawing.emplace(on_cpu(default_generator(exchange.device->index())));
        }
        op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
    }
    exchange.take_changes();
    for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); i++) {
        (*stack)[i] = exchange.to_device((*stack)[i]);
    }
}

static void record_stream(const OperatorHandle &, DispatchKeySet, torch::jit::Stack *stack)
{
    note("memory is used on stream ", (*stack)[1].toStream().id());
    stack->clear();
}

// All memory for kernels comes from here, or is given.
static at::Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<ScalarType> dtype,
                                std::optional<Layout>, std::optional<Device> device, std::optional<bool>)
{
    Guard guard;
    Device before = guard.exchangeDevice(device.value_or(guard.getDevice()));
    at::Tensor made = at::detail::empty_strided_generic(sizes, strides, &device_memory, DispatchKeySet(DispatchKey::CUDA),
                                                        dtype.value_or(get_default_dtype_as_scalartype()));
    guard.setDevice(before);
    return made;
}

// Of torch for all devices, which ask for kernels of the kind of device below the dispatcher.
static const char *const EVERYWHERE[] = {"copy_", "convolution", "convolution_backward", "mse_loss"};

static void register_operators()
{
    static std::vector<RegistrationHandleRAII> registered;
    auto &dispatcher = Dispatcher::singleton();
    auto add = [&](const std::string &name, KernelFunction kernel) {
        size_t point = std::min(name.find('.'), name.size());
        OperatorName full{"aten::" + name.substr(0, point), point < name.size() ? name.substr(point + 1) : ""};
        registered.push_back(
            dispatcher.registerImpl(full, DispatchKey::CUDA, std::move(kernel), std::nullopt, nullptr, "simulated"));
    };
    auto fallback = KernelFunction::makeFromBoxedFunction<&run_on_cpu>();
    registered.push_back(dispatcher.registerFallback(DispatchKey::CUDA, fallback, "simulated"));
    for (const char *name : EVERYWHERE) {
        add(name, fallback);
    }
    register_draws(add);
    add("empty_strided", KernelFunction::makeFromUnboxedRuntimeFunction(&empty_strided));
    add("record_stream", KernelFunction::makeFromBoxedFunction<&record_stream>());
}
