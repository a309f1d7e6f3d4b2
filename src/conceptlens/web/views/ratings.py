"""Answers of raters to a study, in `responses/` of its pack: one file a rater, which nobody else can write.

Who begins under a code that is free gets a word; the file of that code is written only for who brings the word. The
word itself is not kept, only what proves it. Answers are checked against what the page asks, not against the key. A
client takes a few codes an hour, so that nobody takes those of the others.
"""

import hashlib
import hmac
import os
import secrets
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.web.schemas.study import Begun, KeepRequest, Kept, RaterPart
from conceptlens.web.server.client_limit import Allowance
from conceptlens.web.server.problems import Problem, bad
from conceptlens.web.views.studies import Pack, Questions
from conceptlens.workflows.study.analyze import ANALYSIS, Analysis, analyze_study
from conceptlens.workflows.study.make import KEY
from conceptlens.workflows.study.responses import FOLDER, LARGEST, Answered, Responses

MOST = 200  # raters of a study
CODES = 10  # that a client may take of a study within an hour: several raters may share a computer
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another
_writing = threading.Lock()


@dataclass(frozen=True)
class Ratings:
    """The answers to one pack."""

    pack: Pack
    questions: Questions

    def begin(self, rater: str, word: str | None, client: str, codes: Allowance) -> Begun:
        """Give a word to who takes a free code, or their answers to who brings the word of a taken one.

        Args:
            rater: The code.
            word: What was given with it, if it is taken.
            client: Who asks.
            codes: How many codes each client may take.
        """
        word = word.strip().lower() if word else None
        with _writing:
            self._check_open()
            claim, before = self._claim(rater), self._read(rater)
            if claim is None and before is None:
                if codes.left(self.questions.study, client) <= 0:
                    said = f"{CODES} codes were taken from your address within an hour. Try again later."
                    raise Problem(429, "busy", said, wait=600)
                word = "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3))
                self._take(rater, word)
                codes.take(self.questions.study, client)
            elif not word or claim is None or not hmac.compare_digest(claim, _proof(word)):
                raise Problem(
                    409,
                    "taken",
                    f"The code {rater!r} is taken. If it is yours, enter the word you were given when you began; else "
                    "choose another code.",
                )
        return Begun(
            rater=rater,
            word=word,
            answers=before.answers if before else {},
            comment=before.comment if before else "",
            started=before.started if before else "",
        )

    def keep(self, rater: str, given: KeepRequest) -> Kept:
        """Write a rater's file: what is on it, and what is given over it. No answer is ever taken out."""
        self._check_answers(given)
        with _writing:
            self._check_open()
            claim = self._claim(rater)
            if claim is None or not hmac.compare_digest(claim, _proof(given.word)):
                raise Problem(403, "forbidden", f"This is not the word that was given for the code {rater!r}.")
            before = self._read(rater)
            answers: dict[str, Answered] = {**(before.answers if before else {}), **given.answers}
            found = Responses(
                study=self.questions.study,
                rater=rater,
                started=given.started,
                saved=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                complete=len(answers) == len(self.questions.answers),
                comment=given.comment,
                order=given.order,
                answers=answers,
            )
            try:
                found.write(self._file(rater))
            except OSError as error:
                raise self._unwritable(error) from None
        return Kept(answered=len(answers), of=len(self.questions.answers), complete=found.complete, saved=found.saved)

    def raters(self) -> list[RaterPart]:
        """How far everybody is."""
        folder, start = self._folder(), f"responses-{self.questions.study}-"
        here = {path.name.removeprefix(start).removesuffix(".claim") for path in folder.glob(f"{start}*.claim")}
        sent = {path.name.removeprefix(start).removesuffix(".json") for path in folder.glob(f"{start}*.json")}
        return [self._progress(rater, rater in here) for rater in sorted(here | sent)]

    def analysis(self) -> Analysis | None:
        """The result, where the study is closed: it has been analyzed."""
        path = self.pack.entry.file(ANALYSIS)
        if path is None:
            return None
        found = Analysis.read(path)
        return found if found.study == self.questions.study else None

    def close(self, unfinished: bool) -> Analysis:
        """Analyze, after which no more answers are taken: who has seen the result is no longer blind."""
        with _writing:
            self._check_open()
            raters = self.raters()
            open_ = [each.rater for each in raters if not each.complete]
            answered = [each.rater for each in raters if each.answered or each.reason]
            if not answered:
                raise Problem(409, "missing", "Nobody has answered yet, so there is nothing to analyze.")
            if open_ and not unfinished:
                raise Problem(409, "missing", f"Not everything is answered by {', '.join(open_)}.")
            if self.pack.entry.file(KEY) is None:
                raise Problem(
                    409,
                    "missing",
                    f"{self.pack.entry.shown}: the key is not here. Analyze the answers where it is.",
                    command="conceptlens study analyze PACK RESPONSES",
                )
            return analyze_study(self.pack.entry.path, [self._file(rater) for rater in answered]).analysis

    def _progress(self, rater: str, here: bool) -> RaterPart:
        of = len(self.questions.answers)
        try:
            found = self._read(rater)
        except (UserError, Problem) as error:
            return RaterPart(rater=rater, answered=0, of=of, complete=False, here=here, reason=str(error))
        count = sum(name in self.questions.answers for name in found.answers) if found else 0
        saved = found.saved or None if found else None
        return RaterPart(rater=rater, answered=count, of=of, complete=count == of, saved=saved, here=here)

    def _check_open(self) -> None:
        if self.analysis() is not None:
            raise Problem(409, "closed", "This study is closed: it has been analyzed, so it takes no more answers.")

    def _check_answers(self, given: KeepRequest) -> None:
        allowed = self.questions.answers
        for name, each in given.answers.items():
            if name not in allowed:
                raise bad(f"{name!r}: no such question in this study.")
            if each.answer not in allowed[name]:
                raise bad(f"{name}: {each.answer!r} is not among its answers.")
        if given.order and sorted(given.order) != sorted(allowed):
            raise bad("order: expected every question of the study once.")

    def _folder(self) -> Path:
        self.pack.entry.file(FOLDER)  # refuses a link that leads out
        return self.pack.entry.path / FOLDER

    def _file(self, rater: str, end: str = "json") -> Path:
        return self._folder() / f"responses-{self.questions.study}-{rater}.{end}"

    def _read(self, rater: str) -> Responses | None:
        path = self._file(rater)
        if not path.exists():
            return None
        self.pack.entry.file(f"{FOLDER}/{path.name}")
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path}: more than {LARGEST:,} bytes; not a response file.")
        found = Responses.read(path)
        if (found.study, found.rater) != (self.questions.study, rater):
            raise UserError(f"{path}: the file is of another study or rater than its name says.")
        return found

    def _claim(self, rater: str) -> str | None:
        path = self._file(rater, "claim")
        return path.read_text("ascii", "replace").strip() if path.is_file() else None

    def _take(self, rater: str, word: str) -> None:
        folder = self._folder()
        try:
            folder.mkdir(exist_ok=True)
            if len(list(folder.glob("*.claim"))) >= MOST:
                raise Problem(413, "too-large", f"{MOST} raters have begun already; no more are taken.")
            # Another server of the same folder may be as quick: only one of two can make the file.
            handle = os.open(self._file(rater, "claim"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise Problem(409, "taken", f"The code {rater!r} was just taken. Choose another one.") from None
        except OSError as error:
            raise self._unwritable(error) from None
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(_proof(word))

    def _unwritable(self, error: OSError) -> Problem:
        return Problem(409, "missing", f"{self.pack.entry.shown}: answers cannot be written here ({error.strerror}).")


def _proof(word: str) -> str:
    return hashlib.sha256(word.encode("utf-8", "replace")).hexdigest()
