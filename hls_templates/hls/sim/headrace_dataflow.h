// The functions of a dataflow region side by side, for C simulation with HEADRACE_DATAFLOW.
//
// Every function is a coroutine. In a clock cycle each runs until the next pragma PIPELINE, one iteration of its loop,
// or until it waits for a stream; words written and places freed are seen in the next cycle. A stream holds as many
// words as its pragma STREAM says. When nothing can run, the program ends and names every function that waits, and
// its stream: a deadlock. What a pipeline adds between reading and writing is not modelled.
#ifndef HEADRACE_SIM_DATAFLOW_H
#define HEADRACE_SIM_DATAFLOW_H

#include <ucontext.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define HEADRACE_SIM_FIBERS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEADRACE_SIM_FIBERS
#endif
#endif
#ifdef HEADRACE_SIM_FIBERS
#include <sanitizer/common_interface_defs.h>
#endif

namespace headrace_sim {

constexpr int deadlock_status = 3;
constexpr std::size_t unbounded = static_cast<std::size_t>(-1);

// What a stream and the functions at its ends know of each other.
struct channel {
    explicit channel(const char* its_name) : name(its_name) {}

    const char* name;
    std::size_t depth = unbounded;
    std::size_t written = 0;
    std::size_t read = 0;
    std::size_t seen_written = 0;  // as they were when the cycle began
    std::size_t seen_read = 0;

    bool readable() const { return read != seen_written; }
    bool writable() const { return depth == unbounded || written - seen_read < depth; }
    void settle() {
        seen_written = written;
        seen_read = read;
    }
};

// A function with a stack of its own.
class coroutine {
public:
    static constexpr std::size_t stack_bytes = std::size_t{1} << 23;

    coroutine(std::string its_name, std::function<void()> body)
        : name(std::move(its_name)), body_(std::move(body)), stack_(new char[stack_bytes]) {
        getcontext(&context_);
        context_.uc_stack.ss_sp = stack_.get();
        context_.uc_stack.ss_size = stack_bytes;
        context_.uc_link = &resumer_;
        const auto address = reinterpret_cast<std::uintptr_t>(this);  // makecontext passes on ints alone
        makecontext(&context_, reinterpret_cast<void (*)()>(&coroutine::start), 2,
                    static_cast<unsigned>(address >> 16 >> 16), static_cast<unsigned>(address & 0xffffffffU));
    }

    // Run until it waits or ends.
    void resume() {
#ifdef HEADRACE_SIM_FIBERS
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, stack_.get(), stack_bytes);
#endif
        swapcontext(&resumer_, &context_);
#ifdef HEADRACE_SIM_FIBERS
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    }

    // Called in the function: go back to whoever resumed it.
    void suspend() {
#ifdef HEADRACE_SIM_FIBERS
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, resumer_stack_, resumer_bytes_);
#endif
        swapcontext(&context_, &resumer_);
#ifdef HEADRACE_SIM_FIBERS
        __sanitizer_finish_switch_fiber(fake, &resumer_stack_, &resumer_bytes_);
#endif
    }

    // Whether it can go on in this cycle.
    bool able() const {
        if (waits_for != nullptr) return reading ? waits_for->readable() : waits_for->writable();
        return joins == nullptr || *joins == 0;
    }

    std::string name;
    bool done = false;
    std::size_t iterations = 0;  // of its pipelined loop
    const channel* waits_for = nullptr;
    bool reading = false;
    const std::size_t* joins = nullptr;  // functions that it waits for

private:
    static void start(unsigned high, unsigned low) {
        auto* const self = reinterpret_cast<coroutine*>((std::uintptr_t{high} << 16 << 16) | low);
#ifdef HEADRACE_SIM_FIBERS
        __sanitizer_finish_switch_fiber(nullptr, &self->resumer_stack_, &self->resumer_bytes_);
#endif
        self->body_();
        self->done = true;
#ifdef HEADRACE_SIM_FIBERS
        __sanitizer_start_switch_fiber(nullptr, self->resumer_stack_, self->resumer_bytes_);
#endif
    }

    std::function<void()> body_;
    std::unique_ptr<char[]> stack_;
    ucontext_t context_ = {};
    ucontext_t resumer_ = {};
#ifdef HEADRACE_SIM_FIBERS
    const void* resumer_stack_ = nullptr;
    std::size_t resumer_bytes_ = 0;
#endif
};

// Runs coroutines cycle by cycle. The one that runs now is `engine::running()`; streams that are made belong to it.
class engine {
public:
    // calls: how often each function of a region runs, one after the other without a pause.
    explicit engine(std::size_t calls) : calls_(calls) { running() = this; }
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;

    static engine*& running() {
        static engine* now = nullptr;
        return now;
    }

    void spawn(std::string name, std::function<void()> body) {
        coroutines_.push_back(std::make_unique<coroutine>(std::move(name), std::move(body)));
    }

    std::size_t calls() const { return calls_; }
    void report() const {
        for (const auto& c : coroutines_) std::printf("%s: %zu iterations\n", c->name.c_str(), c->iterations);
        std::printf("%zu cycles\n", cycles_);
    }

    // One clock cycle; whether anything ran.
    bool cycle() {
        running() = this;
        for (channel* c : channels_) c->settle();
        bool moved = false;
        for (std::size_t k = 0; k != coroutines_.size(); ++k) {  // a coroutine may spawn others
            coroutine& next = *coroutines_[k];
            if (next.done || !next.able()) continue;
            next.waits_for = nullptr;
            next.joins = nullptr;
            current_ = &next;
            next.resume();
            current_ = nullptr;
            moved = true;
        }
        ++cycles_;
        return moved;
    }

    // Cycles until every coroutine has ended; ends the program when none can go on.
    void run() {
        for (;;) {
            bool live = false;
            for (const auto& c : coroutines_) live |= !c->done;
            if (!live) return;
            if (!cycle()) deadlock();
        }
    }

    // Called in a coroutine: the next iteration of a pipelined loop belongs to the next cycle.
    void tick() {
        if (current_ == nullptr) return;
        ++current_->iterations;
        current_->suspend();
    }
    void wait(const channel& stream, bool reading) {
        if (current_ == nullptr) return;
        current_->waits_for = &stream;
        current_->reading = reading;
        current_->suspend();
    }
    void join(const std::size_t& live) {
        if (live == 0 || current_ == nullptr) return;
        current_->joins = &live;
        current_->suspend();
    }
    bool inside() const { return current_ != nullptr; }
    std::size_t iterations() const { return current_->iterations; }

    void add(channel& stream) { channels_.push_back(&stream); }
    void remove(const channel& stream) {
        for (std::size_t k = channels_.size(); k-- != 0;) {
            if (channels_[k] == &stream) {
                channels_.erase(channels_.begin() + static_cast<std::ptrdiff_t>(k));
                return;
            }
        }
    }

    // The depth that a pragma gives: "HLS STREAM variable=NAME depth=N".
    void set_depth(const std::string& pragma) {
        set_depth(value(pragma, "variable="), std::strtoul(value(pragma, "depth=").c_str(), nullptr, 10));
    }
    void set_depth(const std::string& name, std::size_t depth) {
        for (std::size_t k = channels_.size(); k-- != 0;) {
            if (name != channels_[k]->name) continue;
            channels_[k]->depth = depth;
            return;
        }
    }

private:
    static std::string value(const std::string& text, const std::string& key) {
        const std::size_t begin = text.find(key);
        if (begin == std::string::npos) return "";
        return text.substr(begin + key.size(), text.find(' ', begin) - begin - key.size());
    }

    [[noreturn]] void deadlock() const {
        std::fprintf(stderr, "deadlock in cycle %zu:", cycles_);
        const char* comma = "";
        for (const auto& c : coroutines_) {
            if (c->done || c->waits_for == nullptr) continue;
            const channel& s = *c->waits_for;
            const std::string holds = s.depth == unbounded ? "" : " of " + std::to_string(s.depth);
            std::fprintf(stderr, "%s %s waits %s stream '%s', which holds %zu%s words", comma, c->name.c_str(),
                         c->reading ? "to read from the empty" : "to write to the full", s.name, s.written - s.read,
                         holds.c_str());
            comma = ";";
        }
        std::fputc('\n', stderr);
        std::fflush(nullptr);
        std::_Exit(deadlock_status);
    }

    std::vector<std::unique_ptr<coroutine>> coroutines_;
    std::vector<channel*> channels_;
    coroutine* current_ = nullptr;
    std::size_t calls_;
    std::size_t cycles_ = 0;
};

// The functions of one call of a top function; at the end of its scope it waits for them.
class region {
public:
    region() : engine_(*engine::running()) {}
    region(const region&) = delete;
    region& operator=(const region&) = delete;
    ~region() { engine_.join(live_); }

    void add(const char* call, std::function<void()> body) {
        const std::string text = call;
        ++live_;
        engine_.spawn(text.substr(0, text.find('(')), [this, body = std::move(body)] {
            for (std::size_t k = 0; k != engine_.calls(); ++k) {
                const std::size_t before = engine_.iterations();
                body();
                if (engine_.iterations() == before) engine_.tick();  // no call takes no time
            }
            --live_;
        });
    }

private:
    engine& engine_;
    std::size_t live_ = 0;
};

constexpr bool begins_with(const char* text, const char* start) {
    for (; *start != '\0'; ++text, ++start) {
        if (*text != *start) return false;
    }
    return true;
}

}  // namespace headrace_sim

#endif
