"""The recipe: everything that makes a run again. Each key has a default but `data.source`. Imports nothing heavy."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass
class SplitConfig:
    """How images without a given split are divided.

    Args:
        val: Share of the images for validation, on which models and thresholds are chosen.
        test: Share of the images for the test, touched once.
        seed: Seed of the division; independent of the training seed, so that seeds share a test set.
        folds: Cross-validation: divide all images, whatever split they bring, into so many folds; 0 turns it off.
        fold: Which of the folds is the test, counted from 0.
    """

    val: float = 0.15
    test: float = 0.2
    seed: int = 0
    folds: int = 0
    fold: int = 0


@dataclass
class ShapesConfig:
    """The drawn data set `shapes`.

    Args:
        n: Number of images.
        size: Side in pixels.
        seed: Seed of the drawings.
        classes: Number of classes, 2 to 6.
        noise: Standard deviation of pixel noise, in parts of the full range.
        label_noise: Share of concept labels that are flipped.
        unknown: Share of concept labels that are hidden.
        invisible: Number of concepts that leave no trace in the image.
        shortcut: Share of training and validation images whose corner mark gives the class away; 0 draws no mark.
        clutter: Number of distractor blobs in the background.
        anywhere: Draw each part by itself, anywhere in the image and at varied scale: position tells nothing.
    """

    n: int = 1200
    size: int = 96
    seed: int = 0
    classes: int = 4
    noise: float = 0.03
    label_noise: float = 0.0
    unknown: float = 0.0
    invisible: int = 0
    shortcut: float = 0.0
    clutter: int = 0
    anywhere: bool = False


@dataclass
class RenameConfig:
    """Other names for the same things, as they stand in the data.

    Args:
        classes: Their class: ours; `null` leaves its images out.
        columns: Our concept group: their column.
        values: Our concept group: {their word: our value}; several of their words may mean one value.
    """

    classes: dict[str, str | None] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class RegionsConfig:
    """Where the object and its parts are in the images, by which maps are judged (`conceptlens localize`).

    Coordinates count from the upper left corner of the upright image. An image that a table or folder does not name has
    no region there. `object` is the whole thing; without one it is all parts together.

    Args:
        boxes: Table with a box a row: `image`, the four `box_columns` and, if there are several, `part`; `own` finds
            these columns in the data's own table.
        box_columns: Left edge, top edge, width and height.
        box_corners: The last two of them are the right and the bottom edge instead.
        points: Table with a point a row: `image`, `part`, `x`, `y` and, if some are hidden, `visible`.
        masks: Folder of mask images, in which bright is inside.
        mask_files: Part: its file in that folder. `{name}` stands for the image's name without folders and suffix,
            `{path}` with its folders; `*` for anything. Several files that fit are united.
        mask_column: Column of the data's own table with the file of the object's mask, instead of `mask_files`.
        mask_columns: Part: the column with its mask, where there are several parts; several files are separated by `;`
            and united.
        units: Coordinates are pixels of the image, or fractions of its sides.
        sizes: Table with `image`, `width` and `height`, where coordinates are pixels of the images at another size.
        join: Our part: theirs that make it up. Masks are united, boxes enclosed, visible points averaged.
        concepts: Concept or group: the part it speaks of, where the concept file's `part` says otherwise.
        crop: Cut every image to the object's box.
    """

    boxes: str | None = None
    box_columns: list[str] = field(default_factory=lambda: ["x", "y", "w", "h"])
    box_corners: bool = False
    points: str | None = None
    masks: str | None = None
    mask_files: dict[str, str] = field(default_factory=lambda: {"object": "{name}.png"})
    mask_column: str | None = None
    mask_columns: dict[str, str] = field(default_factory=dict)
    units: Literal["pixels", "fraction"] = "pixels"
    sizes: str | None = None
    join: dict[str, list[str]] = field(default_factory=dict)
    concepts: dict[str, str] = field(default_factory=dict)
    crop: bool = False


@dataclass
class DataConfig:
    """Where images and labels come from.

    Args:
        source: `blood-cells`, `blood-cells-off-center`, `shapes`, a folder with a folder per class, a CSV, Excel or
            Parquet table, a folder with dataList.npy and labelList.npy, a folder that Hugging Face's `save_to_disk`
            wrote, `hf:OWNER/NAME`, WebDataset or Parquet shards as `train-{000..120}.tar`, `data/*.parquet` or an
            address (https, s3, gs, hf), the name of a registered source, or own code as `file.py:function`.
        kind: Format of the source; `auto` looks.
        images: Folder that a table's image paths start from; the table's own folder if not given.
        image_column: Column with the image's path.
        class_column: Column with the class; for a multi-label task, classes separated by `;`.
        split_column: Column with train, val or test.
        group_column: Column with what must not be split: a patient, a lesion.
        certainty_column: Column with the weight of the row's concept labels, 0 to 1.
        task: One class per image, several, or one on an ordered scale.
        classes: Class names in the order wanted (an ordinal scale needs one); as found if not given.
        rename: Other names for the same things, as they stand in the data.
        npy_channels: Order of the colors in dataList.npy; the published builder writes blue first.
        split: How images without a given split are divided.
        folds: Cross-validation: train and test once for each of so many folds, groups kept together, then one final
            model on all images; 0 turns it off. `data.split.fold` trains a single one of them.
        shapes: Settings of the drawn data set `shapes`.
        regions: Where the object and its parts are, where that is known.
        corrections: A corrections.csv, as the page writes it, whose labels replace those of the data.
        corrections_read: Read only its first so many rows; a run's own recipe says how many it read.
        limit: Use at most so many images per split, chosen with the split's seed; for a first try.
        fit: How an image becomes a square: `squash` keeps all of it, `crop` the center, `pad` adds a border.
        window: Which values of gray with more than 8 bits become black and white: `file`, as a DICOM file says, else as
            `range`, the image's smallest to its largest value; `percentile`, its 1st to its 99th; or two numbers in the
            file's units, such as [-160, 240] for soft tissue in a CT.
        cache_mb: Decoded images are kept in memory if all of them fit in so many megabytes.
        workers: Threads that decode images; the reader's own does it if 0.
        resident: Keep training and validation images on the device as bytes, or stored tokens; `auto`: on a GPU, where
            they take at most a quarter of its free memory.
    """

    source: str
    kind: Literal["auto", "builtin", "folder", "table", "npy", "hf", "shards"] = "auto"
    images: str | None = None
    image_column: str = "image"
    class_column: str = "class"
    split_column: str = "split"
    group_column: str = "group"
    certainty_column: str = "certainty"
    task: Literal["single", "multilabel", "ordinal"] = "single"
    classes: list[str] | None = None
    rename: RenameConfig = field(default_factory=RenameConfig)
    npy_channels: Literal["bgr", "rgb"] = "bgr"
    split: SplitConfig = field(default_factory=SplitConfig)
    folds: int = 0
    shapes: ShapesConfig = field(default_factory=ShapesConfig)
    regions: RegionsConfig = field(default_factory=RegionsConfig)
    corrections: str | None = None
    corrections_read: int | None = None
    limit: int | None = None
    fit: Literal["squash", "crop", "pad"] = "squash"
    window: Literal["file", "range", "percentile"] | tuple[float, float] = "file"
    cache_mb: int = 512
    workers: int = 0
    resident: Literal["auto"] | bool = "auto"


@dataclass
class EncoderConfig:
    """What turns images into tokens and texts into vectors.

    Args:
        name: `builtin/vit`, `builtin/efficientnet-lite0` for photographs, `timm/NAME` for any timm model,
            `transformers/ORGANIZATION/NAME` for a vision model of transformers, `open_clip/NAME/TAG` for a CLIP's image
            tower, the name of a registered encoder, own code as `file.py:function`, or `auto`: of the built-in ones,
            those of plug-ins and timm models in the hub's cache, the best by a linear probe, settled when training
            starts.
        weights: A local .safetensors file to load instead of the published weights.
        pretrained: Start from published weights (downloaded by name) or, if false, from scratch.
        image_size: Side in pixels the images are resized to; the encoder's own if not given.
        layers: Blocks whose tokens are handed on besides the last, counted from 0 (or from the end if negative); `all`:
            every one of the last one's shape, for `builtin/efficientnet-lite0` those of strides 16 and 32; `several`:
            half way and at two thirds of the depth, of a network of stages the last of stride 16.
        final_norm: Take patch tokens after the encoder's final norm, or, if false, before it.
        train: `all`, `none` (frozen), or a number: the last n blocks.
        lora: Rank of low-rank adapters (LoRA): the encoder is frozen, and small matrices beside the linear layers of
            the blocks that `train` names learn instead; 0 turns it off. Needs peft.
        checkpointing: Compute the blocks again for the gradient instead of keeping what they computed: less memory,
            more time, the same result.
        learning_rate: The encoder's own rate; the training's if not given.
        store: Compute what no training changes once: `run` keeps it in the run folder while it trains, a folder keeps
            it for further runs (see `conceptlens encode`). Images are then not augmented.
        text: What reads the concepts' texts: `builtin/text`; `builtin/hashed-text`, which knows words, not meanings;
            `builtin/random-text`, which knows neither; `open_clip/…`, a CLIP's text tower; or `auto`, the image
            encoder's own where it has one.
        options: Further options of the encoder, such as the built-in one's depth.
    """

    name: str = "builtin/vit"
    weights: str | None = None
    pretrained: bool = True
    image_size: int | None = None
    layers: Literal["all", "several"] | list[int] | None = None
    final_norm: bool = False
    train: Literal["all", "none"] | int = "all"
    lora: int = 0
    checkpointing: bool = False
    learning_rate: float | None = None
    store: str | None = None
    text: str = "builtin/text"
    options: dict[str, int | float | bool | str] = field(default_factory=dict)


@dataclass
class AugmentConfig:
    """Random changes of the training images; drawn from the seed and the step, so a resumed run sees the same.

    Args:
        crop: Smallest area of a random resized crop; 1 turns it off.
        flip_horizontal: Mirror half of the images.
        flip_vertical: Turn half of the images upside down.
        rotate: Largest rotation in degrees.
        brightness: Largest relative change of brightness.
        contrast: Largest relative change of contrast.
        saturation: Largest relative change of saturation.
    """

    crop: float = 0.75
    flip_horizontal: bool = True
    flip_vertical: bool = True
    rotate: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0


@dataclass
class LossConfig:
    """The supervised part of Eq. 9; a regularizer brings its own weight.

    Args:
        concept: `bce`, as Eq. 8 (every concept a yes/no), or `group`: cross-entropy within each exclusive group.
        class_weight: Weight of the class loss, Eq. 7.
        concept_weight: Weight of the concept loss, Eq. 8.
        class_balance: `none`, `balanced` (inverse frequency), or one weight per class.
        label_smoothing: Of the class loss.
        own: Weights of registered losses by name (`conceptlens.register_loss`).
    """

    concept: Literal["bce", "group"] = "bce"
    class_weight: float = 1.0
    concept_weight: float = 1.0
    class_balance: Literal["none", "balanced"] | list[float] = "none"
    label_smoothing: float = 0.0
    own: dict[str, float] = field(default_factory=dict)


@dataclass
class StageConfig:
    """One stage of training; empty values are the training's own.

    Args:
        name: For the history.
        epochs: Passes over the training images; `auto` as the training's.
        train: What learns in this stage: `encoder`, `regularizer`, `model` or names of the model's parts.
        learning_rate: The stage's rate.
        kind: `train` by gradients, or `fit`: the method's own solution on all training images at once; the encoder must
            be frozen, and the other keys but the name say nothing.
        class_weight: Weight of the class loss in this stage; 0: the class has no say yet.
        schedule: The stage's schedule of the rate.
    """

    name: str = "main"
    epochs: Literal["auto"] | int | None = None
    train: list[str] = field(default_factory=lambda: ["encoder", "regularizer", "model"])
    learning_rate: float | None = None
    kind: Literal["train", "fit"] = "train"
    class_weight: float | None = None
    schedule: Literal["exponential", "polynomial", "cosine", "constant"] | None = None


@dataclass
class TrainingConfig:
    """The loop.

    Args:
        epochs: Passes over the training images; of each stage, where there are several. `auto`: 30, or as many as make
            1,500 optimizer steps where these are more; settled when training starts.
        batch_size: Images per optimizer step, over all processes and accumulation steps.
        accumulate: Pieces into which a batch is cut where memory is short.
        learning_rate: AdamW's peak rate.
        weight_decay: AdamW's.
        decay: What decays: `matrices` spares norms, biases, queries, codes and positions; `all` as the published code.
        betas: AdamW's.
        schedule: After the warm-up: `exponential` as the paper, `polynomial` as its code, `cosine`, or `constant`.
        schedule_by: Change the rate with every step, or once an epoch as the published code.
        warmup: Epochs of warm-up; with `epochs: auto` at most a tenth of them.
        warmup_shape: `linear`, or `exponential` as the published code.
        final_rate: Rate at the end, relative to the peak; for the exponential and cosine schedules.
        clip: Largest norm of the gradient; 0 turns it off.
        precision: `fp32` or `bf16`.
        compile: Compile the step (forward, loss, backward); `auto`: on a GPU, for a stage of 3,000 steps or more.
        ema: Decay of a moving average of the weights, which is then evaluated and saved; 0 turns it off.
        select: What chooses the model on validation: a metric's path, with a leading `-` if smaller is better. An epoch
            of the last stage is chosen. Between epochs that are equal in a measure of the class, concept AUC decides;
            between others the class's balanced accuracy.
        patience: Validations without improvement after which a stage stops; 0 never stops early. If not given: with
            `epochs: auto` a third of the validations, otherwise 0. The schedule is that of all epochs: a stage that
            stops early ends at a higher rate.
        validate_every: Epochs between validations. If not given: with `epochs: auto` as many as make some 50
            validations, otherwise 1.
        checkpoint_every: Steps between checkpoints besides the one after each validation; 0: none.
        rank_every: Steps between measurements of the patch matrix's rank; 0 turns it off.
        rank_images: Images of the batch on which it is measured.
        loss: The supervised losses.
        augment: Random changes of the training images.
        tensorboard: Also write the history as event files, to `tensorboard` in the run folder.
        stages: Stages, if there is more than one.
        threads: Threads of the CPU; the machine's own number if not given.
    """

    epochs: Literal["auto"] | int = "auto"
    batch_size: int = 32
    accumulate: int = 1
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    decay: Literal["matrices", "all"] = "matrices"
    betas: tuple[float, float] = (0.9, 0.999)
    schedule: Literal["exponential", "polynomial", "cosine", "constant"] = "exponential"
    schedule_by: Literal["step", "epoch"] = "step"
    warmup: float = 5
    warmup_shape: Literal["linear", "exponential"] = "linear"
    final_rate: float = 0.05
    clip: float = 1.0
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: Literal["auto"] | bool = "auto"
    ema: float = 0.0
    select: str = "class.balanced_accuracy"
    patience: int | None = None
    validate_every: int | None = None
    checkpoint_every: int = 0
    rank_every: int = 50
    rank_images: int = 8
    loss: LossConfig = field(default_factory=LossConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    tensorboard: bool = False
    stages: list[StageConfig] = field(default_factory=list)
    threads: int | None = None


@dataclass
class MetricsConfig:
    """What is measured at the end.

    Args:
        bootstrap: Resamples for the intervals; 0 turns them off.
        confidence: Of the intervals.
        rank_images: Images per split on which ranks are measured.
        bins: Of the calibration error.
        own: Registered measures by name (`conceptlens.register_metric`); they are in `metrics.json`, and may choose the
            model as `training.select: own.NAME`.
        test: Measure the test images; without, as in trials that validation chooses among, nothing looks at them.
    """

    bootstrap: int = 1000
    confidence: float = 0.95
    rank_images: int = 128
    bins: int = 15
    own: list[str] = field(default_factory=list)
    test: bool = True


@dataclass
class Recipe:
    """A run. `method` and `regularizer` hold a name and that name's own options.

    Args:
        data: Where images and labels come from.
        concepts: A concept file, or the name of a ready one; built-in data knows its own.
        encoder: What turns images into tokens.
        method: Name and options of the method.
        regularizer: Name and options of the token regularizer; the method's own if not given.
        training: The loop.
        metrics: What is measured at the end.
        seed: Of initialization, order and augmentation.
        out: The run folder; `runs/<data>-<method>-<seed>` if not given.
    """

    data: DataConfig
    concepts: str | None
    encoder: EncoderConfig
    method: dict[str, object]
    regularizer: dict[str, object]
    training: TrainingConfig
    metrics: MetricsConfig
    seed: int
    out: str
