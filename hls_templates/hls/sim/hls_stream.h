// hls::stream<T> for C simulation with any C++17 compiler.
//
// In C simulation the functions of a dataflow region run one after another, so a stream holds all the words of a call.
// What would hang or lose data in hardware ends the program with a message that names the stream:
//
// * reading from an empty stream: a deadlock, the reader waits for a word that nobody writes;
// * more words than `limit`: a writer that never stops;
// * words left over when the stream ends: the reader took fewer than were written.
//
// With HEADRACE_DATAFLOW they run side by side and streams are as deep as in hardware: see headrace_dataflow.h.
//
// With HEADRACE_TRACE every word of a named stream is also appended to the file <name>.trace, each lane as one
// little-endian integer of 64 bits.
#ifndef HEADRACE_SIM_HLS_STREAM_H
#define HEADRACE_SIM_HLS_STREAM_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#ifdef HEADRACE_DATAFLOW
#include "headrace_dataflow.h"
#endif

#ifdef HEADRACE_TRACE
#include <map>
#include <string>
#include <type_traits>
#endif

namespace headrace_sim {

constexpr int stream_error_status = 3;

// Most words that a stream may hold at once.
inline std::size_t& stream_limit() {
    static std::size_t limit = std::size_t{1} << 24;
    return limit;
}

[[noreturn]] inline void stream_error(const char* name, const char* what, std::size_t written, std::size_t read) {
    std::fprintf(stderr, "stream '%s': %s (%zu words written, %zu read)\n", name, what, written, read);
    std::fflush(nullptr);
    std::_Exit(stream_error_status);
}

// Buffers of streams that have ended, for streams to come: the streams of a dataflow region are made for every call.
template <class T>
struct buffer_pool {
    struct buffer {
        T* words;
        std::size_t capacity;
    };
    static constexpr int most = 64;
    static inline buffer buffers[most];
    static inline int count = 0;

    static buffer take() { return count != 0 ? buffers[--count] : buffer{nullptr, 0}; }
    static void give(buffer used) {
        if (count < most && used.words != nullptr) {
            buffers[count++] = used;
        } else {
            delete[] used.words;
        }
    }
};

#ifdef HEADRACE_TRACE
template <class T, class = void>
struct has_lanes : std::false_type {};
template <class T>
struct has_lanes<T, std::void_t<decltype(T::lanes)>> : std::true_type {};

template <class T>
void trace(const char* name, const T& word) {
    if constexpr (has_lanes<T>::value) {
        static std::map<std::string, std::FILE*> files;
        std::FILE*& file = files[name];
        if (file == nullptr) file = std::fopen((std::string(name) + ".trace").c_str(), "wb");
        if (file == nullptr) stream_error(name, "its trace file cannot be written", 0, 0);
        std::int64_t lanes[T::lanes];
        for (int i = 0; i < T::lanes; ++i) lanes[i] = static_cast<std::int64_t>(word[i]);
        std::fwrite(lanes, sizeof lanes, 1, file);
    }
}
#endif

}  // namespace headrace_sim

namespace hls {

template <class T, int DEPTH = 0>
class stream;

#ifdef HEADRACE_DATAFLOW
// Where a stream meets the functions that run beside it.
class meeting {
public:
    explicit meeting(const char* name) : channel_(name), engine_(headrace_sim::engine::running()) {
        if (engine_ != nullptr) engine_->add(channel_);
    }
    meeting(const meeting&) = delete;
    meeting& operator=(const meeting&) = delete;
    ~meeting() {
        if (engine_ != nullptr) engine_->remove(channel_);
    }

    const headrace_sim::channel& channel() const { return channel_; }

protected:
    void await_word() {
        while (unseen_word()) engine_->wait(channel_, true);
        ++channel_.read;
    }
    void await_room() {
        while (unseen_room()) engine_->wait(channel_, false);
        ++channel_.written;
    }

    // Whether what there is came in this very cycle, so that the function that asks does not see it yet.
    bool unseen_word() const { return engine_ != nullptr && engine_->inside() && !channel_.readable(); }
    bool unseen_room() const { return engine_ != nullptr && engine_->inside() && !channel_.writable(); }

private:
    headrace_sim::channel channel_;
    headrace_sim::engine* engine_;
};
#else
// Nothing runs beside the function that runs.
class meeting {
protected:
    explicit meeting(const char*) {}
    void await_word() {}
    void await_room() {}
    static constexpr bool unseen_word() { return false; }
    static constexpr bool unseen_room() { return false; }
};
#endif

template <class T>
class stream<T, 0> : public meeting {
public:
    explicit stream(const char* name = "") : meeting(name), name_(name), buffer_(pool::take()) {}
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;
    ~stream() {
        if (read_ != written_) fail("words are left over");
        pool::give(buffer_);
    }

    void write(const T& word) {
        await_room();
        if (written_ - read_ == buffer_.capacity) grow();
        buffer_.words[written_ & (buffer_.capacity - 1)] = word;
        ++written_;
#ifdef HEADRACE_TRACE
        if (name_[0] != '\0') headrace_sim::trace(name_, word);
#endif
    }

    T read() {
        await_word();
        if (read_ == written_) fail("deadlock: read while it is empty");
        return buffer_.words[read_++ & (buffer_.capacity - 1)];
    }

    void read(T& word) { word = read(); }
    bool empty() const { return read_ == written_ || unseen_word(); }
    bool full() const { return written_ - read_ >= headrace_sim::stream_limit() || unseen_room(); }
    std::size_t size() const { return written_ - read_; }
    const T& front() const { return buffer_.words[read_ & (buffer_.capacity - 1)]; }  // of one that holds a word

private:
    using pool = headrace_sim::buffer_pool<T>;

    [[noreturn]] void fail(const char* what) const {
        headrace_sim::stream_error(name_[0] != '\0' ? name_ : "(unnamed)", what, written_, read_);
    }

    void grow() {
        if (buffer_.capacity >= headrace_sim::stream_limit()) fail("overflow: it holds as many words as it may");
        const std::size_t larger = buffer_.capacity != 0 ? 2 * buffer_.capacity : 16;
        T* const moved = new T[larger];
        for (std::size_t k = read_; k != written_; ++k) {
            moved[k & (larger - 1)] = buffer_.words[k & (buffer_.capacity - 1)];
        }
        delete[] buffer_.words;
        buffer_ = {moved, larger};
    }

    const char* name_;
    typename pool::buffer buffer_;  // its capacity is a power of two
    std::size_t written_ = 0;
    std::size_t read_ = 0;
};

template <class T, int DEPTH>
class stream : public stream<T, 0> {
public:
    using stream<T, 0>::stream;
};

}  // namespace hls

#endif
