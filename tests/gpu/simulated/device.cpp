// CUDA devices in ordinary memory, for a torch that was built without CUDA: what libtorch asks of a kind of device.
//
// Tensors on them are real: only their operators are those of the CPU. The fallback of the dispatch key CUDA gives the
// operator tensors of the CPU over the same memory, and takes what comes back as tensors of the device.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <set>

using namespace c10;

constexpr DeviceIndex COUNT = 2;
constexpr const char *DIFFERENT = "Expected all tensors to be on the same device, but found at least two devices, ";

static Device numbered(DeviceIndex index) { return Device(DeviceType::CUDA, index); }

// ---- what happened on which stream, for tests ----

static std::mutex log_lock;
static bool logging = false;
static std::vector<std::string> logged;

template <class... Parts> static void note(const Parts &...parts)
{
    std::lock_guard<std::mutex> lock(log_lock);
    if (logging) {
        logged.push_back(c10::str(parts...));
    }
}

// ---- the current device and streams, events ----

struct Current {
    DeviceIndex device = 0;
    StreamId streams[COUNT] = {};
};
static thread_local Current current;
static std::atomic<StreamId> last_stream{0};

static DeviceIndex index_of(Device device) { return device.index() < 0 ? current.device : device.index(); }

static void check_index(int64_t index)
{
    TORCH_CHECK(index >= 0 && index < COUNT, "CUDA error: invalid device ordinal");
}

struct Guard final : impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
    Device exchangeDevice(Device device) const override
    {
        Device before = getDevice();
        setDevice(device);
        return before;
    }
    Device getDevice() const override { return numbered(current.device); }
    void setDevice(Device device) const override
    {
        check_index(index_of(device));
        current.device = index_of(device);
    }
    void uncheckedSetDevice(Device device) const noexcept override { current.device = index_of(device); }
    DeviceIndex deviceCount() const noexcept override { return COUNT; }
    Stream getStream(Device device) const noexcept override
    {
        return Stream(Stream::UNSAFE, numbered(index_of(device)), current.streams[index_of(device)]);
    }
    Stream getDefaultStream(Device device) const override { return Stream(Stream::DEFAULT, numbered(index_of(device))); }
    Stream getStreamFromGlobalPool(Device device, bool = false) const override { return getNewStream(device); }
    Stream getNewStream(Device device, int = 0) const override
    {
        return Stream(Stream::UNSAFE, numbered(index_of(device)), ++last_stream);
    }
    Stream exchangeStream(Stream stream) const noexcept override
    {
        Stream before = getStream(stream.device());
        current.streams[stream.device_index()] = stream.id();
        return before;
    }
    void *getStreamNativeHandle(const Stream stream) const override { return (void *)stream.id(); }
    void record(void **event, const Stream &stream, DeviceIndex, EventFlag) const override
    {
        static std::atomic<intptr_t> last_event{0};
        if (*event == nullptr) {
            *event = (void *)++last_event;
        }
        note("record event ", (intptr_t)*event, " on stream ", stream.id());
    }
    void block(void *event, const Stream &stream) const override
    {
        note("stream ", stream.id(), " waits for event ", (intptr_t)event);
    }
    bool queryEvent(void *) const override { return true; }
    bool queryStream(const Stream &) const override { return true; }
    void synchronizeStream(const Stream &stream) const override { note("synchronize stream ", stream.id()); }
    void synchronizeEvent(void *event) const override { note("synchronize event ", (intptr_t)event); }
    void synchronizeDevice(DeviceIndex index) const override { note("synchronize device ", (int)index); }
    double elapsedTime(void *, void *, DeviceIndex) const override { return 1.0; }
};

// ---- memory ----

template <DeviceType type> struct Memory final : Allocator {
    std::mutex lock;
    static std::set<const void *> pinned; // of pinned memory only

    DataPtr allocate(size_t size) override
    {
        DataPtr made = GetAllocator(kCPU)->allocate(size);
        void *data = made.get();
        if (type == DeviceType::CPU) {
            std::lock_guard<std::mutex> locked(lock);
            pinned.insert(data);
        }
        return DataPtr(data, new DataPtr(std::move(made)), &release, type == DeviceType::CPU ? Device(type) : numbered(current.device));
    }
    static void release(void *held)
    {
        pinned.erase(((DataPtr *)held)->get());
        delete (DataPtr *)held;
    }
    DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void *to, const void *from, size_t size) const override { default_copy_data(to, from, size); }
};
template <DeviceType type> std::set<const void *> Memory<type>::pinned;
static Memory<DeviceType::CUDA> device_memory;
static Memory<DeviceType::CPU> pinned_memory;

// ---- random numbers ----

struct Random final : GeneratorImpl {
    at::Generator on_cpu;

    Random(DeviceIndex index, at::Generator numbers)
        : GeneratorImpl(numbered(index), DispatchKeySet(DispatchKey::CUDA)), on_cpu(std::move(numbers))
    {
    }
    void set_current_seed(uint64_t seed) override { on_cpu.set_current_seed(seed); }
    void set_offset(uint64_t) override {}
    uint64_t get_offset() const override { return 0; }
    uint64_t current_seed() const override { return on_cpu.current_seed(); }
    uint64_t seed() override { return const_cast<at::Generator &>(on_cpu).seed(); }
    void set_state(const TensorImpl &state) override { on_cpu.unsafeGetGeneratorImpl()->set_state(state); }
    intrusive_ptr<TensorImpl> get_state() const override { return on_cpu.unsafeGetGeneratorImpl()->get_state(); }
    Random *clone_impl() const override { return new Random(device_.index(), on_cpu.clone()); }
};

static const at::Generator &default_generator(DeviceIndex index)
{
    static std::vector<at::Generator> made = [] {
        std::vector<at::Generator> all;
        for (DeviceIndex each = 0; each < COUNT; each++) {
            all.push_back(at::make_generator<Random>(each, at::detail::createCPUGenerator()));
        }
        return all;
    }();
    return made.at(index < 0 ? current.device : index);
}

// Operators that draw without being given a generator do so from that of the CPU, which has the state of the device's.
struct Drawing {
    at::Generator drawn, own;
    intrusive_ptr<TensorImpl> before;

    Drawing(at::Generator of_device) : drawn(at::detail::getDefaultCPUGenerator()), own(std::move(of_device))
    {
        before = drawn.unsafeGetGeneratorImpl()->get_state();
        move(own, drawn);
    }
    ~Drawing()
    {
        move(drawn, own);
        drawn.unsafeGetGeneratorImpl()->set_state(*before);
    }
    static void move(const at::Generator &from, const at::Generator &to)
    {
        to.unsafeGetGeneratorImpl()->set_state(*from.unsafeGetGeneratorImpl()->get_state());
    }
};

static at::Generator on_cpu(const at::Generator &given)
{
    return given.device().is_cuda() ? static_cast<Random *>(given.unsafeGetGeneratorImpl())->on_cpu : given;
}

// ---- hooks ----

namespace at {
struct CUDAHooks final : CUDAHooksInterface {
    CUDAHooks(CUDAHooksArgs) {}
    void init() const override {}
    bool hasCUDA() const override { return true; }
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(DeviceIndex) const override { return true; }
    int getNumGPUs() const override { return COUNT; }
    DeviceIndex deviceCount() const override { return COUNT; }
    DeviceIndex current_device() const override { return current.device; }
    DeviceIndex getCurrentDevice() const override { return current.device; }
    void setCurrentDevice(DeviceIndex index) const override { Guard().setDevice(numbered(index)); }
    DeviceIndex exchangeDevice(DeviceIndex index) const override { return Guard().exchangeDevice(numbered(index)).index(); }
    DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return exchangeDevice(index); }
    bool isPinnedPtr(const void *data) const override { return pinned_memory.pinned.count(data) != 0; }
    Allocator *getPinnedMemoryAllocator() const override { return &pinned_memory; }
    Allocator *getCUDADeviceAllocator() const override { return &device_memory; }
    const Generator &getDefaultGenerator(DeviceIndex index) const override { return default_generator(index); }
    // The first one that is made for a device in Python is its default one.
    Generator getNewGenerator(DeviceIndex index) const override
    {
        static bool made[COUNT];
        index = index < 0 ? current.device : index;
        return std::exchange(made[index], true) ? make_generator<Random>(index, detail::createCPUGenerator())
                                                : default_generator(index);
    }
    void deviceSynchronize(DeviceIndex index) const override { Guard().synchronizeDevice(index); }
};
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, CUDAHooks)
} // namespace at

// ---- operators ----

static void drop_storage(void *held) { delete (Storage *)held; }

// The memory of a storage as that of another device; it lives as long as the new one does.
static Storage seen_from(const Storage &storage, Device device, Allocator *allocator)
{
    DataPtr data(const_cast<void *>(storage.data()), new Storage(storage), &drop_storage, device);
    return Storage(Storage::use_byte_size_t(), storage.nbytes(), std::move(data), allocator, true);
}

static void copy_place(const TensorImpl *from, TensorImpl *to)
{
    to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
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
        return op.operator_name().name.compare(0, 6, "aten::") != 0 ||
               std::any_of(names.begin(), names.end(), [&](auto &each) { return name.compare(0, each.size(), each) == 0; });
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
        storages.emplace_back(given, seen_from(given, kCPU, GetAllocator(kCPU)));
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
        auto other = at::detail::make_tensor<TensorImpl>(storage(tensor.storage()), DispatchKeySet(DispatchKey::CPU), tensor.dtype());
        copy_place(tensor.unsafeGetTensorImpl(), other.unsafeGetTensorImpl());
        other.unsafeGetTensorImpl()->_set_conj(tensor.is_conj());
        other.unsafeGetTensorImpl()->_set_neg(tensor.is_neg());
        if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
            other.unsafeGetTensorImpl()->set_wrapped_number(true);
        }
        tensors.emplace_back(tensor, other);
        return other;
    }
    void check_given() const
    {
        for (TensorImpl *each : given) {
            TORCH_CHECK(!device || each->dim() == 0 || !each->device().is_cpu() || mixes(), DIFFERENT, *device, " and cpu!");
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
        storages.emplace_back(seen_from(from, *device, &device_memory), from);
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
        auto made = at::detail::make_tensor<TensorImpl>(storage_back(tensor.storage()), DispatchKeySet(DispatchKey::CUDA), tensor.dtype());
        copy_place(tensor.unsafeGetTensorImpl(), made.unsafeGetTensorImpl());
        made.unsafeGetTensorImpl()->_set_conj(tensor.is_conj());
        made.unsafeGetTensorImpl()->_set_neg(tensor.is_neg());
        return made;
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
                Storage held = seen_from(other, own.device(), &device_memory);
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
            if (own.sizes() != other.sizes() || own.strides() != other.strides() || own.storage_offset() != other.storage_offset()) {
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
    for (size_t i = 0; exchange.device && i < arguments.size(); i++) {
        if ((*stack)[first + i].isNone() && is_optional_generator(arguments[i].type())) {
            (*stack)[first + i] = on_cpu(default_generator(exchange.device->index()));
        }
    }
    note(op.operator_name().name, " on stream ", current.streams[exchange.device ? exchange.device->index() : current.device]);
    {
        impl::ExcludeDispatchKeyGuard below(autograd_dispatch_keyset_with_ADInplaceOrView | autocast_dispatch_keyset);
        std::optional<Drawing> drawing;
        if (exchange.device && op.hasTag(at::Tag::nondeterministic_seeded)) {
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

// Of torch for all devices, which ask for kernels of the kind of device below the dispatcher.
static const char *const EVERYWHERE[] = {"copy_", "convolution", "convolution_backward", "mse_loss"};

static void register_operators()
{
    static std::vector<RegistrationHandleRAII> registered;
    auto &dispatcher = Dispatcher::singleton();
    registered.push_back(dispatcher.registerFallback(DispatchKey::CUDA, KernelFunction::makeFromBoxedFunction<&run_on_cpu>(), "simulated"));
    for (const char *name : EVERYWHERE) {
        registered.push_back(dispatcher.registerImpl({std::string("aten::") + name, ""}, DispatchKey::CUDA,
                                                     KernelFunction::makeFromBoxedFunction<&run_on_cpu>(), std::nullopt, nullptr, "simulated"));
    }
    registered.push_back(dispatcher.registerImpl({"aten::record_stream", ""}, DispatchKey::CUDA,
                                                 KernelFunction::makeFromBoxedFunction<&record_stream>(), std::nullopt, nullptr, "simulated"));
}

// ---- what torch.cuda asks of torch._C ----

static PyObject *get_device(PyObject *, PyObject *) { return PyLong_FromLong(current.device); }
static PyObject *get_count(PyObject *, PyObject *) { return PyLong_FromLong(COUNT); }
static PyObject *do_nothing(PyObject *, PyObject *) { Py_RETURN_NONE; }
static PyObject *say_no(PyObject *, PyObject *) { Py_RETURN_FALSE; }

static PyObject *exchange_device(PyObject *, PyObject *index)
{
    long before = current.device, wanted = PyLong_AsLong(index);
    if (wanted >= COUNT) {
        return PyErr_Format(PyExc_RuntimeError, "CUDA error: invalid device ordinal");
    }
    if (wanted >= 0) {
        current.device = (DeviceIndex)wanted;
    }
    return PyLong_FromLong(wanted < 0 ? -1 : before);
}

static PyObject *set_device(PyObject *module, PyObject *index)
{
    PyObject *before = exchange_device(module, index);
    Py_XDECREF(before);
    return before == NULL ? NULL : Py_NewRef(Py_None);
}

static PyObject *synchronize(PyObject *, PyObject *)
{
    Guard().synchronizeDevice(current.device);
    Py_RETURN_NONE;
}

static PyObject *stream_of(StreamId id, long index)
{
    return Py_BuildValue("(Lll)", (long long)id, index, (long)DeviceType::CUDA);
}

static PyObject *get_current_stream(PyObject *, PyObject *index)
{
    long device = PyLong_AsLong(index);
    return stream_of(current.streams[device], device);
}

static PyObject *get_raw_stream(PyObject *, PyObject *index)
{
    return PyLong_FromLongLong(current.streams[PyLong_AsLong(index)]);
}

static PyObject *get_default_stream(PyObject *, PyObject *index) { return stream_of(0, PyLong_AsLong(index)); }

static PyObject *set_stream(PyObject *, PyObject *args, PyObject *kwargs)
{
    static const char *names[] = {"stream_id", "device_index", "device_type", NULL};
    long long id;
    long index, type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Lll", (char **)names, &id, &index, &type)) {
        return NULL;
    }
    current.device = (DeviceIndex)index;
    current.streams[index] = id;
    Py_RETURN_NONE;
}

static PyObject *take_log(PyObject *, PyObject *on)
{
    std::lock_guard<std::mutex> lock(log_lock);
    PyObject *lines = PyList_New(0);
    for (const std::string &line : logged) {
        PyObject *text = PyUnicode_FromString(line.c_str());
        PyList_Append(lines, text);
        Py_DECREF(text);
    }
    logged.clear();
    logging = PyObject_IsTrue(on);
    return lines;
}

static PyMethodDef functions[] = {
    {"_cuda_getDeviceCount", get_count, METH_NOARGS, NULL},
    {"_cuda_getDevice", get_device, METH_NOARGS, NULL},
    {"_cuda_setDevice", set_device, METH_O, NULL},
    {"_cuda_exchangeDevice", exchange_device, METH_O, NULL},
    {"_cuda_maybeExchangeDevice", exchange_device, METH_O, NULL},
    {"_cuda_init", do_nothing, METH_NOARGS, NULL},
    {"_cuda_isInBadFork", say_no, METH_NOARGS, NULL},
    {"_cuda_synchronize", synchronize, METH_NOARGS, NULL},
    {"_cuda_getCurrentStream", get_current_stream, METH_O, NULL},
    {"_cuda_getCurrentRawStream", get_raw_stream, METH_O, NULL},
    {"_cuda_getDefaultStream", get_default_stream, METH_O, NULL},
    {"_cuda_setStream", (PyCFunction)(void (*)(void))set_stream, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_cuda_isCurrentStreamCapturing", say_no, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef log_function = {"take_log", take_log, METH_O, NULL};

// Called while torch is imported, before torch.cuda is: the function that takes the log, or NULL with an exception.
extern "C" __attribute__((visibility("default"))) PyObject *install(PyObject *torch_C)
{
    if (PyModule_AddFunctions(torch_C, functions) < 0) {
        return NULL;
    }
    try {
        static impl::DeviceGuardImplRegistrar guard(DeviceType::CUDA, new Guard());
        SetAllocator(DeviceType::CUDA, &device_memory);
        register_operators();
        TORCH_CHECK(at::detail::getCUDAHooks().hasCUDA(), "torch has asked for CUDA's hooks before");
    } catch (const std::exception &error) {
        return PyErr_Format(PyExc_ImportError, "%s", error.what());
    }
    return PyCFunction_New(&log_function, NULL);
}
