// Sliding windows over an image that arrives as a stream: the rows that are still needed, and the position read.
//
// Shared by SWG, VVAU and the pools. An image is `height` rows of `width` pixels of `folds` words. A window has
// kernel_h x kernel_w taps; `lanes_h` x `lanes_w` of them (one, a row of the kernel, or all) are read at once.
#pragma once

#include "types.hpp"

namespace headrace {

// CONFIG: height, width, folds, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left,
// out_h, out_w, lanes_h, lanes_w, depthwise (order of the words: (fold, tap) instead of (tap, fold)).
template <class CONFIG, class X, int N>
class window_buffer {
public:
    static constexpr int lanes = CONFIG::lanes_h * CONFIG::lanes_w;
    static constexpr int rows = (CONFIG::kernel_h - 1) * CONFIG::dilation_h + 1;  // rows that a window spans
    static constexpr int reads_h = CONFIG::kernel_h / CONFIG::lanes_h;            // reads of a window, vertically
    static constexpr int reads_w = CONFIG::kernel_w / CONFIG::lanes_w;            // and horizontally
    static constexpr int row_words = CONFIG::width * CONFIG::folds;
    static constexpr int frame_words = CONFIG::height * row_words;

    pack<X, N> lines[lanes][rows * row_words];  // a ring of rows, once for each lane that reads

    window_buffer() {
        PRAGMA_HLS(HLS INLINE)
        place();
    }

    // Whether what the current window needs has arrived, three iterations ago at least: so long may a write take. That
    // is all of its pixels, or, channel by channel, those words of them: a branch beside this one may hold no more.
    bool ready() const { return row < CONFIG::out_h && newest + (CONFIG::depthwise ? fold : 0) < settled; }

    // Whether the frame is over: all its windows read, and all its words taken.
    bool done() const { return row == CONFIG::out_h && written == frame_words; }

    // The last of the reads that give one result.
    bool last_tap() const {
        return kernel_row == reads_h - 1 && kernel_col == reads_w - 1;
    }
    bool first_tap() const { return kernel_row == 0 && kernel_col == 0; }

    int current_fold() const { return fold; }
    int current_tap() const { return kernel_row * reads_w + kernel_col; }

    // Take one word of the image, when there is one left and room for it. Waits for it only when no window is ready
    // nor can become so: otherwise a branch beside this one might have to hold words that it has no room for.
    void take(hls::stream<pack<X, N>>& in, bool is_ready) {
        PRAGMA_HLS(HLS INLINE)
        const bool may_wait = !is_ready && settled == written;
        settled = settling;
        settling = written;
        if (written == frame_words || written - oldest >= rows * row_words) return;
        if (!may_wait && in.empty()) return;
        const pack<X, N> word = in.read();
        for (int lane = 0; lane < lanes; ++lane) {
            PRAGMA_HLS(HLS UNROLL)
            lines[lane][write_slot * row_words + write_word] = word;
        }
        ++written;
        if (write_word < row_words - 1) {
            ++write_word;
        } else {
            write_word = 0;
            write_slot = write_slot < rows - 1 ? write_slot + 1 : 0;
        }
    }

    // Whether a lane of the current read lies in the image, not in the padding.
    bool inside(int lane) const {
        const int y = top + tap_row(lane) * CONFIG::dilation_h;
        const int x = left + tap_col(lane) * CONFIG::dilation_w;
        return y >= 0 && y < CONFIG::height && x >= 0 && x < CONFIG::width;
    }

    // The word of a lane that lies in the image.
    const pack<X, N>& word(int lane) const {
        int slot = top_slot + tap_row(lane) * CONFIG::dilation_h;
        if (slot >= rows) slot -= rows;
        const int x = left + tap_col(lane) * CONFIG::dilation_w;
        return lines[lane][slot * row_words + x * CONFIG::folds + fold];
    }

    // Go on to the next read.
    void advance() {
        PRAGMA_HLS(HLS INLINE)
        if (CONFIG::depthwise ? next_tap() : next_fold()) return;
        if (CONFIG::depthwise ? next_fold() : next_tap()) return;
        if (col < CONFIG::out_w - 1) {
            ++col;
            left += CONFIG::stride_w;
        } else {
            col = 0;
            left = -CONFIG::pad_left;
            ++row;
            top += CONFIG::stride_h;
            top_slot += CONFIG::stride_h % rows;
            if (top_slot >= rows) top_slot -= rows;
        }
        place();
    }

private:
    static int tap_row_of(int kernel_row, int lane) { return kernel_row * CONFIG::lanes_h + lane / CONFIG::lanes_w; }
    int tap_row(int lane) const { return tap_row_of(kernel_row, lane); }
    int tap_col(int lane) const { return kernel_col * CONFIG::lanes_w + lane % CONFIG::lanes_w; }

    bool next_fold() {
        fold = fold < CONFIG::folds - 1 ? fold + 1 : 0;
        return fold != 0;
    }

    bool next_tap() {
        if (kernel_col < reads_w - 1) {
            ++kernel_col;
            return true;
        }
        kernel_col = 0;
        kernel_row = kernel_row < reads_h - 1 ? kernel_row + 1 : 0;
        return kernel_row != 0;
    }

    // Which words the current window needs: none before `oldest` nor after `newest` (of its first channels, where it is
    // read channel by channel), later windows none before either.
    void place() {
        PRAGMA_HLS(HLS INLINE)
        const int last_y = top + rows - 1;
        const int last_x = left + (CONFIG::kernel_w - 1) * CONFIG::dilation_w;
        const int y = last_y < CONFIG::height ? last_y : CONFIG::height - 1;
        const int x = last_x < CONFIG::width ? last_x : CONFIG::width - 1;
        newest = y * row_words + x * CONFIG::folds + (CONFIG::depthwise ? 0 : CONFIG::folds - 1);
        if (y < 0 || x < 0) newest = -CONFIG::folds;
        const int first_x = left < 0 ? 0 : left < CONFIG::width ? left : CONFIG::width - 1;
        oldest = top * row_words + first_x * CONFIG::folds;
        if (top < 0) oldest = 0;
        if (top >= CONFIG::height || row == CONFIG::out_h) oldest = frame_words;
    }

    int written = 0;
    int settling = 0;  // what `written` was one iteration before
    int settled = 0;   // and two
    int write_slot = 0;
    int write_word = 0;
    int row = 0;  // of windows
    int col = 0;
    int top = -CONFIG::pad_top;  // of the window, in the image
    int left = -CONFIG::pad_left;
    int top_slot = (rows - CONFIG::pad_top % rows) % rows;
    int kernel_row = 0;
    int kernel_col = 0;
    int fold = 0;
    int oldest = 0;
    int newest = 0;
};

}  // namespace headrace
