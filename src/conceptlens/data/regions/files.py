"""Where things are, from the files that a recipe's `data.regions` names: boxes and points in tables, mask images."""

from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError, did_you_mean, unknown_name
from conceptlens.data.dataset import Annotation, DataSource
from conceptlens.data.images.framing import Box, enclosing_box
from conceptlens.data.images.read import open_image
from conceptlens.data.labels.words import LIST_SEPARATOR, fold, is_missing
from conceptlens.data.regions.tables import OBJECT, ImageNames, Row, read_rows
from conceptlens.recipes.schema import RegionsConfig

Mask = npt.NDArray[np.bool_]
OWN = "own"
BEYOND = 0.05  # of a side: a point so little outside, a slip of the hand, is moved to the edge
ASPECT = 0.02  # a mask's proportions may differ from the image's by so much, as rounding of small sizes makes them


def region_files(config: RegionsConfig, source: DataSource, *, table: str) -> "RegionFiles | None":
    """The places that the files hold; None where the recipe names none.

    Args:
        config: The recipe's `data.regions`.
        source: The images.
        table: The data's own table, for messages.
    """
    given = config.boxes or config.points or config.masks or config.mask_column or config.mask_columns
    if given and source.region_names:
        raise UserError(f"data.regions: {source.name} knows its own regions. Leave boxes, points and masks out.")
    if not given and (config.join or config.sizes):
        raise UserError("data.regions: `join` and `sizes` speak of boxes, points or masks, but none are given.")
    return RegionFiles(config, source, table) if given else None


class RegionFiles:
    """Boxes, points and masks of the images of a source, checked against each image when it is asked for.

    Attributes:
        names: Every part that is known in some image, after joining.
        masks: The mask files of each image, by its position and by part.
    """

    def __init__(self, config: RegionsConfig, source: DataSource, table: str) -> None:
        if len(config.box_columns) != 4:
            raise UserError(f"data.regions.box_columns: expected four columns, found {config.box_columns}.")
        self._config, self._source, self._table = config, source, table
        images = ImageNames(source.examples.ids)
        self._points = read_rows(_path(config.points), "points", ("x", "y"), images) if config.points else {}
        self._boxes: dict[int, list[Row]] = {}
        if config.boxes == OWN:
            self._boxes = self._own_boxes()
        elif config.boxes:
            self._boxes = read_rows(_path(config.boxes), "boxes", config.box_columns, images)
        self._sizes = read_rows(_path(config.sizes), "sizes", ("width", "height"), images) if config.sizes else {}
        self.masks = self._find_masks()
        theirs = {row.part for rows in (*self._points.values(), *self._boxes.values()) for row in rows}
        theirs |= {part for files in self.masks.values() for part in files}
        for part, members in config.join.items():
            for member in members:
                if member not in theirs:
                    raise UserError(f"data.regions.join: {part}: {unknown_name('part', member, theirs)}")
        joined = {member for members in config.join.values() for member in members}
        self.names = tuple(sorted((theirs - joined) | set(config.join)))

    def annotation(self, index: int) -> Annotation | None:
        """Where things are in one image; None where nothing is said of it.

        Raises:
            UserError: A point or a box lies outside of the image, or a mask has other proportions.
        """
        boxes, points, masks = self._boxes.get(index, []), self._points.get(index, []), self.masks.get(index, {})
        if not (boxes or points or masks):
            return None
        size = self._source.read(index).size
        found = Annotation(
            keypoints={row.part: self._point(row, index, size) for row in points if row.values},
            masks={part: mask for part, files in masks.items() if (mask := _read_masks(files, size)).any()},
            boxes={row.part: self._box(row, index, size) for row in boxes if row.values},
            size=size,
        )
        return self._joined(found)

    def _factor(self, index: int, size: tuple[int, int]) -> tuple[float, float]:
        """Pixels of the image for a unit of the coordinates."""
        if self._config.units == "fraction":
            return float(size[0]), float(size[1])
        if not self._config.sizes:
            return 1.0, 1.0
        name = self._source.examples.ids[index]
        if index not in self._sizes:
            raise UserError(f"{self._config.sizes}: there is no size of {name!r}, whose regions are given.")
        width, height = self._sizes[index][0].values or (0.0, 0.0)
        if width < 1 or height < 1:
            raise UserError(f"{self._sizes[index][0].number}: expected a width and a height of 1 or more.")
        if abs(width * size[1] / height / size[0] - 1) > ASPECT:
            raise UserError(
                f"{self._sizes[index][0].number}: {width:g} × {height:g} has other proportions than {name!r}, which is "
                f"{size[0]} × {size[1]}."
            )
        return size[0] / width, size[1] / height

    def _point(self, row: Row, index: int, size: tuple[int, int]) -> tuple[float, float]:
        factor = self._factor(index, size)
        x, y = row.values[0] * factor[0], row.values[1] * factor[1]
        if max(-x / size[0], x / size[0] - 1, -y / size[1], y / size[1] - 1) > BEYOND:
            raise UserError(
                f"{row.number}: the point of {row.part!r} at ({row.values[0]:g}, {row.values[1]:g}) lies outside of "
                f"{self._source.examples.ids[index]!r}, which is {size[0]} × {size[1]}. {_SCALE}"
            )
        return min(max(x, 0.0), float(size[0])), min(max(y, 0.0), float(size[1]))

    def _box(self, row: Row, index: int, size: tuple[int, int]) -> Box:
        """The box in pixels, cut at the image's edge."""
        factor = self._factor(index, size)
        left, top, third, fourth = row.values
        right, bottom = (third, fourth) if self._config.box_corners else (left + third, top + fourth)
        if right <= left or bottom <= top:
            raise UserError(
                f"{row.number}: the box {', '.join(f'{value:g}' for value in row.values)} has no area. "
                "data.regions.box_corners says whether width and height or the far corner is given."
            )
        x0, x1 = np.clip([left * factor[0], right * factor[0]], 0, size[0]).tolist()
        y0, y1 = np.clip([top * factor[1], bottom * factor[1]], 0, size[1]).tolist()
        if x1 <= x0 or y1 <= y0:
            raise UserError(
                f"{row.number}: the box {', '.join(f'{value:g}' for value in row.values)} lies outside of "
                f"{self._source.examples.ids[index]!r}, which is {size[0]} × {size[1]}. {_SCALE}"
            )
        return x0, y0, x1, y1

    def _own_boxes(self) -> dict[int, list[Row]]:
        columns = [self._own_column(name, "box_columns") for name in self._config.box_columns]
        found: dict[int, list[Row]] = {}
        for index, cells in enumerate(zip(*columns, strict=True)):
            if all(is_missing(cell) for cell in cells):
                continue
            place = f"{self._table}: {self._source.examples.ids[index]!r}"
            try:
                values = tuple(float(cell) for cell in cells)
            except ValueError:
                raise UserError(f"{place}: expected a box of four numbers, found {list(cells)}.") from None
            if not np.isfinite(values).all():
                raise UserError(f"{place}: expected a box of four numbers, found {list(cells)}.")
            found[index] = [Row(OBJECT, values, place)]
        return found

    def _own_column(self, name: str, key: str) -> tuple[str, ...]:
        metadata: Mapping[str, tuple[str, ...]] = self._source.examples.metadata
        fitting = [column for column in metadata if fold(column) == fold(name)]
        if not fitting:
            hint = did_you_mean(name, metadata)
            raise UserError(f"{self._table}: data.regions.{key}: there is no column {name!r}. {hint}")
        return metadata[name if name in fitting else fitting[0]]

    def _find_masks(self) -> dict[int, dict[str, list[Path]]]:
        """The mask files of each image, several of one part to be united; a part without a file is not known there."""
        config = self._config
        columns = ({OBJECT: config.mask_column} if config.mask_column else {}) | config.mask_columns
        if not (config.masks or columns):
            return {}
        folder = _path(config.masks) if config.masks else Path(self._table).parent
        if not folder.is_dir():
            raise UserError(f"data.regions.masks: expected a folder of mask images, found none at {folder}.")
        found: dict[int, dict[str, list[Path]]] = {}
        for part, column in columns.items():
            for index, cell in enumerate(self._own_column(column, "mask_columns")):
                for name in () if is_missing(cell) else cell.split(LIST_SEPARATOR):
                    file = folder / name.strip()
                    if not file.is_file():
                        raise UserError(f"{self._table}: {file}: no such mask. Paths start at {folder}.")
                    found.setdefault(index, {}).setdefault(part, []).append(file)
        if columns:
            return found
        for part, pattern in config.mask_files.items():
            if "{name}" not in pattern and "{path}" not in pattern:
                raise UserError(
                    f"data.regions.mask_files: {part}: expected {{name}} in the file's name, as in "
                    f"'{{name}}_mask.png', found {pattern!r}."
                )
            fitting = {
                index: files
                for index, image in enumerate(self._source.examples.ids)
                if (files := _mask_files(folder, pattern, image))
            }
            if not fitting:
                first = PurePosixPath(self._source.examples.ids[0])
                looked = folder / pattern.replace("{name}", first.stem).replace("{path}", str(first.with_suffix("")))
                raise UserError(
                    f"data.regions.mask_files: {part}: no image has such a mask; of {str(first)!r} it would be "
                    f"{looked}. Say how masks are called, as {{{part}: '{{name}}_*.png'}}; `conceptlens init` finds it."
                )
            for index, files in fitting.items():
                found.setdefault(index, {})[part] = files
        return found

    def _joined(self, found: Annotation) -> Annotation:
        keypoints, masks, boxes = dict(found.keypoints), dict(found.masks), dict(found.boxes)
        for part, members in self._config.join.items():
            points = [found.keypoints[member] for member in members if member in found.keypoints]
            covers = [found.masks[member] for member in members if member in found.masks]
            edges = [found.boxes[member] for member in members if member in found.boxes]
            for known in (keypoints, masks, boxes):
                for member in members:
                    known.pop(member, None)
            if points:
                x, y = np.mean(points, axis=0).tolist()
                keypoints[part] = (x, y)
            if covers:
                masks[part] = np.logical_or.reduce(covers)
            if edges:
                boxes[part] = enclosing_box(edges)
        return Annotation(keypoints, masks, boxes, found.size)


_SCALE = "If coordinates belong to the images at another size, name it in data.regions.sizes, or set units: fraction."


def _path(name: str) -> Path:
    return Path(name).expanduser()


def _mask_files(folder: Path, pattern: str, name: str) -> list[Path]:
    """The files of an image's mask, all that the pattern fits."""
    path = PurePosixPath(name)
    filled = pattern.replace("{name}", escape(path.stem)).replace("{path}", escape(str(path.with_suffix(""))))
    if "*" not in pattern:
        plain = folder / pattern.replace("{name}", path.stem).replace("{path}", str(path.with_suffix("")))
        return [plain] if plain.is_file() else []
    return sorted(folder.glob(filled))


def _read_masks(files: Sequence[Path], size: tuple[int, int]) -> Mask:
    """What any of the masks covers, (H, W)."""
    union: Mask = np.logical_or.reduce([_read_mask(file, size) for file in files])
    return union


def _read_mask(file: Path, size: tuple[int, int]) -> Mask:
    """The mask (H, W) at the image's size: what is brighter than half of its brightest pixel."""
    image = open_image(file, name=str(file))
    if abs(image.size[0] * size[1] / image.size[1] / size[0] - 1) > ASPECT:
        raise UserError(
            f"{file}: a mask of {image.size[0]} × {image.size[1]} pixels, but its image has {size[0]} × {size[1]}; "
            "both must have the same proportions."
        )
    values = np.asarray(image).max(axis=2)
    mask: Mask = values > values.max() / 2
    if image.size != size:  # the nearest of its pixels for each of the image's
        rows = (np.arange(size[1]) + 0.5) * mask.shape[0] / size[1]
        columns = (np.arange(size[0]) + 0.5) * mask.shape[1] / size[0]
        mask = mask[rows.astype(int)[:, None], columns.astype(int)[None, :]]
    return mask
