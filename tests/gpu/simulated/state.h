// Of the simulated devices, as libtorch asks for it: the current one, streams, events, memory, random numbers.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <map>
#include <memory>
#include <mutex>

using namespace c10;

constexpr DeviceIndex COUNT = 2;

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
static uint64_t (*make_stream)(int) = nullptr; // of a driver that launches kernels here, see `link`

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
    Stream getDefaultStream(Device device) const override
    {
        return Stream(Stream::DEFAULT, numbered(index_of(device)));
    }
    Stream getStreamFromGlobalPool(Device device, bool = false) const override { return getNewStream(device); }
    Stream getNewStream(Device device, int = 0) const override
    {
        StreamId id = make_stream != nullptr ? (StreamId)make_stream(index_of(device)) : ++last_stream;
        return Stream(Stream::UNSAFE, numbered(index_of(device)), id);
    }
    Stream exchangeStream(Stream stream) const noexcept override
    {
        Stream before = getStream(stream.device());
        current.streams[stream.device_index()] = stream.id();
        return before;
    }
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

// A pool of memory, from which what a thread allocates meanwhile is taken, and to which that goes back.
struct Pool {
    std::multimap<size_t, DataPtr> free; // by size
    bool is_gone = false;
};
static thread_local std::shared_ptr<Pool> pool;

template <DeviceType type> struct Memory final : Allocator {
    struct Block {
        DataPtr made;
        size_t size;
        std::shared_ptr<Pool> pool;
    };
    inline static std::mutex lock;
    inline static std::multimap<uintptr_t, size_t> known;

    static void know(const void *data, size_t size)
    {
        std::lock_guard<std::mutex> locked(lock);
        known.emplace((uintptr_t)data, size);
    }
    static void forget(const void *data)
    {
        std::lock_guard<std::mutex> locked(lock);
        auto found = known.find((uintptr_t)data);
        if (found == known.end()) {
            fprintf(stderr, "memory of a simulated device is freed twice\n");
            abort();
        }
        known.erase(found);
    }
    static DataPtr taken(size_t &size)
    {
        std::lock_guard<std::mutex> locked(lock);
        auto found = pool != nullptr ? pool->free.lower_bound(size) : decltype(pool->free.begin()){};
        if (pool == nullptr || found == pool->free.end()) {
            return DataPtr();
        }
        size = found->first;
        DataPtr made = std::move(found->second);
        pool->free.erase(found);
        return made;
    }
    DataPtr allocate(size_t size) override
    {
        DataPtr made = taken(size);
        if (made.get() == nullptr) {
            made = GetAllocator(kCPU)->allocate(size);
            know(made.get(), size);
        }
        void *data = made.get();
        Device device = type == kCPU ? Device(kCPU) : numbered(current.device);
        return DataPtr(data, new Block{std::move(made), size, pool}, &release, device);
    }
    static void release(void *held)
    {
        Block *block = (Block *)held;
        if (block->pool != nullptr && !block->pool->is_gone && block->made.get() != nullptr) {
            std::lock_guard<std::mutex> locked(lock);
            block->pool->free.emplace(block->size, std::move(block->made)); // it stays the device's
        } else {
            forget(block->made.get());
        }
        delete block;
    }
    static bool has(const void *data, size_t size = 0)
    {
        std::lock_guard<std::mutex> locked(lock);
        uintptr_t begin = (uintptr_t)data;
        for (auto each = known.upper_bound(begin); each != known.begin();) {
            --each;
            if (begin + size <= each->first + each->second) {
                return true;
            }
            if (begin - each->first > ((size_t)1 << 32)) {
                break;
            }
        }
        return false;
    }
    void copy_data(void *to, const void *from, size_t size) const override { default_copy_data(to, from, size); }
};
static Memory<DeviceType::CUDA> device_memory;
static Memory<DeviceType::CPU> pinned_memory;

// ---- random numbers ----

// The generator of a device: Philox's, of which each thread of a kernel has a stream of its own, see draws.h.
struct Random final : GeneratorImpl {
    uint64_t own_seed = default_rng_seed_val, offset = 0;

    explicit Random(DeviceIndex index) : GeneratorImpl(numbered(index), DispatchKeySet(DispatchKey::CUDA)) {}
    void set_current_seed(uint64_t seed) override { own_seed = seed, offset = 0; }
    void set_offset(uint64_t to) override
    {
        TORCH_CHECK(to % 4 == 0, "offset must be a multiple of 4");
        offset = to;
    }
    uint64_t get_offset() const override { return offset; }
    uint64_t current_seed() const override { return own_seed; }
    uint64_t seed() override
    {
        set_current_seed(detail::getNonDeterministicRandom(true));
        return own_seed;
    }
    // The offset before so many numbers of each stream.
    uint64_t take(uint64_t numbers)
    {
        uint64_t before = offset;
        offset += (numbers + 3) / 4 * 4;
        return before;
    }
    void set_state(const TensorImpl &state) override
    {
        TORCH_CHECK(state.numel() == 16, "RNG state is wrong size");
        memcpy(&own_seed, state.data(), 8);
        memcpy(&offset, (const char *)state.data() + 8, 8);
    }
    intrusive_ptr<TensorImpl> get_state() const override
    {
        at::Tensor made = at::detail::empty_cpu({16}, kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
        memcpy(made.mutable_data_ptr(), &own_seed, 8);
        memcpy((char *)made.mutable_data_ptr() + 8, &offset, 8);
        return made.getIntrusivePtr();
    }
    Random *clone_impl() const override
    {
        auto *made = new Random(device_.index());
        made->own_seed = own_seed, made->offset = offset;
        return made;
    }
};

static Random &random_of(const at::Generator &generator)
{
    return *static_cast<Random *>(generator.unsafeGetGeneratorImpl());
}

static const at::Generator &default_generator(DeviceIndex index)
{
    static std::vector<at::Generator> made = [] {
        std::vector<at::Generator> all;
        for (DeviceIndex each = 0; each < COUNT; each++) {
            all.push_back(at::make_generator<Random>(each));
        }
        return all;
    }();
    return made.at(index < 0 ? current.device : index);
}

// What stands for a generator where an operator of the CPU draws: other numbers for each call.
static at::Generator on_cpu(const at::Generator &given)
{
    if (!given.device().is_cuda()) {
        return given;
    }
    Random &random = random_of(given);
    return at::detail::createCPUGenerator(random.own_seed * 0x9E3779B97F4A7C15 + random.take(4));
}

// Operators that draw without being given a generator do so from that of the CPU, which has the device's state meanwhile.
struct Drawing {
    at::Generator drawn;
    intrusive_ptr<TensorImpl> before;

    Drawing(const at::Generator &of_device) : drawn(at::detail::getDefaultCPUGenerator())
    {
        before = drawn.unsafeGetGeneratorImpl()->get_state();
        drawn.unsafeGetGeneratorImpl()->set_state(*of_device.unsafeGetGeneratorImpl()->get_state());
    }
    ~Drawing() { drawn.unsafeGetGeneratorImpl()->set_state(*before); }
};

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
    DeviceIndex exchangeDevice(DeviceIndex index) const override
    {
        return Guard().exchangeDevice(numbered(index)).index();
    }
    DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return exchangeDevice(index); }
    bool isPinnedPtr(const void *data) const override { return pinned_memory.has(data); }
    Allocator *getPinnedMemoryAllocator() const override { return &pinned_memory; }
    Allocator *getCUDADeviceAllocator() const override { return &device_memory; }
    const Generator &getDefaultGenerator(DeviceIndex index) const override { return default_generator(index); }
    // The first one that is made for a device in Python is its default one.
    Generator getNewGenerator(DeviceIndex index) const override
    {
        static bool made[COUNT];
        index = index < 0 ? current.device : index;
        return std::exchange(made[index], true) ? make_generator<Random>(index) : default_generator(index);
    }
    void deviceSynchronize(DeviceIndex index) const override { Guard().synchronizeDevice(index); }
};
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, CUDAHooks)
} // namespace at
