// A GPU that every machine has: results at once, on the host; time on a timeline that really has to be waited for.
//
// Each operator spends its launch time on the host and then takes `floor + max(flops / peak, bytes / bandwidth)` on its
// stream. What needs values (item, cpu, nonzero, a mask as an index) waits until the clock has come to the stream's end.
// The clock is the machine's, or one that only launches, waits and `sim_host_work` move: then all times are exact.

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#define FMT_HEADER_ONLY
#include <GenericTraceActivity.h>
#include <IActivityProfiler.h>
#include <libkineto.h>
#include <output_base.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace {

using Ns = int64_t;

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr int kDevices = 2;
constexpr int kStreams = 32;       // of a device; 0 is the default one
constexpr size_t kQueue = 1024;    // launches that a stream holds; beyond, the host waits

// What a device can do; `sim_set` changes it. Slow on purpose: the host has to compute in less than the device takes.
struct Speeds {
    double launch_s = 10e-6, floor_s = 5e-6, flops = 2e9, bytes = 2e9;
    double copy_s = 10e-6, pinned = 1e9, pageable = 0.5e9;
} speeds;

// -- the clock -------------------------------------------------------------------------------------------------------

std::atomic<bool> virtual_clock{false};
std::atomic<Ns> virtual_now{0};

Ns now() {
    if (virtual_clock) return virtual_now;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void wait_until(Ns then) {
    if (virtual_clock) {
        Ns seen = virtual_now;
        while (seen < then && !virtual_now.compare_exchange_weak(seen, then)) {}
        return;
    }
    // A sleep ends late by some 60 us: the rest is spun.
    for (Ns left = then - now(); left > 0; left = then - now()) {
        if (left > 100'000) std::this_thread::sleep_for(std::chrono::nanoseconds(left - 80'000));
    }
}

Ns ns(double seconds) { return static_cast<Ns>(seconds * 1e9 + 0.5); }

// -- streams ---------------------------------------------------------------------------------------------------------

struct Work {
    std::string name;
    Ns called, launched, begin, end;
    int device, stream;
    uint64_t operator_id;
    pid_t thread;
    bool copy;
};

struct Stream {
    Ns end = 0;
    std::deque<Ns> queue;
};

std::mutex lock;
Stream streams[kDevices][kStreams];
int next_stream[kDevices];
thread_local int current_device = 0;
thread_local std::array<int, kDevices> current_stream{};
std::atomic<pid_t> started{0};
std::atomic<int64_t> allocated[kDevices], peak[kDevices];
std::atomic<int64_t> num_launches{0};
std::atomic<bool> recording{false};
std::vector<Work> recorded;
thread_local std::vector<uint64_t> operators;

void start() {
    pid_t nobody = 0;
    if (!started.compare_exchange_strong(nobody, getpid())) {
        TORCH_CHECK(started == getpid(), "Cannot re-initialize the simulated device in forked subprocess.");
    }
}

Stream& stream_of(c10::Stream stream) { return streams[stream.device_index()][stream.id()]; }
c10::Stream stream_now(int device) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, device), current_stream[device]);
}

// The host has begun to call at `called`; what it asks for takes `cost` on the stream. When it will be over.
Ns launch(const std::string& name, Ns called, c10::Stream where, Ns cost, bool copy = false) {
    start();
    ++num_launches;
    wait_until(called + ns(speeds.launch_s));
    Ns full = 0;
    {
        std::lock_guard<std::mutex> guard(lock);
        auto& queue = stream_of(where).queue;
        while (!queue.empty() && queue.front() <= now()) queue.pop_front();
        if (queue.size() >= kQueue) full = queue.front();
    }
    wait_until(full);
    std::lock_guard<std::mutex> guard(lock);
    Stream& stream = stream_of(where);
    const Ns launched = now(), begin = std::max(stream.end, launched);
    stream.end = begin + cost;
    stream.queue.push_back(stream.end);
    if (recording) {
        recorded.push_back({name, called, launched, begin, stream.end, where.device_index(), static_cast<int>(where.id()),
                            operators.empty() ? 0 : operators.back(), gettid(), copy});
    }
    return stream.end;
}

Ns end_of(c10::Stream where) {
    std::lock_guard<std::mutex> guard(lock);
    return stream_of(where).end;
}

Ns end_of_device(int device) {
    std::lock_guard<std::mutex> guard(lock);
    Ns end = 0;
    for (const Stream& stream : streams[device]) end = std::max(end, stream.end);
    return end;
}

// -- memory ----------------------------------------------------------------------------------------------------------

struct Block {
    void* data;
    size_t bytes;
    int device;
    c10::Storage held;  // what made the memory, where the device did not
};

void account(int device, int64_t bytes) {
    const int64_t there = allocated[device] += bytes;
    int64_t most = peak[device];
    while (there > most && !peak[device].compare_exchange_weak(most, there)) {}
}

void release(void* context) {
    Block* block = static_cast<Block*>(context);
    account(block->device, -static_cast<int64_t>(block->bytes));
    if (!block->held) std::free(block->data);
    delete block;
}

c10::DataPtr pointer(void* data, size_t bytes, int device, c10::Storage held = {}) {
    account(device, static_cast<int64_t>(bytes));
    return {data, new Block{data, bytes, device, std::move(held)}, release, c10::Device(kDevice, device)};
}

struct Memory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        start();
        return pointer(bytes ? std::malloc(bytes) : nullptr, bytes, current_device);
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }
} memory;

std::mutex pinned_lock;
std::map<const char*, size_t> pinned;

struct PinnedMemory final : c10::Allocator {
    static void free(void* data) {
        {
            std::lock_guard<std::mutex> guard(pinned_lock);
            pinned.erase(static_cast<char*>(data));
        }
        std::free(data);
    }
    c10::DataPtr allocate(size_t bytes) override {
        start();
        void* data = std::malloc(std::max<size_t>(64, bytes));
        std::lock_guard<std::mutex> guard(pinned_lock);
        pinned[static_cast<char*>(data)] = std::max<size_t>(64, bytes);
        return {data, data, free, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return free; }
    void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }
} pinned_memory;

bool is_pinned(const void* data) {
    std::lock_guard<std::mutex> guard(pinned_lock);
    auto after = pinned.upper_bound(static_cast<const char*>(data));
    if (after == pinned.begin()) return false;
    const auto& [first, bytes] = *--after;
    return static_cast<const char*>(data) < first + bytes;
}

// -- devices, streams and events as torch asks for them --------------------------------------------------------------

struct Event {
    Ns at = 0;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kDevice; }
    c10::Device exchangeDevice(c10::Device device) const override {
        const c10::Device old = getDevice();
        setDevice(device);
        return old;
    }
    c10::Device getDevice() const override { return {kDevice, static_cast<c10::DeviceIndex>(current_device)}; }
    void setDevice(c10::Device device) const override {
        TORCH_CHECK(device.index() < kDevices, "there is no device ", device);
        uncheckedSetDevice(device);
    }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        if (device.index() >= 0) current_device = device.index();
    }
    c10::Stream getStream(c10::Device device) const override {
        return stream_now(device.has_index() ? device.index() : current_device);
    }
    c10::Stream getDefaultStream(c10::Device device) const override {
        return c10::Stream(c10::Stream::DEFAULT, c10::Device(kDevice, device.has_index() ? device.index() : current_device));
    }
    c10::Stream getNewStream(c10::Device device, int) const override {
        start();
        const auto index = static_cast<c10::DeviceIndex>(device.has_index() ? device.index() : current_device);
        std::lock_guard<std::mutex> guard(lock);
        next_stream[index] = next_stream[index] % (kStreams - 1) + 1;
        return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, index), next_stream[index]);
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getNewStream(device, 0); }
    c10::Stream exchangeStream(c10::Stream stream) const override {
        const c10::Stream old = stream_now(stream.device_index());
        current_stream[stream.device_index()] = static_cast<int>(stream.id());
        return old;
    }
    bool queryStream(const c10::Stream& stream) const override { return end_of(stream) <= now(); }
    void synchronizeStream(const c10::Stream& stream) const override { wait_until(end_of(stream)); }
    void synchronizeDevice(c10::DeviceIndex device) const override { wait_until(end_of_device(device)); }
    c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
    void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
        if (*event == nullptr) *event = new Event();
        static_cast<Event*>(*event)->at = std::max(end_of(stream), now());
    }
    void block(void* event, const c10::Stream& stream) const override {
        std::lock_guard<std::mutex> guard(lock);
        stream_of(stream).end = std::max(stream_of(stream).end, static_cast<Event*>(event)->at);
    }
    bool queryEvent(void* event) const override { return event == nullptr || static_cast<Event*>(event)->at <= now(); }
    void synchronizeEvent(void* event) const override { wait_until(static_cast<Event*>(event)->at); }
    double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
        return static_cast<float>(static_cast<double>(static_cast<Event*>(to)->at - static_cast<Event*>(from)->at) / 1e6);
    }
    void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
};

void resize_storage(c10::StorageImpl* storage, size_t bytes) {
    if (bytes <= storage->nbytes()) return;
    const int device = storage->device().index();
    void* data = std::malloc(bytes);
    if (storage->nbytes()) std::memcpy(data, storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(pointer(data, bytes, device));
    storage->set_nbytes(bytes);
}

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return started == getpid(); }
    void init() const override { start(); }
    c10::DeviceIndex deviceCount() const override { return kDevices; }
    c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device); }
    void setCurrentDevice(c10::DeviceIndex device) const override { current_device = device; }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
        return static_cast<c10::DeviceIndex>(std::exchange(current_device, device));
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
    bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
    at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
        resize_storage(storage.unsafeGetStorageImpl(), bytes);
    }
} hooks;

// -- operators -------------------------------------------------------------------------------------------------------

bool is_sim(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kDevice; }

at::Tensor tensor_on(c10::Storage storage, const at::Tensor& like, c10::DispatchKey key) {
    auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
    made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    return made;
}

// One call: tensors of the device stand for the host's, over the same memory, until the host has computed.
class Call {
  public:
    at::Tensor to_host(const at::Tensor& tensor) {
        if (!is_sim(tensor)) return tensor;
        if (device_ < 0) device_ = tensor.device().index();
        const c10::Storage& storage = tensor.storage();
        c10::Storage& seen = hosts_[storage.unsafeGetStorageImpl()];
        if (!seen) {
            void* data = storage.mutable_data();
            seen = c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), c10::DataPtr(data, c10::Device(c10::DeviceType::CPU)), nullptr, false);
            owners_.emplace(seen.unsafeGetStorageImpl(), storage);
        }
        at::Tensor host = tensor_on(seen, tensor, c10::DispatchKey::CPU);
        if (tensor.is_conj()) host._set_conj(true);
        given_.emplace_back(host, tensor);
        return host;
    }

    at::Tensor to_device(const at::Tensor& host) {
        if (!host.defined() || host.device().type() != c10::DeviceType::CPU) return host;
        for (const auto& [mine, theirs] : given_) {
            if (mine.is_same(host)) return theirs;
        }
        auto owner = owners_.find(host.storage().unsafeGetStorageImpl());
        if (owner != owners_.end()) return tensor_on(owner->second, host, c10::DispatchKey::PrivateUse1);
        made_ = true;
        const size_t bytes = host.storage().nbytes();
        c10::Storage held = host.storage();
        void* data = held.mutable_data();
        return tensor_on(c10::Storage(c10::Storage::use_byte_size_t(), bytes, pointer(data, bytes, device(), std::move(held)), &memory, true), host,
                         c10::DispatchKey::PrivateUse1);
    }

    c10::IValue each(const c10::IValue& value, bool out) {
        auto move = [&](const at::Tensor& tensor) { return out ? to_device(tensor) : to_host(tensor); };
        if (value.isTensor()) return move(value.toTensor());
        if (value.isTensorList()) {
            std::vector<at::Tensor> moved;
            for (const at::Tensor& tensor : value.toTensorVector()) moved.push_back(move(tensor));
            return moved;
        }
        if (value.isOptionalTensorList()) {
            c10::List<std::optional<at::Tensor>> moved;
            for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
                moved.push_back(tensor ? std::optional<at::Tensor>(move(*tensor)) : tensor);
            }
            return moved;
        }
        if (value.isDevice() && value.toDevice().type() == kDevice) {
            device_ = value.toDevice().index();
            return c10::Device(c10::DeviceType::CPU);
        }
        return value;
    }

    int device() const { return device_ < 0 ? current_device : device_; }
    bool made() const { return made_; }
    double bytes() const {
        double sum = 0;
        for (const auto& [host, tensor] : given_) sum += static_cast<double>(tensor.numel() * tensor.element_size());
        return sum;
    }
    const std::vector<std::pair<at::Tensor, at::Tensor>>& given() const { return given_; }

  private:
    int device_ = -1;
    bool made_ = false;
    std::map<c10::StorageImpl*, c10::Storage> hosts_, owners_;
    std::vector<std::pair<at::Tensor, at::Tensor>> given_;
};

double matmul_flops(const std::string& name, const std::vector<c10::IValue>& args) {
    auto numel = [&](size_t k) { return static_cast<double>(args[k].toTensor().numel()); };
    if (name == "aten::mm" || name == "aten::bmm") return 2 * numel(0) * static_cast<double>(args[1].toTensor().size(-1));
    if (name == "aten::addmm" || name == "aten::baddbmm") return 2 * numel(1) * static_cast<double>(args[2].toTensor().size(-1));
    return 0;
}

bool is_mask(const at::Tensor& tensor) {
    return tensor.defined() && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
}

// Sizes or values that the host has to know before it can go on.
bool waits(const std::string& name, const std::vector<c10::IValue>& args) {
    static const std::set<std::string> kWait{"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::equal",
                                             "aten::unique_consecutive", "aten::unique_dim", "aten::repeat_interleave"};
    if (name == "aten::index" || name == "aten::index_put_" || name == "aten::_index_put_impl_") {
        for (const std::optional<at::Tensor>& index : args[1].toOptionalTensorList()) {
            if (index && is_mask(*index)) return true;
        }
        return false;
    }
    return kWait.count(name) > 0;
}

void same_device(const std::string& name, const std::vector<c10::IValue>& args) {
    if (name.find("index") != std::string::npos) return;
    bool sim = false, host = false;
    for (const c10::IValue& arg : args) {
        if (!arg.isTensor() || !arg.toTensor().defined()) continue;
        sim |= is_sim(arg.toTensor());
        host |= arg.toTensor().is_cpu() && arg.toTensor().dim() > 0;
    }
    TORCH_CHECK(!(sim && host), "Expected all tensors to be on the same device, but found at least two devices, sim:0 and cpu!");
}

// torch has no convolution for a device of others; the host's own takes its place, with the same arguments or one more.
c10::OperatorHandle operator_for(const std::string& name, const c10::OperatorHandle& op, std::vector<c10::IValue>& args) {
    auto& dispatcher = c10::Dispatcher::singleton();
    if (name == "aten::convolution_overrideable") return dispatcher.findSchemaOrThrow("aten::convolution", "");
    if (name == "aten::convolution_backward_overrideable") {
        args.insert(args.begin() + 3, c10::IValue(std::vector<int64_t>{args[2].toTensor().size(0)}));
        return dispatcher.findSchemaOrThrow("aten::convolution_backward", "");
    }
    return op;
}

void compute(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const Ns called = now();
    const std::string name = op.schema().name();
    const size_t num_args = op.schema().arguments().size();
    std::vector<c10::IValue> args(stack->end() - static_cast<ptrdiff_t>(num_args), stack->end());
    stack->erase(stack->end() - static_cast<ptrdiff_t>(num_args), stack->end());
    same_device(name, args);
    double flops = matmul_flops(name, args);
    if (name == "aten::convolution_backward_overrideable") {
        const at::Tensor out = args[0].toTensor(), weight = args[2].toTensor();
        flops = 4.0 * static_cast<double>(out.numel() * weight.numel() / std::max<int64_t>(1, weight.size(0)));
    }
    const bool must_wait = waits(name, args);
    Call call;
    std::vector<std::pair<at::Tensor, at::Tensor>> fresh;  // outputs that the host is to resize
    for (size_t k = 0; k < num_args; ++k) {
        const bool out = op.schema().arguments()[k].is_out() && args[k].isTensor() && is_sim(args[k].toTensor());
        if (out && args[k].toTensor().numel() == 0) {
            const at::Tensor target = args[k].toTensor();
            fresh.emplace_back(at::empty({0}, target.options().device(at::kCPU)), target);
            args[k] = fresh.back().first;
        } else {
            args[k] = call.each(args[k], false);
        }
    }
    const c10::OperatorHandle host = operator_for(name, op, args);
    torch::jit::Stack results(args.begin(), args.end());
    if (host.schema().name() == name) {
        host.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &results);
    } else {
        host.callBoxed(&results);
    }
    bool writes = false;
    for (const auto& argument : op.schema().arguments()) writes |= argument.alias_info() && argument.alias_info()->isWrite();
    double bytes = call.bytes();
    for (c10::IValue& result : results) {
        for (const auto& [mine, target] : fresh) {
            if (!result.isTensor() || !result.toTensor().is_same(mine)) continue;
            const size_t size = static_cast<size_t>(mine.numel()) * mine.element_size();
            resize_storage(target.storage().unsafeGetStorageImpl(), size);
            target.unsafeGetTensorImpl()->set_sizes_contiguous(mine.sizes());
            if (size) std::memcpy(target.mutable_data_ptr(), mine.const_data_ptr(), size);
            result = target;
        }
        const bool computed = result.isTensor() && result.toTensor().defined();
        if (computed) bytes += static_cast<double>(result.toTensor().numel() * result.toTensor().element_size());
        if (name == "aten::convolution_overrideable") {
            const at::Tensor weight = args[1].toTensor();
            flops = 2.0 * static_cast<double>(result.toTensor().numel() * weight.numel() / std::max<int64_t>(1, weight.size(0)));
        }
        result = call.each(result, true);
    }
    if (call.made() || writes || must_wait || !fresh.empty()) {
        const Ns cost = ns(speeds.floor_s + std::max(flops / speeds.flops, bytes / speeds.bytes));
        const Ns end = launch(name, called, stream_now(call.device()), cost);
        if (must_wait) wait_until(end);
    }
    stack->insert(stack->end(), results.begin(), results.end());
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device> device,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
    const c10::DeviceGuard guard(device.value_or(c10::Device(kDevice)));
    return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
    const c10::DeviceGuard guard(device.value_or(c10::Device(kDevice)));
    return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory,
                                             c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype));
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat>) {
    const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
    int64_t count = self.storage_offset();
    int64_t numel = 1;
    for (const int64_t length : sizes) numel *= length;
    count += numel;
    resize_storage(self.storage().unsafeGetStorageImpl(), static_cast<size_t>(count) * self.element_size());
    self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, c10::SymInt offset, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
    self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
    self.unsafeGetTensorImpl()->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), offset.expect_int());
    return self;
}

// Copies: within a device as any kernel; between host and device the host waits, but for pinned memory and non_blocking.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
    const Ns called = now();
    Call call;
    const at::Tensor from = call.to_host(self), to = call.to_host(target);
    const bool crosses = is_sim(self) != is_sim(target);
    const bool same = crosses || self.device() == target.device();
    const at::Tensor& host = is_sim(self) ? target : self;
    const bool fast = crosses && is_pinned(host.const_data_ptr());
    to.copy_(from);
    const double bytes = static_cast<double>(target.numel() * target.element_size());
    const double rate = same && !crosses ? speeds.bytes / 2 : fast ? speeds.pinned : speeds.pageable;
    const char* what = !crosses ? (same ? "Memcpy DtoD" : "Memcpy PtoP") : is_sim(target) ? "Memcpy HtoD" : "Memcpy DtoH";
    const int device = is_sim(target) ? target.device().index() : self.device().index();
    const Ns end = launch(what, called, stream_now(device), ns((crosses ? speeds.copy_s : speeds.floor_s) + bytes / rate), true);
    if (crosses && !(fast && non_blocking)) wait_until(end);
    return target;
}

at::Tensor copy_and_resize(const at::Tensor& self, const at::Tensor& target) {
    if (is_sim(target)) resize_(target, c10::fromIntArrayRefSlow(self.sizes()), std::nullopt);
    else target.resize_(self.sizes());
    return copy_from(self, target, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
    const Ns called = now();
    Call call;
    const at::Scalar value = at::_local_scalar_dense(call.to_host(self));
    wait_until(launch("Memcpy DtoH", called, stream_now(self.device().index()), ns(speeds.copy_s), true));
    return value;
}

// A kernel that takes so many seconds: the tests' own.
at::Tensor spin(const at::Tensor& self, double seconds) {
    launch("sim::spin", now(), stream_now(self.device().index()), ns(seconds));
    return self.detach();
}

// -- the profiler ----------------------------------------------------------------------------------------------------

using libkineto::ActivityType;

class Session final : public libkineto::IActivityProfilerSession {
  public:
    void start() override {
        std::lock_guard<std::mutex> guard(lock);
        recorded.clear();
        recording = true;
        status_ = libkineto::TraceStatus::RECORDING;
    }
    void stop() override {
        recording = false;
        status_ = libkineto::TraceStatus::READY;
    }
    std::vector<std::string> errors() override { return {}; }
    void processTrace(libkineto::ActivityLogger& logger) override { processTrace(logger, nullptr, 0, 0); }
    void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t, int64_t) override {
        const Ns shift = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count() - now();
        std::lock_guard<std::mutex> guard(lock);
        int32_t id = 0;
        for (const Work& work : recorded) {
            ++id;
            auto add = [&](ActivityType type, const std::string& name, Ns begin, Ns end) {
                auto& one = made_.emplace_back(span_, type, name);
                one.startTime = begin + shift;
                one.endTime = end + shift;
                one.id = id;
                const bool on_host = type == ActivityType::PRIVATEUSE1_RUNTIME;
                one.device = on_host ? getpid() : work.device;
                one.resource = on_host ? work.thread : work.stream;
                one.addMetadata("correlation", id);
                one.linked = linked ? linked(static_cast<int32_t>(work.operator_id)) : nullptr;
                logger.handleGenericActivity(one);
            };
            add(ActivityType::PRIVATEUSE1_RUNTIME, work.copy ? "simMemcpyAsync" : "simLaunchKernel", work.called, work.launched);
            add(work.copy ? ActivityType::GPU_MEMCPY : ActivityType::CONCURRENT_KERNEL, work.name, work.begin, work.end);
        }
    }
    std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
    std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
    std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override;
    void pushCorrelationId(uint64_t id) override { operators.push_back(id); }
    void popCorrelationId() override {
        if (!operators.empty()) operators.pop_back();
    }

  private:
    libkineto::TraceSpan span_{0, 0, "sim"};
    std::deque<libkineto::GenericTraceActivity> made_;
};

std::unique_ptr<libkineto::CpuTraceBuffer> Session::getTraceBuffer() { return nullptr; }

class Profiler final : public libkineto::IActivityProfiler {
  public:
    const std::string& name() const override { return name_; }
    const std::set<ActivityType>& availableActivities() const override { return kinds_; }
    std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>&, const libkineto::Config&) override {
        return std::make_unique<Session>();
    }
    std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& kinds,
                                                                   const libkineto::Config& config) override {
        return configure(kinds, config);
    }

  private:
    std::string name_ = "sim";
    std::set<ActivityType> kinds_{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::PRIVATEUSE1_RUNTIME};
};

const bool registered = [] {
    at::RegisterPrivateUse1HooksInterface(&hooks);
    c10::SetAllocator(kDevice, &memory);
    libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
    return true;
}();

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

TORCH_LIBRARY(sim, m) { m.def("spin(Tensor self, float seconds) -> Tensor"); }
TORCH_LIBRARY_IMPL(sim, PrivateUse1, m) { m.impl("spin", spin); }
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&compute>()); }
// Under autocast its operators run in the precision that they are given.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("resize_", resize_);
    m.impl("set_.source_Storage_storage_offset", set_storage);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_and_resize);
    m.impl("_local_scalar_dense", local_scalar);
    m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&compute>());
    m.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&compute>());
}

extern "C" {
void sim_set(const char* name, double value) {
    const std::string what = name;
    double* all[] = {&speeds.launch_s, &speeds.floor_s, &speeds.flops, &speeds.bytes, &speeds.copy_s, &speeds.pinned, &speeds.pageable};
    const char* names[] = {"launch_s", "floor_s", "flops", "bytes", "copy_s", "pinned", "pageable"};
    for (int k = 0; k < 7; ++k) {
        if (what == names[k]) *all[k] = value;
    }
}
void sim_virtual(int on) { virtual_clock = on != 0; }
double sim_now() { return static_cast<double>(now()) / 1e9; }
void sim_host_work(double seconds) { wait_until(now() + ns(seconds)); }
int sim_started() { return started == getpid(); }
int64_t sim_allocated(int device) { return allocated[device]; }
int64_t sim_peak(int device) { return peak[device]; }
int64_t sim_launches() { return num_launches; }
}
