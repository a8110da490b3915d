"""FINN's transformations under their names: accepted, and without effect.

They bring a model into the form that FINN's layers have, and keep what it computes. Here the scaled-integer analysis
does that on any topology, so that a step written for FINN works with its imports changed; one warning for each
transformation says that it can be deleted. Those of qonnx are qonnx's own::

    import headrace.build.finn_transformations as absorb
    from headrace.build.finn_transformations import Streamline

    def step_own(model, cfg):
        model = model.transform(Streamline())
        return model.transform(absorb.AbsorbTransposeIntoMultiThreshold())
"""

from __future__ import annotations

import warnings
from typing import Any

from headrace.errors import did_you_mean

_NAMES = """
    ApplyConfig Absorb1BitMulIntoConv Absorb1BitMulIntoMatMul AbsorbAddIntoMultiThreshold AbsorbConsecutiveTransposes
    AbsorbMulIntoMultiThreshold AbsorbScalarMulAddIntoTopK AbsorbSignBiasIntoMultiThreshold AbsorbTransposeIntoFlatten
    AbsorbTransposeIntoMultiThreshold AbsorbTransposeIntoResize AnnotateCycles AnnotateResources CleanUp
    CollapseRepeatedAdd CollapseRepeatedMul CollapseRepeatedOp CompileCppSim ConvertQONNXtoFINN ConvertSignToThres
    CreateDataflowPartition CreateStitchedIP DeriveCharacteristic DeriveFIFOSizes ExternalizeParams
    ExtractMultiThresholdScaleBias ExtractNormScaleBias FactorOutMulSignMagnitude Floorplan GiveUniqueNodeNamesRecursive
    HLSSynthIP InferAddStreamsLayer InferBinaryMatrixVectorActivation InferChannelwiseLinearLayer InferConcatLayer
    InferConvInpGen InferCropFromGather InferDuplicateStreamsLayer InferElementwiseBinaryOperation InferFMPadding
    InferGlobalAccPoolLayer InferLabelSelectLayer InferLayerNorm InferLookupLayer InferPixelPaddingDeconv InferPool
    InferPool_Batch InferQuantSoftmax InferQuantizedMatrixVectorActivation InferRequantLayer InferReshape InferShuffle
    InferSplitLayer InferSqueeze InferStreamingEltwise InferStreamingMaxPool InferThresholdingLayer InferUnsqueeze
    InferUpsample InferVVAU InferVectorVectorActivation InsertAndSetFIFODepths InsertDWC InsertFIFO InsertHook
    InsertIODMA InsertTLastMarker LoopExtraction LoopRolling MakeCPPDriver MakeMaxPoolNHWC MakePYNQDriver
    MakeScaleResizeNHWC MakeZYNQProject MinimizeAccumulatorWidth MinimizeWeightBitWidth MoveAddPastConv MoveAddPastFork
    MoveAddPastJoinConcat MoveAddPastMul MoveFlattenPastAffine MoveFlattenPastTopK MoveIdenticalOpPastJoinConcat
    MoveIdenticalOpPastJoinOp MoveLinearPastEltwiseAdd MoveLinearPastFork MoveLinearPastSqueeze
    MoveMaxPoolPastMultiThreshold MoveMulPastDWConv MoveMulPastFork MoveMulPastJoinAdd MoveMulPastJoinConcat
    MoveMulPastJoinMul MoveMulPastMaxPool MoveOpPastFork MoveScalarAddPastMatMul MoveScalarLinearPastFork
    MoveScalarLinearPastInvariants MoveScalarLinearPastSplit MoveScalarMulPastConv MoveScalarMulPastConvTranspose
    MoveScalarMulPastMatMul MoveSqueezePastMatMul MoveSqueezePastMultiThreshold MoveTransposePastEltwise
    MoveTransposePastFork MoveTransposePastJoinAdd MoveTransposePastJoinConcat MoveTransposePastJoinMul
    MoveTransposePastScalarMul MoveTransposePastSplit PrepareCppSim PrepareIP PrepareRTLSim RaiseScalarToRank1
    RemoveCNVtoFCFlatten RemoveShallowFIFOs ReplaceVerilogRelPaths RoundAndClipThresholds SetExecMode SetFolding
    SpecializeLayers SplitLargeFIFOs Streamline SynthOutOfContext TransposeDecomposition VitisBuild ZynqBuild
"""

NAMES = frozenset(_NAMES.split())
"""Names of FINN's transformations, of all modules and versions."""

INSTEAD = {
    "ApplyConfig": "give the file as 'folding_config_file'",
    "SetFolding": "give 'target_fps', and the step 'step_target_fps_parallelization'",
    "InsertAndSetFIFODepths": "'step_set_fifo_depths' does it",
    "CreateStitchedIP": "'step_create_stitched_ip' does it",
    "MakePYNQDriver": "'step_make_driver' does it",
    "SynthOutOfContext": "`headrace synth OUT` does it, with open tools",
}
"""What to write where one of them does more than to bring a model into form."""

_made: dict[str, type] = {}
_told: set[str] = set()


def __getattr__(name: str) -> type:
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in NAMES:
        raise AttributeError(
            f"FINN has no transformation '{name}' that Headrace knows{did_you_mean(name, NAMES)}; where it keeps what "
            "the model computes, delete it: streamlining, lowering and conversion need no recipe here"
        )
    if name not in _made:
        _made[name] = _without_effect(name)
    return _made[name]


def _without_effect(name: str) -> type:
    from qonnx.transformation.base import Transformation

    class WithoutEffect(Transformation):  # type: ignore[misc]  # qonnx has no types
        """Leaves a model as it is."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__()

        def apply(self, model: Any) -> tuple[Any, bool]:
            if name not in _told:
                _told.add(name)
                instead = INSTEAD.get(name, "it is not needed; delete it")
                warnings.warn(f"{name} of FINN has no effect: {instead}", stacklevel=3)
            return model, False

    WithoutEffect.__name__ = WithoutEffect.__qualname__ = name
    return WithoutEffect
