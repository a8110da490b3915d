// ap_int<W> and ap_uint<W> for C simulation with any C++17 compiler: the subset that the generated code uses.
//
// Written from the documented behaviour of the types: W bits, two's complement or unsigned, sums and products as wide
// as they need, assignment keeps the low bits. Up to 64 bits a value lies in the smallest standard integer, so that
// arrays of them are arrays of small integers to the compiler; wider ones are words of 64 bits that can be copied,
// compared and read and written by ranges of bits, which is what the data of an AXI4-Stream word needs.
#ifndef HEADRACE_SIM_AP_INT_H
#define HEADRACE_SIM_AP_INT_H

#include <cstdint>
#include <type_traits>

template <int W>
class ap_int;
template <int W>
class ap_uint;

namespace headrace_sim {

template <int W, bool S>
class integer;

template <int W, bool S>
using ap = std::conditional_t<S, ap_int<W>, ap_uint<W>>;

template <int W, bool S>
using storage = std::conditional_t<
    S,
    std::conditional_t<(W <= 8), std::int8_t,
                       std::conditional_t<(W <= 16), std::int16_t,
                                          std::conditional_t<(W <= 32), std::int32_t, std::int64_t>>>,
    std::conditional_t<(W <= 8), std::uint8_t,
                       std::conditional_t<(W <= 16), std::uint16_t,
                                          std::conditional_t<(W <= 32), std::uint32_t, std::uint64_t>>>>;

// Bits `low .. high` of an integer, as something that can be read and assigned.
template <class T>
class range_reference {
public:
    constexpr range_reference(T& target, int high, int low) : target_(target), high_(high), low_(low) {}
    constexpr range_reference(const range_reference&) = default;
    constexpr operator std::uint64_t() const { return target_.get_range(high_, low_); }
    constexpr std::uint64_t to_uint64() const { return target_.get_range(high_, low_); }
    constexpr range_reference& operator=(std::uint64_t bits) {
        target_.set_range(high_, low_, bits);
        return *this;
    }
    template <int W, bool S>
    constexpr range_reference& operator=(const integer<W, S>& value) {
        return *this = value.bits();
    }
    constexpr range_reference& operator=(const range_reference& other) { return *this = other.to_uint64(); }

private:
    T& target_;
    int high_;
    int low_;
};

constexpr std::uint64_t mask(int bits) { return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }

// Up to 64 bits.
template <int W, bool S>
class integer {
    static_assert(W >= 1 && W <= 64, "a width of 1 to 64 bits");

public:
    static constexpr int width = W;
    using native = storage<W, S>;

    constexpr integer() = default;
    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
    constexpr integer(T value) : value_(wrap(static_cast<std::uint64_t>(value))) {}
    template <int M, bool R>
    constexpr integer(const integer<M, R>& other) : value_(wrap(other.bits())) {}
    template <class T>
    constexpr integer(const range_reference<T>& range) : value_(wrap(range.to_uint64())) {}

    constexpr operator native() const { return value_; }
    constexpr int to_int() const { return static_cast<int>(value_); }
    constexpr std::int64_t to_int64() const { return static_cast<std::int64_t>(value_); }
    constexpr std::uint64_t to_uint64() const { return bits(); }

    // The value modulo 2**64, sign extended when signed.
    constexpr std::uint64_t bits() const { return static_cast<std::uint64_t>(value_); }

    constexpr std::uint64_t get_range(int high, int low) const { return (bits() >> low) & mask(high - low + 1); }
    constexpr void set_range(int high, int low, std::uint64_t value) {
        const std::uint64_t window = mask(high - low + 1) << low;
        value_ = wrap((bits() & ~window) | ((value << low) & window));
    }
    constexpr range_reference<integer> range(int high, int low) { return {*this, high, low}; }
    constexpr range_reference<const integer> range(int high, int low) const { return {*this, high, low}; }
    constexpr bool operator[](int bit) const { return ((bits() >> bit) & 1) != 0; }

private:
    // The low W bits as a value; the shift pair is what compilers turn into a sign extension.
    static constexpr native wrap(std::uint64_t value) {
        if constexpr (W == 8 * static_cast<int>(sizeof(native))) {
            return static_cast<native>(value);
        } else if constexpr (S) {
            constexpr int unused = 8 * static_cast<int>(sizeof(native)) - W;
            using raw = std::make_unsigned_t<native>;
            const raw up = static_cast<raw>(static_cast<std::uint64_t>(static_cast<raw>(value)) << unused);
            return static_cast<native>(static_cast<native>(up) >> unused);
        } else {
            return static_cast<native>(value & mask(W));
        }
    }

    native value_;
};

// More than 64 bits: ranges of at most 64 bits, comparison for equality.
template <int W>
class wide {
public:
    static constexpr int width = W;

    constexpr wide() = default;
    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
    constexpr wide(T value) : words_{} {
        words_[0] = static_cast<std::uint64_t>(value);
        if (value < T{0}) {
            for (int k = 1; k < count; ++k) words_[k] = ~std::uint64_t{0};
        }
        trim();
    }

    constexpr std::uint64_t get_range(int high, int low) const {
        const int word = low / 64, shift = low % 64;
        std::uint64_t result = words_[word] >> shift;
        if (shift != 0 && word + 1 < count) result |= words_[word + 1] << (64 - shift);
        return result & mask(high - low + 1);
    }
    constexpr void set_range(int high, int low, std::uint64_t value) {
        const int word = low / 64, shift = low % 64;
        const std::uint64_t window = mask(high - low + 1);
        words_[word] = (words_[word] & ~(window << shift)) | ((value & window) << shift);
        if (shift != 0 && word + 1 < count) {
            words_[word + 1] = (words_[word + 1] & ~(window >> (64 - shift))) | ((value & window) >> (64 - shift));
        }
    }
    constexpr range_reference<wide> range(int high, int low) { return {*this, high, low}; }
    constexpr range_reference<const wide> range(int high, int low) const { return {*this, high, low}; }
    constexpr bool operator[](int bit) const { return get_range(bit, bit) != 0; }

    friend constexpr bool operator==(const wide& a, const wide& b) {
        for (int k = 0; k < count; ++k) {
            if (a.words_[k] != b.words_[k]) return false;
        }
        return true;
    }
    friend constexpr bool operator!=(const wide& a, const wide& b) { return !(a == b); }

private:
    static constexpr int count = (W + 63) / 64;
    constexpr void trim() {
        if constexpr (W % 64 != 0) words_[count - 1] &= mask(W % 64);
    }

    std::uint64_t words_[static_cast<unsigned>(count)];
};

template <int W, bool S>
using base = std::conditional_t<(W <= 64), integer<(W <= 64 ? W : 64), S>, wide<W>>;

// -- arithmetic: results are as wide as they need, up to 64 bits, of which the generated code needs no more ---------

constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int at_most_64(int bits) { return bits < 64 ? bits : 64; }

// Width of a sum: that of the wider operand (an unsigned one meeting a signed one needs a sign) and a carry.
constexpr int sum_width(int a, bool a_signed, int b, bool b_signed) {
    return at_most_64(larger(a + (b_signed && !a_signed ? 1 : 0), b + (a_signed && !b_signed ? 1 : 0)) + 1);
}

template <int A, bool SA, int B, bool SB>
constexpr auto operator+(const integer<A, SA>& a, const integer<B, SB>& b) {
    return ap<sum_width(A, SA, B, SB), SA || SB>(a.bits() + b.bits());
}
template <int A, bool SA, int B, bool SB>
constexpr auto operator-(const integer<A, SA>& a, const integer<B, SB>& b) {
    return ap<sum_width(A, SA, B, SB), true>(a.bits() - b.bits());
}
template <int A, bool SA, int B, bool SB>
constexpr auto operator*(const integer<A, SA>& a, const integer<B, SB>& b) {
    return ap<at_most_64(A + B), SA || SB>(a.bits() * b.bits());
}

// A built-in integer counts as an ap type of its own width.
template <class T>
using as_ap = ap<8 * static_cast<int>(sizeof(T)), std::is_signed_v<T>>;
template <class T>
using if_integral = std::enable_if_t<std::is_integral_v<T>, int>;

#define HEADRACE_SIM_MIXED(OP)                                                     \
    template <int A, bool SA, class T, if_integral<T> = 0>                         \
    constexpr auto operator OP(const integer<A, SA>& a, T b) {                     \
        return a OP as_ap<T>(b);                                                   \
    }                                                                              \
    template <int A, bool SA, class T, if_integral<T> = 0>                         \
    constexpr auto operator OP(T b, const integer<A, SA>& a) {                     \
        return as_ap<T>(b) OP a;                                                   \
    }
HEADRACE_SIM_MIXED(+)
HEADRACE_SIM_MIXED(-)
HEADRACE_SIM_MIXED(*)
#undef HEADRACE_SIM_MIXED

// -- comparison: by value ------------------------------------------------------------------------------------------

template <int A, bool SA, int B, bool SB>
constexpr int compare(const integer<A, SA>& a, const integer<B, SB>& b) {
    const bool a_negative = SA && a.to_int64() < 0, b_negative = SB && b.to_int64() < 0;
    if (a_negative != b_negative) return a_negative ? -1 : 1;
    return a.bits() < b.bits() ? -1 : a.bits() > b.bits() ? 1 : 0;
}

#define HEADRACE_SIM_COMPARISON(OP)                                                \
    template <int A, bool SA, int B, bool SB>                                      \
    constexpr bool operator OP(const integer<A, SA>& a, const integer<B, SB>& b) { \
        if constexpr (A + (SB && !SA) < 64 && B + (SA && !SB) < 64) {              \
            return a.to_int64() OP b.to_int64();                                   \
        } else {                                                                   \
            return compare(a, b) OP 0;                                             \
        }                                                                          \
    }                                                                              \
    template <int A, bool SA, class T, if_integral<T> = 0>                         \
    constexpr bool operator OP(const integer<A, SA>& a, T b) {                     \
        return a OP as_ap<T>(b);                                                   \
    }                                                                              \
    template <int A, bool SA, class T, if_integral<T> = 0>                         \
    constexpr bool operator OP(T b, const integer<A, SA>& a) {                     \
        return as_ap<T>(b) OP a;                                                   \
    }
HEADRACE_SIM_COMPARISON(<)
HEADRACE_SIM_COMPARISON(>)
HEADRACE_SIM_COMPARISON(<=)
HEADRACE_SIM_COMPARISON(>=)
HEADRACE_SIM_COMPARISON(==)
HEADRACE_SIM_COMPARISON(!=)
#undef HEADRACE_SIM_COMPARISON

}  // namespace headrace_sim

template <int W>
class ap_int : public headrace_sim::base<W, true> {
public:
    using headrace_sim::base<W, true>::base;
    constexpr ap_int() = default;
    template <int M, bool S>
    constexpr ap_int(const headrace_sim::integer<M, S>& other) : headrace_sim::base<W, true>(other) {}

    template <class T>
    constexpr ap_int& operator+=(const T& other) {
        return *this = ap_int(*this + other);
    }
    template <class T>
    constexpr ap_int& operator-=(const T& other) {
        return *this = ap_int(*this - other);
    }
};

template <int W>
class ap_uint : public headrace_sim::base<W, false> {
public:
    using headrace_sim::base<W, false>::base;
    constexpr ap_uint() = default;
    template <int M, bool S>
    constexpr ap_uint(const headrace_sim::integer<M, S>& other) : headrace_sim::base<W, false>(other) {}

    template <class T>
    constexpr ap_uint& operator+=(const T& other) {
        return *this = ap_uint(*this + other);
    }
    template <class T>
    constexpr ap_uint& operator-=(const T& other) {
        return *this = ap_uint(*this - other);
    }
};

#endif
