// Drives a verilated design: offers the input words, collects the output words, checks the AXI4-Stream
// protocol and notes the cycle of every transfer. The cocotb bench (bench.py) makes the same decisions
// cycle by cycle, so that both give equal results for equal seeds.
//
// Run in a folder that holds job.txt and input<i>.bin; writes <group><i>.bin (words), <group><i>.cyc
// (cycle of each word, uint64) for the groups input, output and stream, and status.json; now and then, progress.txt.

#include "driver.h"

#include "axi_lite.h"
#include "stall.h"

#if VM_COVERAGE
#include "verilated_cov.h"
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

namespace {

using headrace::Access;
using headrace::Answer;
using headrace::Master;
using headrace::Model;
using headrace::Pins;
using headrace::Stall;

constexpr uint64_t kNever = UINT64_MAX;
constexpr size_t kMaxReports = 4;  // of one kind on one stream: the first ones tell

struct Violation {
    uint64_t cycle;
    const char* group;
    size_t index;
    const char* kind;
    uint64_t word;
};

// Everything known about one stream during the run.
struct Channel {
    Pins pins;
    const char* group;
    size_t index;
    uint64_t words_per_frame = 1;
    uint64_t expected = 0;  // words in the whole run
    Stall stall;
    std::vector<uint8_t> data;     // input: the words to send; else: the words seen
    std::vector<uint64_t> cycles;  // cycle of each transfer
    bool held = false;             // tvalid was high and tready low in the cycle before
    std::vector<uint8_t> held_data;
    uint8_t held_last = 0;

    uint64_t count() const { return cycles.size(); }
    bool last_of_frame(uint64_t word) const { return (word + 1) % words_per_frame == 0; }
};

[[noreturn]] void die(const std::string& message) {
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(3);
}

template <typename T>
void write_file(const std::string& path, const std::vector<T>& data) {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(data.data()), data.size() * sizeof(T));
    out.close();
    if (!out) die("cannot write " + path);
}

// Leaves in progress.txt how far the run is: whole frames that came out, and cycles. progress.py reads it. Ends the run
// when nobody waits for it any more: the process that started it was killed.
class Progress {
public:
    uint64_t period = 0;  // milliseconds from one time to the next

    template <typename Frames>
    void look(uint64_t cycle, Frames frames) {
        if (cycle % kLookCycles) return;
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < std::chrono::milliseconds(period)) return;
        last_ = now;
        if (getppid() != parent_) die("nobody waits for the outcome");
        {
            std::ofstream out("progress.new");
            out << frames() << " " << cycle << "\n";
        }
        std::rename("progress.new", "progress.txt");  // a reader sees it whole
    }

private:
    static constexpr uint64_t kLookCycles = 256;  // between two looks at the clock
    const pid_t parent_ = getppid();
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

class Run {
public:
    Run(Model& model, std::ifstream& job) : model_(model), master_(model.control) {
        std::string key;
        while (job >> key) {
            if (key == "frames") job >> frames_;
            else if (key == "timeout") job >> timeout_;
            else if (key == "tail") job >> tail_;
            else if (key == "reset") job >> reset_cycles_;
            else if (key == "pace") job >> pace_;
            else if (key == "tell") job >> told_.period;
            else if (key == "control") {
                Stall stall;
                job >> stall.key >> stall.threshold;
                master_.stalls.push_back(stall);
            } else if (key == "access") {
                Access a;
                job >> a.phase >> a.writes >> a.address >> a.data >> a.strobe;
                master_.accesses.push_back(a);
            } else if (key == "wave") { job >> std::ws; std::getline(job, wave_); }
            else if (key == "input") add(job, "input", model.inputs, inputs_);
            else if (key == "output") add(job, "output", model.outputs, outputs_);
            else if (key == "stream") add(job, "stream", model.streams, streams_);
            else die("job.txt: unknown key " + key);
        }
        for (Channel& in : inputs_) {
            std::ifstream file("input" + std::to_string(in.index) + ".bin", std::ios::binary);
            in.data.assign(std::istreambuf_iterator<char>(file), {});
            if (in.data.size() != in.expected * in.pins.bytes) die("input file has the wrong size");
        }
    }

    void run() {
        if (!wave_.empty()) model_.open_wave(wave_.c_str());
        *model_.reset = 0;
        if (master_.there()) master_.reset();
        for (uint64_t i = 0; i < reset_cycles_; ++i) {
            for (Channel& in : inputs_) drive_idle(in);
            settle();
            rise();
        }
        *model_.reset = 1;
        const char* outcome = nullptr;
        uint64_t progress = 0;
        for (cycle_ = 0; outcome == nullptr; ++cycle_) {
            drive();
            settle();
            if (sample()) progress = cycle_;
            rise();
            told_.look(cycle_, [this] { return frames_out(); });
            if (end_ == kNever && complete() && master_.finished()) end_ = cycle_ + tail_;
            if (cycle_ >= end_) outcome = "done";
            else if (end_ == kNever && cycle_ - progress >= timeout_) outcome = "deadlock";
            else if (Verilated::gotFinish()) outcome = "finish";
        }
        model_.finish();
        write(outcome);
    }

private:
    void add(std::ifstream& job, const char* group, const std::vector<Pins>& pins,
             std::vector<Channel>& channels) {
        if (channels.size() >= pins.size()) die("job.txt: more streams than the model has");
        Channel channel;
        channel.group = group;
        channel.index = channels.size();
        channel.pins = pins[channel.index];
        job >> channel.words_per_frame >> channel.stall.key >> channel.stall.threshold;
        channel.expected = frames_ * channel.words_per_frame;
        channel.held_data.resize(channel.pins.bytes);
        channels.push_back(std::move(channel));
    }

    // An idle input shows the complement of the next word and tlast high, to catch a design that looks at
    // them while tvalid is low.
    static void drive_idle(Channel& in) {
        *in.pins.tvalid = 0;
        *in.pins.tlast = 1;
        if (in.count() == in.expected) return;
        const uint8_t* next = &in.data[in.count() * in.pins.bytes];
        for (uint32_t i = 0; i < in.pins.bytes; ++i) in.pins.tdata[i] = ~next[i];
    }

    void drive() {
        if (start_ == kNever && master_.prepared()) start_ = cycle_;
        if (master_.there()) master_.drive(cycle_, complete());
        for (Channel& in : inputs_) {
            const bool more = in.count() < in.expected;
            const bool early = start_ == kNever || (cycle_ - start_) * in.words_per_frame < in.count() * pace_;
            if (!in.held && (!more || early || in.stall(cycle_))) {
                drive_idle(in);
                continue;
            }
            *in.pins.tvalid = 1;
            *in.pins.tlast = in.last_of_frame(in.count());
            std::memcpy(in.pins.tdata, &in.data[in.count() * in.pins.bytes], in.pins.bytes);
        }
        // After the last expected word nothing stalls, so that a surplus word shows within the tail.
        for (Channel& out : outputs_) *out.pins.tready = end_ != kNever || !out.stall(cycle_);
    }

    void settle() {
        *model_.clock = 0;
        model_.eval();
        if (!wave_.empty()) model_.dump_wave(time_);
        time_ += 5;
    }

    void rise() {
        *model_.clock = 1;
        model_.eval();
        if (!wave_.empty()) model_.dump_wave(time_);
        time_ += 5;
    }

    // Look at every stream just before the rising edge; true if a word moved at the boundary.
    bool sample() {
        bool moved = master_.there() && master_.sample(cycle_);
        for (Channel& in : inputs_) {
            in.held = *in.pins.tvalid && !*in.pins.tready;
            if (*in.pins.tvalid && *in.pins.tready) {
                in.cycles.push_back(cycle_);
                moved = true;
            }
        }
        for (Channel& out : outputs_) moved |= observe(out);
        for (Channel& stream : streams_) observe(stream);
        return moved;
    }

    bool observe(Channel& ch) {
        const Pins& pins = ch.pins;
        if (!*pins.tvalid) {
            if (ch.held) report(ch, "valid_withdrawn");
            ch.held = false;
            return false;
        }
        if (ch.held) {
            if (std::memcmp(ch.held_data.data(), pins.tdata, pins.bytes)) report(ch, "data_changed");
            if (pins.tlast && *pins.tlast != ch.held_last) report(ch, "last_changed");
        }
        ch.held = !*pins.tready;
        if (ch.held) {
            std::memcpy(ch.held_data.data(), pins.tdata, pins.bytes);
            if (pins.tlast) ch.held_last = *pins.tlast;
            return false;
        }
        if (ch.count() == ch.expected) {
            report(ch, "extra_word");
            return false;
        }
        if (pins.tlast && *pins.tlast != ch.last_of_frame(ch.count()))
            report(ch, *pins.tlast ? "last_early" : "last_missing");
        ch.data.insert(ch.data.end(), pins.tdata, pins.tdata + pins.bytes);
        ch.cycles.push_back(cycle_);
        return true;
    }

    void report(const Channel& ch, const char* kind) {
        size_t same = 0;
        for (const Violation& v : violations_)
            same += v.group == ch.group && v.index == ch.index && !std::strcmp(v.kind, kind);
        if (same >= kMaxReports) return;
        violations_.push_back({cycle_, ch.group, ch.index, kind, ch.count()});
    }

    bool complete() const {
        for (const Channel& in : inputs_)
            if (in.count() < in.expected) return false;
        for (const Channel& out : outputs_)
            if (out.count() < out.expected) return false;
        return true;
    }

    uint64_t frames_out() const {
        uint64_t least = frames_;
        for (const Channel& out : outputs_) least = std::min(least, out.count() / out.words_per_frame);
        return least;
    }

    void write(const char* outcome) const {
        std::string text = "{\"outcome\": \"" + std::string(outcome)
                           + "\", \"cycles\": " + std::to_string(cycle_) + ", \"violations\": [";
        const char* comma = "";
        for (const Violation& v : violations_) {
            text += std::string(comma) + "{\"cycle\": " + std::to_string(v.cycle) + ", \"group\": \"" + v.group
                    + "\", \"index\": " + std::to_string(v.index) + ", \"kind\": \"" + v.kind
                    + "\", \"word\": " + std::to_string(v.word) + "}";
            comma = ", ";
        }
        text += "], \"channels\": [";
        comma = "";
        for (const auto* group : {&inputs_, &outputs_, &streams_}) {
            for (const Channel& ch : *group) {
                const std::string stem = ch.group + std::to_string(ch.index);
                if (group != &inputs_) write_file(stem + ".bin", ch.data);
                write_file(stem + ".cyc", ch.cycles);
                text += std::string(comma) + "{\"group\": \"" + ch.group + "\", \"index\": "
                        + std::to_string(ch.index) + ", \"words\": " + std::to_string(ch.count())
                        + ", \"valid\": " + (*ch.pins.tvalid ? "true" : "false")
                        + ", \"ready\": " + (*ch.pins.tready ? "true" : "false") + "}";
                comma = ", ";
            }
        }
        text += "]";
        if (master_.there()) {
            text += ", \"control\": {\"stray\": " + std::to_string(master_.stray) + ", \"answers\": [";
            comma = "";
            for (const Answer& a : master_.answers) {
                text += std::string(comma) + "[" + std::to_string(a.data) + ", " + std::to_string(a.response) + ", "
                        + std::to_string(a.cycle) + "]";
                comma = ", ";
            }
            text += "]}";
        }
        text += "}\n";
        write_file("status.json", std::vector<char>(text.begin(), text.end()));
    }

    Model& model_;
    Master master_;
    std::vector<Channel> inputs_, outputs_, streams_;
    std::vector<Violation> violations_;
    Progress told_;
    std::string wave_;
    uint64_t frames_ = 0, timeout_ = 0, tail_ = 0, reset_cycles_ = 0, pace_ = 0, cycle_ = 0, time_ = 0;
    uint64_t start_ = kNever;  // the cycle from which on frames may enter
    uint64_t end_ = kNever;  // the last cycle, known once every word has moved
};

}  // namespace

int main(int argc, char** argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    std::ifstream job("job.txt");
    if (!job) die("cannot read job.txt");
    const std::unique_ptr<Model> model = headrace::make_model(&context);
    Run(*model, job).run();
#if VM_COVERAGE
    context.coveragep()->write("coverage.dat");
#endif
    return 0;
}
