// What all layers share: pragmas, words of several elements, elements of one bit, accumulators.
#pragma once

#include <ap_int.h>
#include <hls_stream.h>

#include <cstdint>
#include <type_traits>

// A pragma that other compilers do not see (and do not warn about): PRAGMA_HLS(HLS PIPELINE II=1 style=flp).
// The functions of a dataflow region stand in PROCESS(...), behind REGION: in synthesis, and in C simulation but with
// HEADRACE_DATAFLOW, they are ordinary calls.
#if defined(__SYNTHESIS__)
#define PRAGMA_HLS_TEXT(text) _Pragma(#text)
#define PRAGMA_HLS(text) PRAGMA_HLS_TEXT(text)
#define REGION
#define PROCESS(call) call
#elif defined(HEADRACE_DATAFLOW)
#define PRAGMA_HLS(text)                                                                                          \
    if constexpr (headrace_sim::begins_with(#text, "HLS PIPELINE")) headrace_sim::engine::running()->tick();      \
    if constexpr (headrace_sim::begins_with(#text, "HLS STREAM")) headrace_sim::engine::running()->set_depth(#text);
#define REGION headrace_sim::region region;
#define PROCESS(call) region.add(#call, [&] { call; })
#else
#define PRAGMA_HLS(text)
#define REGION
#define PROCESS(call) call
#endif

namespace headrace {

// One bit that stands for -1 (0) or +1 (1). A template only so that its constructors are constant expressions
// wherever those of ap_uint are.
template <int BITS = 1>
struct sign_bit {
    ap_uint<BITS> code;

    constexpr sign_bit() = default;
    constexpr sign_bit(int value) : code(value > 0 ? 1 : 0) {}
    constexpr operator int() const { return static_cast<int>(code) * 2 - 1; }
};
using bipolar = sign_bit<>;

// A word of a stream: N neighbouring elements, element 0 in the least significant bits.
template <class T, int N>
struct pack {
    static constexpr int lanes = N;
    T lane[N];

    T& operator[](int i) { return lane[i]; }
    const T& operator[](int i) const { return lane[i]; }
};

// Signed integers of BITS bits for running sums. Layers choose BITS so that no sum ever leaves them; C simulation
// may therefore compute in built-in integers, which compilers vectorise, and get the same values.
#if defined(__SYNTHESIS__) || defined(HEADRACE_BIT_ACCURATE)
template <int BITS>
using accumulator = ap_int<BITS>;
#else
template <int BITS>
using accumulator = std::conditional_t<(BITS <= 32), std::int32_t, std::int64_t>;
#endif

// An element as a number.
template <int N>
constexpr ap_int<N> value(const ap_int<N>& x) {
    return x;
}
template <int N>
constexpr ap_uint<N> value(const ap_uint<N>& x) {
    return x;
}
inline ap_int<2> value(const bipolar& x) { return ap_int<2>(static_cast<int>(x)); }

// The bits of an element, as an index.
template <int N>
constexpr ap_uint<N> bits_of(const ap_int<N>& x) {
    return ap_uint<N>(x);
}
template <int N>
constexpr ap_uint<N> bits_of(const ap_uint<N>& x) {
    return x;
}
inline ap_uint<1> bits_of(const bipolar& x) { return x.code; }

// An element of one type as an element of another that holds its value.
template <class Y, class X>
Y convert(const X& x) {
    if constexpr (std::is_same_v<X, Y>) {
        return x;
    } else {
        return Y(value(x));
    }
}

// x * w, which fits an A.
template <class A, class X, class W>
A product(const X& x, const W& w) {
    PRAGMA_HLS(HLS INLINE)
#if defined(__SYNTHESIS__) || defined(HEADRACE_BIT_ACCURATE)
    return A(value(x) * value(w));
#else
    return static_cast<A>(static_cast<A>(x) * static_cast<A>(w));
#endif
}

// Sum of the products of N elements and N weights; every partial sum fits an A.
template <class A, class X, class W, int N>
A dot(const pack<X, N>& x, const W (&weights)[N]) {
    PRAGMA_HLS(HLS INLINE)
    A sum = 0;
    for (int i = 0; i < N; ++i) {
        PRAGMA_HLS(HLS UNROLL)
        sum += product<A>(x[i], weights[i]);
    }
    return sum;
}

// The same for bits that stand for -1 and +1: XNOR and a population count.
template <class A, int N>
A dot(const pack<bipolar, N>& x, const bipolar (&weights)[N]) {
    PRAGMA_HLS(HLS INLINE)
    int equal = 0;
    for (int i = 0; i < N; ++i) {
        PRAGMA_HLS(HLS UNROLL)
        equal += x[i].code == weights[i].code ? 1 : 0;
    }
    return A(2 * equal - N);
}

}  // namespace headrace
