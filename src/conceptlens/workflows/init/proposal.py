"""What is proposed for a folder: the rows of its table, the role of each column, and everything that was assumed."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.data.checks.findings import counted
from conceptlens.data.checks.masks import OBJECT, misfits
from conceptlens.data.images.dicom import SUFFIXES as DICOM
from conceptlens.data.images.dicom import header_words
from conceptlens.data.labels.words import fold, is_missing, yes_no
from conceptlens.data.splits.names import split_of
from conceptlens.workflows.init.columns import (
    MOST_VALUES,
    ColumnRole,
    column_roles,
    group_word,
    marked_class,
    one_spelling,
    slips,
    thing_of,
)
from conceptlens.workflows.init.contents import PATIENT, Contents, Copies, find_copies, patients
from conceptlens.workflows.init.tables import SERIES, ImageTable, read_tables, some

CLASS, SPLIT, COPIES, FOLDER = "class", "split", "same picture", "folder"
FEW = 5  # images at least whose names begin alike, if that is a class
CAMERA = frozenset(
    {"img", "image", "im", "dsc", "dscn", "dscf", "pic", "photo", "scan", "case", "frame", "slice", "pxl"}
)
SMALL = 2000  # images up to which one split is too small to be believed, and folds are cheap
FOLDS, FEWEST_FOLDS = 5, 3
YOU_SAID = "as you said"
LEAST = 50  # images from which a model can be trained and judged
FRAMES = 8  # of a file with several that are used
RARE_PART = 0.1  # of the annotated images at least: a part that hardly any has was marked here and there
DESCRIBED = 0.5  # of the images of a class at least, where those of another class have nothing to describe
IMBALANCE = 3  # times as many images of the largest class as of the smallest

Ask = Callable[[str, str, Sequence[str]], str]  # question, default, what else may be answered → answer


@dataclass
class Proposal:
    """What `init` writes."""

    contents: Contents
    images: tuple[str, ...]
    columns: dict[str, tuple[str, ...]]
    roles: dict[str, ColumnRole]
    assumed: list[str] = field(default_factory=list)
    mask_columns: dict[str, str] = field(default_factory=dict)  # part → column
    finding_parts: dict[str, str] = field(default_factory=dict)  # finding's column → part
    described: str | None = None  # the finding that says whether there is anything to describe
    folds: int = 0
    balanced: bool = False

    def column(self, role: str) -> str | None:
        return next((name for name, found in self.roles.items() if found.role == role), None)

    def named(self, role: str) -> list[str]:
        return [name for name, found in self.roles.items() if found.role == role]

    @property
    def has_concepts(self) -> bool:
        return bool(self.named("concept") or self.named("finding"))

    def add(self, name: str, cells: Sequence[str], role: ColumnRole) -> None:
        self.columns[name], self.roles[name] = tuple(cells), role


def propose(contents: Contents, ask: Ask, *, quiet: bool = True) -> Proposal:
    """Look, decide, and ask where a person may know better."""
    table, said = read_tables(contents)
    proposal = _start(contents, table, said)
    proposal.assumed += said
    _ask_class(proposal, ask)
    _ask_slips(proposal, ask)
    _splits_by_folder(proposal)
    found = find_copies(contents, quiet=quiet)
    _leave_out(proposal, found.unreadable, "that cannot be read")
    _leave_out(proposal, found.blank, "equally bright from edge to edge")
    _attach_masks(proposal, found.alike, ask)
    _leave_out_copies(proposal, found)
    _choose_group(proposal, found.alike, ask)
    _ask_concepts(proposal, ask)
    _balance_and_folds(proposal)
    _spread_frames(proposal)
    return proposal


def _start(contents: Contents, table: ImageTable | None, said: Sequence[str]) -> Proposal:
    if table is None:
        folders = _class_folders(contents.images)
        if folders is None and (words := _class_names(contents.images)) is not None:
            role = ColumnRole(CLASS, "class", tuple(sorted(set(words))), reason="how the files' names begin")
            proposal = Proposal(contents, contents.images, {CLASS: words}, {CLASS: role})
            proposal.assumed.append("An image's name begins with its class; no table and no folders say it.")
            return proposal
        if folders is None:
            there = counted(len(contents.images), "image")
            if contents.masks:
                there += f" and {counted(len(contents.masks), 'mask')} of them"
            raise UserError(
                f"{contents.root}: {there}, but no class of any. Put the images into "
                "a folder for each class, or add a table (CSV, Excel) with a column of image names and one of classes."
                + "".join(f"\n  - {line}" for line in said)
            )
        role = ColumnRole(CLASS, "class", tuple(sorted(set(folders))), reason="the folders")
        proposal = Proposal(contents, contents.images, {CLASS: folders}, {CLASS: role})
        if _patient_folders(contents.images):
            units = ["/".join(_folders_above(image)) for image in contents.images]
            why = "numbered folders within those of the classes"
            proposal.add(FOLDER, units, ColumnRole(FOLDER, "group", reason=why))
            proposal.assumed.append(
                "The folder above the numbered ones is an image's class; no table names the images."
            )
            return proposal
        proposal.assumed.append("The folder of an image is its class; no table names the images.")
        names = {PurePosixPath(image).parent.name: name for image, name in zip(contents.images, folders, strict=True)}
        changed = {name: usual for name, usual in names.items() if name != usual and fold(name) == fold(usual)}
        if changed:
            proposal.assumed.append(_same_words("the folders' names", changed))
        return proposal
    proposal = Proposal(contents, table.images, {}, {})
    spoken = " and ".join(table.sources)
    proposal.assumed.append(f"{spoken}: the column {table.image_column!r} names the image.")
    for name in table.more:
        proposal.assumed.append(
            f"The column {name!r} names other images of the same rows, which are not used. To use them instead, give "
            f"`init` a table without the column {table.image_column!r}."
        )
    if table.unmatched:
        shown = _shown(table.absent, table.unmatched)
        proposal.assumed.append(
            f"{counted(table.unmatched, 'row')} of {spoken} without an image here, left out: {shown}."
        )
    if table.torn:
        shown = _shown([PurePosixPath(image).name for image in table.torn])
        proposal.assumed.append(
            f"Several rows disagree about {counted(len(table.torn), 'image')} ({shown}): "
            f"there nothing is taken from {', '.join(map(repr, table.disputed))}."
        )
    if lone := sorted(set(contents.images) - set(table.images)):
        shown = _shown([PurePosixPath(image).name for image in lone])
        proposal.assumed.append(f"{counted(len(lone), 'image')} without a row in {spoken}, left out: {shown}.")
    folders = _class_folders(table.images)
    columns = dict(table.columns)
    for name in columns:
        columns[name], changed = one_spelling(columns[name])
        if changed:
            proposal.assumed.append(_same_words(repr(name), changed))
    marks, said = marked_class(columns, folders)
    if marks and CLASS not in map(fold, columns):
        why = f"the columns {', '.join(map(repr, marks))}, of which each image has one marked"
        proposal.add(CLASS, said, ColumnRole(CLASS, "class", tuple(sorted(set(said) - {""})), reason=why))
        columns = {name: cells for name, cells in columns.items() if name not in marks}
    for found in column_roles(columns, folders, proposal.columns.get(CLASS)):
        proposal.add(found.name, columns[found.name], found)
    if proposal.column("class") is None and folders is not None:
        proposal.add(CLASS, folders, ColumnRole(CLASS, "class", tuple(sorted(set(folders))), reason="the folders"))
    if table.split is not None and proposal.column("split") is None:
        proposal.add(SPLIT, table.split, ColumnRole(SPLIT, "split", reason="the names of the tables"))
        proposal.assumed.append("The tables' names say which images are for training and which test.")
    return proposal


def _same_words(where: str, changed: Mapping[str, str]) -> str:
    shown = _shown([f"{value} as {usual}" for value, usual in changed.items()])
    return f"In {where} capitals and gaps do not matter: {shown}."


def _shown(names: Sequence[str], count: int = 0) -> str:
    """Some names, and a sign that there are more."""
    return ", ".join(names[:3]) + " …" * (max(count, len(names)) > 3)


def _folders_above(image: str) -> tuple[str, ...]:
    """The folders of an image, without those that say on which side of a split it is."""
    return tuple(part for part in PurePosixPath(image).parts[:-1] if split_of(part) is None)


def _patient_folders(images: Sequence[str]) -> bool:
    """Whether a folder for each patient stands within that of the class: `benign/P012/1.png`.

    Their names differ in a number alone, and they are too many for classes, or stand each within one class.
    """
    folders = {_folders_above(image) for image in images}
    if min(map(len, folders), default=0) < 2:
        return False
    above, names = {fold(each[-2]) for each in folders}, {each[-1] for each in folders}
    numbered = len({re.sub(r"\d+", "", name) for name in names}) == 1 and all(re.search(r"\d", name) for name in names)
    many = len(names) > MOST_VALUES or (len(names) == len(folders) and len(folders) >= 3 * len(above))
    return numbered and many and len(above) > 1


def _class_folders(images: Sequence[str]) -> tuple[str, ...] | None:
    """The folder of each image that may be its class; None if there are not two of them with two images each."""
    parents = [list(_folders_above(image)) for image in images]
    if _patient_folders(images):
        parents = [names[:-1] for names in parents]
    folders, _ = one_spelling([names[-1] if names else "" for names in parents])
    counts = Counter(folders)
    return folders if len(counts) > 1 and "" not in counts and min(counts.values()) > 1 else None


def _class_names(images: Sequence[str]) -> tuple[str, ...] | None:
    """What stands before the number in a file's name, if that may be its class: `benign (12).png`, `cat_003.jpg`."""
    stems = [PurePosixPath(image).stem for image in images]
    found = [re.match(r"[^\W\d_]{2,}(?:[ _-][^\W\d_]{2,})*(?=[\W_]*\d)", stem) for stem in stems]
    words, _ = one_spelling([match.group() if match else "" for match in found])
    counts = Counter(words)
    camera = CAMERA.intersection(fold(word) for word in counts)
    classes = 2 <= len(counts) <= MOST_VALUES and min(counts.values()) >= FEW
    return words if classes and "" not in counts and not camera else None


def _ask_class(proposal: Proposal, ask: Ask) -> None:
    found = proposal.column("class")
    wanted = ask("Which column is the class", found or "", list(proposal.columns))
    name = next((name for name in proposal.columns if fold(name) == fold(wanted)), None)
    if name is None:
        hint = did_you_mean(wanted, proposal.columns) if wanted else _listed(proposal.columns)
        raise UserError(f"{proposal.contents.root}: which column is the class? {hint} Name it: --class-column COLUMN.")
    if name != found:
        if found:
            proposal.roles[found] = ColumnRole(found, "metadata")
        values = tuple(sorted({cell for cell in proposal.columns[name] if not is_missing(cell)}))
        proposal.roles[name] = ColumnRole(name, "class", values, reason=YOU_SAID)
    role = proposal.roles[name]
    counts = Counter(cell for cell in proposal.columns[name] if not is_missing(cell))
    shown = ", ".join(f"{value} ({count:,})" for value, count in counts.most_common(8))
    why = role.reason if role.reason == YOU_SAID else f"by {role.reason}"
    proposal.assumed.append(f"The class is {name!r}, {why}: {shown}{' …' * (len(counts) > 8)}.")


def _ask_slips(proposal: Proposal, ask: Ask) -> None:
    """A rare value that is spelled almost like a usual one: a person may know that they are the same."""
    for name in [*proposal.named("class"), *proposal.named("concept")]:
        counts = Counter(proposal.columns[name])
        for rare, usual in slips(proposal.columns[name]):
            both = f"{rare!r} ({counts[rare]:,})", f"{usual!r} ({counts[usual]:,})"
            if yes_no(ask(f"In {name!r}, is {both[0]} the same as {both[1]}", "no", ("yes", "no"))):
                proposal.columns[name] = tuple(usual if cell == rare else cell for cell in proposal.columns[name])
                role = proposal.roles[name]
                proposal.roles[name] = replace(role, values=tuple(value for value in role.values if value != rare))
                proposal.assumed.append(f"In {name!r} {both[0]} is the same as {both[1]}, {YOU_SAID}.")
            else:
                proposal.assumed.append(
                    f"In {name!r} {both[0]} is spelled almost like {both[1]} and counts as another value. If it is the "
                    "same, correct the table and run this again with --overwrite."
                )


def _listed(names: Collection[str]) -> str:
    return f"Columns: {', '.join(list(names)[:12])}{f' and {len(names) - 12} more' * (len(names) > 12)}."


def _leave_out(proposal: Proposal, useless: Collection[str], why: str) -> None:
    known = set(useless)
    names = [image for image in proposal.images if image in known]
    if names:
        shown = _shown([PurePosixPath(image).name for image in names])
        proposal.assumed.append(f"{counted(len(names), 'image')} {why}, left out: {shown}.")
        _keep(proposal, [row for row, image in enumerate(proposal.images) if image not in known])


def _keep(proposal: Proposal, rows: Sequence[int]) -> None:
    proposal.images = tuple(proposal.images[row] for row in rows)
    proposal.columns = {name: tuple(cells[row] for row in rows) for name, cells in proposal.columns.items()}


def _splits_by_folder(proposal: Proposal) -> None:
    if proposal.column("split") is not None:
        return
    sides = [next((s for part in PurePosixPath(i).parts[:-1] if (s := split_of(part))), "") for i in proposal.images]
    if all(sides) and "train" in sides and len(set(sides)) > 1:
        proposal.add(SPLIT, sides, ColumnRole(SPLIT, "split", reason="folders called train, val or test"))
        proposal.assumed.append("Folders say which images are for training and which test.")


def _attach_masks(proposal: Proposal, sets: Sequence[tuple[str, ...]], ask: Ask) -> None:
    """A column of mask files for each part; parts that some annotated images have and others lack become findings."""
    root, masks = proposal.contents.root, proposal.contents.masks
    if other := misfits((root / mask.file, root / mask.image) for mask in masks if mask.image):
        shown = _shown([file.name for file in other])
        told = f"{counted(len(other), 'mask')} of other proportions than the image, left out: {shown}."
        proposal.assumed.append(told)
        masks = tuple(mask for mask in masks if root / mask.file not in other)
    if not masks:
        return
    rows = {image: row for row, image in enumerate(proposal.images)}
    copy_of = {member: next((m for m in members if m in rows), None) for members in sets for member in members}
    cells: dict[str, list[list[str]]] = {}
    lost, moved = 0, 0
    for mask in masks:
        image = mask.image if mask.image in rows else copy_of.get(mask.image or "")
        if image is None:
            lost += 1
            continue
        moved += image != mask.image
        cells.setdefault(mask.part, [[] for _ in proposal.images])[rows[image]].append(mask.file)
    if not cells:
        proposal.assumed.append(f"{counted(lost, 'mask')} belong to no image that has a class; they are not used.")
        return
    proposal.assumed.append(
        f"{counted(len(masks) - lost, 'file')} are masks ({', '.join(sorted(cells))}), not images: they are regions, "
        "by which maps are judged." + f" Of no image that has a class: {lost:,} more." * bool(lost)
    )
    if moved:
        proposal.assumed.append(f"{moved:,} of these masks belong to a nearly equal copy of their image.")
    annotated = [any(cells[part][row] for part in cells) for row in range(len(proposal.images))]
    for part in sorted(cells):
        column = f"mask: {part}"
        proposal.add(column, [";".join(files) for files in cells[part]], ColumnRole(column, "metadata", reason="masks"))
        proposal.mask_columns[part] = column
    varied = [
        part
        for part in sorted(cells)
        if part != OBJECT and RARE_PART * sum(annotated) <= sum(map(bool, cells[part])) < sum(annotated)
    ]
    question = f"Is a part without a mask absent from an image that has other masks ({', '.join(varied)})"
    if varied and yes_no(ask(question, "yes", ("yes", "no"))):
        for part in varied:
            answers = [("yes" if cells[part][row] else "no") if known else "" for row, known in enumerate(annotated)]
            proposal.add(part, answers, ColumnRole(part, "finding", ("no", "yes")))
            proposal.finding_parts[part] = part
        proposal.assumed.append(
            f"{counted(sum(annotated), 'image')} have masks: a part without one is absent there ({', '.join(varied)})."
        )


def _leave_out_copies(proposal: Proposal, copies: Copies) -> None:
    """Equal pictures with different classes teach nothing; of a picture on both sides of a split, the test keeps it."""
    rows = {image: row for row, image in enumerate(proposal.images)}
    name, side = proposal.column("class"), proposal.column("split")
    assert name is not None
    quarrel: set[int] = set()
    for members in copies.equal:
        known = [rows[member] for member in members if member in rows]
        if len({proposal.columns[name][row] for row in known}) > 1:
            quarrel.update(known)
    if quarrel:
        proposal.assumed.append(
            f"{counted(len(quarrel), 'image')} are left out: equal pictures with different classes, such as "
            f"{' and '.join(PurePosixPath(proposal.images[row]).name for row in sorted(quarrel)[:2])}."
        )
    torn: set[int] = set()
    for members in copies.alike if side else ():
        known = [rows[member] for member in members if member in rows and rows[member] not in quarrel]
        if len({proposal.columns[side or ""][row] for row in known}) > 1:
            torn.update(row for row in known if split_of(proposal.columns[side or ""][row]) != "test")
    if torn:
        proposal.assumed.append(f"{counted(len(torn), 'training image')} are left out: the test has the same picture.")
    _keep(proposal, [row for row in range(len(proposal.images)) if row not in quarrel | torn])


def _choose_group(proposal: Proposal, sets: Sequence[tuple[str, ...]], ask: Ask) -> None:
    """The column that says which images belong together: a table's, DICOM headers', or copies of a picture."""
    rows = {image: row for row, image in enumerate(proposal.images)}
    named = proposal.column("group")
    if (named is None or thing_of(named) != {PATIENT}) and (known := patients(proposal.contents)):
        cells = [known.get(image, "") for image in proposal.images]
        units = proposal.images if named is None else proposal.columns[named]
        # Not if all are called anonymous; and a series may be only one of several of its patient.
        if FEWEST_FOLDS <= len(set(cells)) < len(set(units)) and (named is None or all(cells)):
            if named is not None:
                proposal.roles[named] = ColumnRole(named, "metadata")
            proposal.add(PATIENT, cells, ColumnRole(PATIENT, "group", reason="the headers of DICOM files"))
    together = [[rows[member] for member in members if member in rows] for members in sets]
    together = [members for members in together if len(members) > 1]
    if proposal.column("group") is None and together:
        cells = [""] * len(proposal.images)
        for number, members in enumerate(together, start=1):
            for row in members:
                cells[row] = f"picture {number}"
        proposal.add(COPIES, cells, ColumnRole(COPIES, "group", reason="nearly equal images"))
    found = proposal.column("group")
    wanted = ask(
        "Which column says what belongs together (patient, lesion, eye)", found or "none", [*proposal.columns, "none"]
    )
    name = next((name for name in proposal.columns if fold(name) == fold(wanted)), None)
    if name is None and fold(wanted) != "none":  # `none` by a slip would put a patient on both sides of a split
        raise UserError(
            f"{proposal.contents.root}: what belongs together? {did_you_mean(wanted, [*proposal.columns, 'none'])} "
            "Name it: --group-column COLUMN."
        )
    if name != found and found:
        proposal.roles[found] = ColumnRole(found, "metadata")
    if name is None:
        masks = proposal.mask_columns.values()
        names = [name for name, cells in proposal.columns.items() if name not in masks and group_word(name, cells)]
        different = [name for name in names if len(set(proposal.columns[name])) == len(proposal.images)]
        why = "no column names a patient or a lesion"
        if found:
            why = YOU_SAID
        elif different:
            why = f"no two have the same {' or '.join(map(repr, different))}"
        proposal.assumed.append(
            f"Every image stands alone: {why}. If several images are of one patient, "
            "add a column and set data.group_column, or the test is too easy."
        )
        return
    reason = proposal.roles[name].reason if name == found else YOU_SAID
    role = proposal.roles[name] = ColumnRole(name, "group", reason=reason)
    if name == COPIES:
        proposal.assumed.append(
            f"{counted(sum(map(len, together)), 'image')} are nearly equal to another one and stay on one side of "
            f"every split (column {COPIES!r}). A column of patients would be better."
        )
    else:
        count = len({cell for cell in proposal.columns[name] if not is_missing(cell)})
        why = role.reason if role.reason == YOU_SAID else f"by {role.reason}"
        proposal.assumed.append(
            f"What belongs together is {name!r} ({count:,} of them), {why}: never on two sides of a split."
        )


def _spread_frames(proposal: Proposal) -> None:
    """A row for each of some frames of a DICOM file that has several; they belong together."""
    root, rows, names = proposal.contents.root, [], []
    spread = 0
    for row, image in enumerate(proposal.images):
        words = header_words(root / image, ("NumberOfFrames",)) if image.lower().endswith(DICOM) else {}
        frames = int(words.get("NumberOfFrames", "1"))
        chosen = [f"{image}#{frame}" for frame in range(1, frames + 1)] if frames > 1 else [image]
        spread += frames > 1
        for name in some(chosen, FRAMES):
            rows.append(row)
            names.append(name)
    if not spread:
        return
    whole = proposal.images
    _keep(proposal, rows)
    proposal.images = tuple(names)
    if proposal.column("group") is None:
        proposal.add(SERIES, [whole[row] for row in rows], ColumnRole(SERIES, "group", reason="the frames of a file"))
    proposal.assumed.append(
        f"{counted(spread, 'file')} hold several frames: at most {FRAMES} of each are used, as images of their own."
    )


def _ask_concepts(proposal: Proposal, ask: Ask) -> None:
    marked = [name for name in proposal.named("finding") if proposal.roles[name].marked]
    if marked:
        shown = ", ".join(map(repr, marked))
        answer = yes_no(ask(f"Columns with a mark or a blank ({shown}): does a blank mean no", "yes", ("yes", "no")))
        for name in marked:
            blank = "no" if answer else ""
            proposal.columns[name] = tuple(blank if is_missing(cell) else "yes" for cell in proposal.columns[name])
            if not answer:  # what nobody said no to cannot be learned
                proposal.roles[name] = ColumnRole(name, "metadata", reason="only marks, and blanks that say nothing")
        meaning = "a no" if answer else "unknown, so they are not concepts"
        proposal.assumed.append(f"In {shown} a mark means yes; a blank is {meaning}.")
    if notes := [n for n in proposal.named("metadata") if n not in proposal.mask_columns.values()]:
        proposal.assumed.append(f"Not concepts, kept to compare subgroups: {', '.join(notes)}.")
    concepts = [*proposal.named("concept"), *proposal.named("finding")]
    if not concepts:
        proposal.assumed.append("No column describes what can be seen: there are no concept labels yet.")
        return
    dropped = ask("Which concepts are not visible in the images", "none", concepts)
    for name in (part.strip() for part in dropped.split(",")):
        match = next((concept for concept in concepts if fold(concept) == fold(name)), None)
        if match:
            proposal.roles[match] = ColumnRole(match, "metadata", reason=YOU_SAID)
    _ask_described(proposal, ask)
    for name in proposal.named("concept"):
        values = proposal.roles[name].values
        proposal.assumed.append(f"{name!r} is a concept with one of {len(values)} values: {', '.join(values)}.")
    if findings := proposal.named("finding"):
        proposal.assumed.append(f"Yes or no in each image: {', '.join(findings)}.")


def _ask_described(proposal: Proposal, ask: Ask) -> None:
    """Of a class whose images nobody described, as `normal`, there may be nothing to describe: a concept of its own."""
    class_column, concepts = proposal.column("class"), proposal.named("concept")
    assert class_column is not None
    known = [
        any(not is_missing(proposal.columns[name][row]) for name in concepts) for row in range(len(proposal.images))
    ]
    shares: dict[str, list[bool]] = {}
    for name, said in zip(proposal.columns[class_column], known, strict=True):
        if not is_missing(name):
            shares.setdefault(name, []).append(said)
    empty = sorted(name for name, said in shares.items() if not any(said))
    rest = [said for name, said in shares.items() if name not in empty]
    column = OBJECT
    if not empty or not rest or proposal.named("finding") or column in proposal.columns:
        return
    if min(sum(said) / len(said) for said in rest) < DESCRIBED:
        return  # images were left out elsewhere, too
    question = f"No image of {', '.join(map(repr, empty))} is described: is there nothing to describe in them"
    if not yes_no(ask(question, "yes", ("yes", "no"))):
        return
    cells = [
        "yes" if said else "no" if name in empty else ""
        for name, said in zip(proposal.columns[class_column], known, strict=True)
    ]
    proposal.add(column, cells, ColumnRole(column, "finding", ("no", "yes")))
    proposal.described = column
    proposal.assumed.append(
        f"No image of {', '.join(map(repr, empty))} is described: there is nothing to describe in them. This is a "
        f"concept of its own ({column!r}), and the others speak only of images that have it. Give it a better name."
    )


def _smallest_class_units(proposal: Proposal, class_column: str) -> int:
    """Of how many groups, or images that stand alone, the smallest class is: no more folds can each have it.

    A class that is too small for the fewest folds does not count: fewer would not help it and harm the others.
    """
    group = proposal.columns.get(proposal.column("group") or "", ("",) * len(proposal.images))
    units: dict[str, set[str]] = {}
    for image, unit, name in zip(proposal.images, group, proposal.columns[class_column], strict=True):
        if not is_missing(name):
            units.setdefault(name, set()).add(unit or image)
    sizes = [len(its) for its in units.values()]
    return min((size for size in sizes if size >= FEWEST_FOLDS), default=2)


def _balance_and_folds(proposal: Proposal) -> None:
    name = proposal.column("class")
    assert name is not None
    counts = Counter(cell for cell in proposal.columns[name] if not is_missing(cell))
    n = sum(counts.values())
    if not n:
        said = "".join(f"\n  - {line}" for line in proposal.assumed)
        raise UserError(f"{proposal.contents.root}: no image with a class is left:{said}")
    if max(counts.values()) >= IMBALANCE * min(counts.values()):
        proposal.balanced = True
        proposal.assumed.append("Classes differ much in size: each counts the same in the loss.")
    if n < LEAST:
        proposal.assumed.append(f"{counted(n, 'image')} are few: from about {LEAST} on a result means something.")
    if n <= SMALL and proposal.column("split") is None:
        proposal.folds = min(FOLDS, _smallest_class_units(proposal, name))
        proposal.assumed.append(
            f"{counted(n, 'image')} are few for one test set: {proposal.folds} folds test each image once."
        )
