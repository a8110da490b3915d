"""Folding: from a rate, from a file, and back to a file."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import FoldingError
from headrace.ir import Graph
from headrace.ir.integer import IntMaxPool, IntSumPool, Reshape
from headrace.layers.base import Layer
from headrace.passes.to_hardware import to_hardware
from headrace.schedule import (
    Reading,
    apply_folding,
    default_target,
    fastest_target,
    folding_json,
    insert_fifos,
    insert_width_converters,
    performance,
    read_folding,
    schedule,
    solve_folding,
    target_cycles,
    write_folding,
)
from headrace.schedule.fifos import fifos
from headrace.schedule.scheduling import connect, fold_by_file
from headrace.schedule.streams import layers

from .cores import Core, mlp, random_frames
from .simulated import Settings


def unfolded(*sizes: int) -> Graph:
    return to_hardware(mlp(sizes or (12, 8, 6, 4))).graph


def foldings(graph: Graph) -> dict[str, dict[str, int]]:
    return {node: layer.folding for node, layer in layers(graph).items()}


# -- for a rate -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [1, 2, 3, 7, 24, 48, 95, 96, 10_000])
def test_every_layer_meets_the_target(target: int) -> None:
    graph = unfolded()
    folded = solve_folding(graph, target)
    assert all(layer.cycles <= target for layer in layers(folded).values())
    assert list(folded) == list(graph)


def test_a_looser_target_costs_less() -> None:
    graph = unfolded(24, 16, 12)
    solved = [insert_width_converters(solve_folding(graph, target)) for target in (2, 16, 96, 384)]
    luts = [performance(candidate).resources.lut for candidate in solved]
    assert luts == sorted(luts, reverse=True)
    assert luts[0] > 2 * luts[-1]


def test_a_complete_fold_is_found_when_time_is_plenty() -> None:
    folded = solve_folding(unfolded(), 10**6)
    assert all(max(values.values(), default=1) <= 2 for values in foldings(folded).values())


def test_folding_is_the_cheapest_chain() -> None:
    """Against every combination of foldings that meets the target, converters included."""
    graph = unfolded(6, 4, 2)
    target = 12

    def price(candidate: Graph) -> float:
        resources = performance(insert_width_converters(candidate)).resources
        return resources.lut + 0.25 * resources.ff + 100 * resources.dsp + 120 * resources.bram18

    options = []
    for layer in layers(graph).values():
        names = list(layer.folding_choices)
        values = itertools.product(*layer.folding_choices.values())
        options.append([layer.with_folding(**dict(zip(names, v, strict=True))) for v in values])
    best = min(
        price(_refolded(graph, combination))
        for combination in itertools.product(*options)
        if all(layer.cycles <= target for layer in combination)
    )
    assert price(solve_folding(graph, target)) == pytest.approx(best)


def _refolded(graph: Graph, combination: tuple[Layer, ...]) -> Graph:
    result = Graph()
    ops = dict(zip(layers(graph), combination, strict=True))
    for node in graph:
        result.add(ops.get(node, graph.op(node)), graph.sources(node), node)
    return result


def test_target_cycles() -> None:
    assert target_cycles(100_000, 200.0) == 2000
    assert target_cycles(3.0, 100.0) == 33_333_333
    for fps, clock in ((0, 200), (-1, 200), (float("nan"), 200), (1000, 0), (1000, float("inf"))):
        with pytest.raises(FoldingError, match="must be a positive number"):
            target_cycles(fps, clock)
    with pytest.raises(FoldingError, match="more than one frame per cycle"):
        target_cycles(3e8, 200.0)


def test_an_impossible_target_names_the_slowest_layer() -> None:
    with pytest.raises(FoldingError, match=r"layer 'tokens' \(MVAU\): 8 cycles .* it takes 9 even fully unfolded"):
        solve_folding(to_hardware(_tokens()).graph, 8)


def test_the_default_is_moderate() -> None:
    graph = unfolded(784, 64, 64, 64, 10)
    assert 500 <= default_target(graph) <= 2000
    assert default_target(unfolded()) <= 96


def test_solving_is_deterministic() -> None:
    assert foldings(solve_folding(unfolded(24, 16, 12), 30)) == foldings(solve_folding(unfolded(24, 16, 12), 30))


# -- from a file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["MVAU_1", "MVAU_hls_1", "MVAU_rtl_1", "MatrixVectorActivation_1", "fc1"])
def test_keys_of_one_layer(key: str) -> None:
    folded = apply_folding(unfolded(), {key: {"PE": 3, "SIMD": 4}}).graph
    assert foldings(folded)["fc1"] == {"PE": 3, "SIMD": 4}
    assert foldings(folded)["fc0"] == {"PE": 1, "SIMD": 1}


def test_a_layer_that_nobody_folds_follows_the_one_before() -> None:
    folded = apply_folding(unfolded(), {"MVAU_0": {"PE": 4}, "MVAU_1": {"PE": 3}, "Thresholding_1": {"PE": 2}}).graph
    assert foldings(folded)["act0"] == {"PE": 4}
    assert foldings(folded)["act1"] == {"PE": 2}


def test_defaults() -> None:
    settings = {"Defaults": {"PE": [2, ["MVAU_hls"]], "SIMD": 2}, "MVAU_2": {"PE": 4}}
    folded = foldings(apply_folding(unfolded(), settings).graph)
    assert [folded[f"fc{k}"] for k in range(3)] == [{"PE": 2, "SIMD": 2}, {"PE": 2, "SIMD": 2}, {"PE": 4, "SIMD": 2}]


def test_a_written_file_reads_back(tmp_path: Path) -> None:
    folded = solve_folding(unfolded(), 30)
    path = tmp_path / "folding.json"
    path.write_text(folding_json(folded))
    again = apply_folding(unfolded(), read_folding(path))
    assert foldings(again.graph) == foldings(folded)
    assert again.notes == ()
    assert write_folding(again.graph)["MVAU_1"]["layer"] == "fc1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"MVAU_1": {"PE": 4}},
            r"layer 'fc1' \(MVAU\): PE=4 does not divide MH=6; valid: 1, 2, 3, 6. Set in folding.json, key \"MVAU_1\".",
        ),
        ({"fc0": {"SIMD": 5}}, r"SIMD=5 does not divide MW=12; .* key \"fc0\""),
        ({"MVAU_0": {"PE": "2"}}, r"PE='2' must be a whole number; valid: 1, 2, 4, 8"),
        ({"MVAU_0": {"PE": True}}, r"PE=True must be a whole number"),
        ({"MVAU_0": {"PE": 2.0}}, r"PE=2.0 must be a whole number"),
        ({"MVAU_0": {"PE": 0}}, r"PE=0 does not divide"),
        (
            {"MVA_hls_1": {"PE": 1}},
            r"key \"MVA_hls_1\": there is no such layer .did you mean .MVAU_1.\?.; layers: .*MVAU_1 \('fc1'\)",
        ),
        ({"MVAU_7": {"PE": 1}}, r"key \"MVAU_7\": there is no such layer"),
        ({"MVAU_0": {"SMID": 2}}, r"unknown setting 'SMID' \(did you mean 'SIMD'\?\)"),
        ({"MVAU_0": {"PE": 1}, "fc0": {"PE": 2}}, r"both fold layer 'fc0'"),
        ({"MVAU_0": {"PE": 1, "layer": "fc1"}}, r"was written for layer 'fc1' but is now 'fc0'"),
        ({"Defaults": {"PE": [5, ["MVAU"]]}}, r"PE=5 does not divide MH=8; .* key \"MVAU_0\""),
        ({"Defaults": {"PE": [2, ["Tresholding"]]}}, r"unknown kind 'Tresholding' \(did you mean 'Thresholding'\?\)"),
        ({"Defaults": {"SMID": 2}}, r"\"Defaults\": unknown setting 'SMID' \(did you mean 'SIMD'\?\)"),
        ({"Defaults": {"PE": [5]}}, r"PE must be a value, \[value, \[kinds\]\] or"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, dict[str, object]], message: str) -> None:
    with pytest.raises(FoldingError, match=message):
        apply_folding(unfolded(), settings)
    with pytest.raises(FoldingError) as error:
        apply_folding(unfolded(), settings, file="mine.json")
    assert "folding.json" not in str(error.value)


def test_defaults_for_layers_that_a_model_lacks_do_nothing() -> None:
    settings = {"Defaults": {"PE": [2, ["StreamingSplit", "SWG_rtl"]], "ram_style": "block", "resType": "lut"}}
    assert foldings(apply_folding(unfolded(), settings).graph) == foldings(apply_folding(unfolded(), {}).graph)
    noted = apply_folding(unfolded(), {"Defaults": {"PE": [2, ["FMPading"]]}}, Reading.FINN).notes
    assert any("FMPading" in note for note in noted)


def test_finn_files_may_say_more() -> None:
    settings = {
        "Defaults": {},
        "Thresholding_rtl_0": {"PE": 4, "runtime_writeable_weights": 0, "depth_trigger_bram": 128},
        "MVAU_hls_0": {"PE": 4, "SIMD": 3, "ram_style": "block", "mem_mode": "internal_decoupled"},
        "MVA_hls_1": {"PE": 2},
        "StreamingFIFO_rtl_0": {"depth": 64},
    }
    with pytest.raises(FoldingError, match="MVA_hls_1"):
        apply_folding(unfolded(), settings)
    applied = apply_folding(unfolded(), settings, Reading.FINN_STANDALONE)
    assert foldings(applied.graph)["fc0"] == {"PE": 4, "SIMD": 3}
    assert sum("there is no such layer" in note for note in applied.notes) == 1
    assert any(
        "depth has no effect; a FIFO is put in, and sized, where one is needed" in note for note in applied.notes
    )
    assert any("""MVA_hls_1": there is no such layer (did you mean 'MVAU_1'?)""" in note for note in applied.notes)
    assert any("mem_mode has no effect" in note for note in applied.notes)


def test_numbers_count_where_the_layer_that_a_file_was_written_for_has_another_name_now() -> None:
    applied = apply_folding(unfolded(), {"MVAU_0": {"PE": 4, "layer": "QX8V1Q"}}, Reading.FINN)
    assert foldings(applied.graph)["fc0"]["PE"] == 4
    assert any("was written for layer 'QX8V1Q' but is now 'fc0'" in note for note in applied.notes)


def test_finn_does_not_count_thresholds_behind_a_matrix_vector_unit() -> None:
    settings = {"Thresholding_rtl_0": {"PE": 3}, "MVAU_hls_0": {"PE": 4, "SIMD": 3}}
    fused = apply_folding(unfolded(), settings, Reading.FINN)
    assert sum("Thresholding_rtl_0" in note for note in fused.notes) == 1
    assert foldings(fused.graph)["act0"] == {"PE": 4}, "it follows the unit that it is a part of in FINN"
    with pytest.raises(FoldingError, match="PE=3"):
        apply_folding(unfolded(), settings, Reading.FINN_STANDALONE)


def pooled() -> Graph:
    """Two convolutions, a max pool between them, and a global average."""
    core = Core()
    x = core.activation(core.conv(core.input((2, 8, 8)), 4, (3, 3), "conv0"), name="act0")
    window = ((2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))
    x = core.graph.add(IntMaxPool(*window), (x,), "pool")
    x = core.activation(core.conv(x, 4, (2, 2), "conv1"), name="act1")
    core.output(core.graph.add(IntSumPool(*window), (x,), "average"))
    return to_hardware(core.graph).graph


def test_windows_of_pools_have_numbers_where_finn_makes_a_pool_of_two_layers() -> None:
    """As in FINN's files for GTSRB: a sliding window and a Pool; as in those for RadioML: a StreamingMaxPool."""
    swgs = {"ConvolutionInputGenerator_rtl_0": {"SIMD": 2}, "ConvolutionInputGenerator_rtl_1": {"SIMD": 4}}
    pools = {**swgs, "Pool_hls_0": {"PE": 4}, "ConvolutionInputGenerator_rtl_2": {"SIMD": 1}, "Pool_hls_1": {"PE": 2}}
    applied = apply_folding(pooled(), pools, Reading.FINN)
    found = foldings(applied.graph)
    assert (found["conv0_swg"]["SIMD"], found["conv1_swg"]["SIMD"]) == (2, 1)
    assert (found["pool"]["PE"], found["average"]["PE"]) == (4, 2)
    assert any("the sliding window of a pool is part of it" in note for note in applied.notes)
    one = {"StreamingMaxPool_hls_0": {"PE": 2}, **swgs, "ConvolutionInputGenerator_rtl_2": {}, "Pool_hls_0": {"PE": 4}}
    found = foldings(apply_folding(pooled(), one, Reading.FINN).graph)
    assert (found["conv0_swg"]["SIMD"], found["conv1_swg"]["SIMD"]) == (2, 4)
    assert (found["pool"]["PE"], found["average"]["PE"]) == (2, 4)


def test_finn_counts_layers_in_cpp_and_in_rtl_apart() -> None:
    all_of_them = {"MVAU_rtl_0": {"PE": 2}, "MVAU_hls_0": {"PE": 3}, "MVAU_rtl_1": {"PE": 4}}
    for reading in (Reading.FINN, Reading.FINN_STANDALONE):
        found = foldings(apply_folding(unfolded(), all_of_them, reading).graph)
        assert [found[name]["PE"] for name in ("fc0", "fc1", "fc2")] == [2, 3, 4]
    some = {"MVAU_rtl_0": {"PE": 2}, "MVAU_hls_0": {"PE": 3}}
    with pytest.raises(FoldingError, match=r'"MVAU_rtl_0" and "MVAU_hls_0" apart.*use their names: fc0, fc1, fc2'):
        apply_folding(unfolded(), some, Reading.FINN)
    with pytest.raises(FoldingError, match="both fold layer 'fc0'"):
        apply_folding(unfolded(), all_of_them)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("FMPadding_Batch_0", "padding is part of the SWG"),
        ("FMPadding_Pixel_0", "zeros of a transposed convolution"),
        ("ChannelwiseOp_hls_0", "part of a Thresholding"),
        ("DownSampler_0", "an SWG leaves pixels out itself"),
        ("ConvDoublePacked_Batch_0", "an SWG and an MVAU"),
        ("IODMA_hls_0", "streams at its ends"),
    ],
)
def test_layers_of_finn_that_are_elsewhere(key: str, says: str) -> None:
    (note,) = apply_folding(unfolded(), {key: {"SIMD": 2}}, Reading.FINN).notes
    assert says in note
    with pytest.raises(FoldingError, match=says):
        apply_folding(unfolded(), {key: {"SIMD": 2}})


def test_defaults_as_finn_writes_them() -> None:
    settings = {
        "Defaults": {"outFIFODepth": [32, "all"], "PE": [2, "MVAU_hls"], "SIMD": [3, ["StreamingFCLayer_Batch"]]}
    }
    found = foldings(apply_folding(unfolded(12, 6, 6), settings).graph)
    assert found["fc0"] == found["fc1"] == {"PE": 2, "SIMD": 3}


@pytest.mark.parametrize(("widest", "allowed"), [(1, 1), (8, 4), (1000, 12)])
def test_weights_of_a_pe_are_bounded(widest: int, allowed: int) -> None:
    graph = unfolded()
    found = layers(solve_folding(graph, fastest_target(graph, widest), widest))
    wide = [layer for layer in found.values() if layer.weight_bits_a_pe]
    assert all(layer.weight_bits_a_pe <= max(widest, layer.weight_bits_a_pe // layer.folding["SIMD"]) for layer in wide)
    assert max(layer.folding["SIMD"] for layer in wide) <= allowed
    assert fastest_target(graph, widest) == max(layer.cycles for layer in found.values())
    with pytest.raises(FoldingError, match=f"mvau_wwidth_max={widest}"):
        solve_folding(graph, fastest_target(graph, widest) - 1, widest)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"MVAU_0": {"PE": 2}, "MVAU_0": {"PE": 4}}', r'folding\.json has the key "MVAU_0" twice'),
        ('{"MVAU_0": {"PE": 2, "PE": 4}}', r'has the key "PE" twice'),
        ("[1]", "must hold an object"),
        ('{"MVAU_0": {}, "MVAU_1": 3}', 'must hold an object .*; key "MVAU_1" holds no settings'),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "folding.json"
    path.write_text(text)
    with pytest.raises(FoldingError, match=message):
        read_folding(path)
    with pytest.raises(FoldingError, match="cannot read"):
        read_folding(tmp_path / "none.json")


def test_settings_without_effect_are_noted_in_the_design() -> None:
    design = to_hardware(mlp())
    scheduled = schedule(design, Settings(folding={"MVAU_0": {"PE": 2, "mem_mode": "external"}}))
    assert scheduled.graph.op("fc0").folding["PE"] == 2
    assert len(scheduled.notes) == 1
    assert "mem_mode has no effect" in scheduled.notes[0]


def test_memories_of_weights() -> None:
    """``ram_style`` chooses the memory of one layer, or of all of a kind, and is written again."""
    settings = {"Defaults": {"ram_style": ["distributed", ["MVAU"]]}, "MVAU_0": {"ram_style": "ultra"}}
    applied = apply_folding(unfolded(), settings)
    found = layers(applied.graph)
    assert (found["fc0"].ram_style, found["fc1"].ram_style, found["act0"].ram_style) == ("ultra", "distributed", "auto")
    assert found["fc0"].resources().uram > 0
    assert write_folding(applied.graph)["MVAU_0"]["ram_style"] == "ultra"
    with pytest.raises(FoldingError, match=r"'fc0' \(MVAU\).*ram_style='blok' is not one of auto.*'block'.*MVAU_0"):
        apply_folding(unfolded(), {"MVAU_0": {"ram_style": "blok"}})


def test_a_rate_and_a_file_together() -> None:
    design = to_hardware(mlp())
    scheduled = schedule(design, Settings(target_fps=200e6 / 24, folding={"fc2": {"PE": 4, "SIMD": 6}}))
    folded = foldings(scheduled.graph)
    assert folded["fc2"] == {"PE": 4, "SIMD": 6}
    assert all(layer.cycles <= 24 for layer in layers(scheduled.graph).values())
    with pytest.raises(FoldingError, match=r"2e\+08 frames a second at 200 MHz are 1 cycles a frame: layer"):
        schedule(to_hardware(_tokens()), Settings(target_fps=200e6))


def _tokens() -> Graph:
    core = Core()
    core.output(core.matmul(core.input((9, 4)), 3, "tokens"))
    return core.graph


def test_styles_of_fifos() -> None:
    """By number, or for all; written so that they can be read again; what there is not is refused."""
    design = to_hardware(mlp())
    settings = {
        "Defaults": {"ram_style": ["distributed", ["StreamingFIFO"]]},
        "StreamingFIFO_rtl_1": {"ram_style": "block"},
    }
    folded = fold_by_file(design, settings)
    assert not folded.notes
    found = fifos(connect(folded).graph)
    styles = {node: fifo.ram_style for node, fifo in found.items()}
    name = list(styles)[1]
    assert styles == {**dict.fromkeys(styles, "distributed"), name: "block"}
    written = write_folding(folded.graph, fifos={**folded.fifos, "FIFO_1": {"ram_style": "block", "layer": name}})
    again = connect(fold_by_file(design, written))
    assert {node: fifo.ram_style for node, fifo in fifos(again.graph).items()} == styles
    with pytest.raises(FoldingError, match=r"ram_style='blok' is not one of auto.*'block'"):
        fold_by_file(design, {"FIFO_1": {"ram_style": "blok"}})
    with pytest.raises(FoldingError, match=r'key "FIFO_99" .* FIFOs, from FIFO_0 on'):
        connect(fold_by_file(design, {"FIFO_99": {"ram_style": "block"}}))
    with pytest.raises(FoldingError, match=f"was written for FIFO 'other' but is now '{name}'"):
        connect(fold_by_file(design, {"FIFO_1": {"ram_style": "block", "layer": "other"}}))


# -- width converters and FIFOs -------------------------------------------------------------------------------------


def test_every_legal_folding_of_a_small_chain_computes_the_same() -> None:
    core = mlp((6, 4, 2))
    design = to_hardware(core)
    feeds = random_frames(core, 4)
    expected = core.run(feeds)["y"]
    found = layers(design.graph)
    for pe, simd, second in itertools.product((1, 2, 4), (1, 2, 3, 6), (1, 2, 4)):
        settings = {"fc0": {"PE": pe, "SIMD": simd}, "fc1": {"SIMD": second}}
        folded = insert_fifos(insert_width_converters(apply_folding(design.graph, settings).graph))
        assert np.array_equal(design.with_graph(folded).run(feeds)["y"], expected)
        converters = [layer for layer in layers(folded).values() if layer.kind == "DWC"]
        assert len(converters) == (pe != second)
    assert set(found) <= set(folded)


def test_words_that_run_over_the_last_axis() -> None:
    core = Core()
    x = core.matmul(core.input((4, 6)), 2, "tokens")  # (4, 2): words of one or two
    x = core.graph.add(Reshape((8,)), (x,))
    core.output(core.matmul(x, 3, "all"))
    design = to_hardware(core.graph)
    feeds = random_frames(core.graph, 3)
    for simd in (1, 2, 4, 8):
        settings = {"tokens": {"PE": 2}, "all": {"SIMD": simd}}
        folded = insert_fifos(insert_width_converters(apply_folding(design.graph, settings).graph))
        assert np.array_equal(design.with_graph(folded).run(feeds)["y"], core.graph.run(feeds)["y"])


def test_performance_names_the_slowest() -> None:
    graph = insert_fifos(insert_width_converters(solve_folding(unfolded(), 50)))
    result = performance(graph)
    assert result.interval == max(layer.cycles for layer in layers(graph).values())
    assert layers(graph)[result.bottleneck].cycles == result.interval
    assert result.fps(200.0) == 200e6 / result.interval
    assert result.latency > result.interval
