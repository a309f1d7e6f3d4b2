"""Questions to a model: the record first, then the endpoint; an answer that cannot be used is asked for again."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from conceptlens.core.errors import UserError
from conceptlens.workflows.authoring.filters.repair import Unreadable
from conceptlens.workflows.authoring.language_model.endpoint import Endpoint
from conceptlens.workflows.authoring.language_model.prompts import SYSTEM, Ask, asked_again
from conceptlens.workflows.authoring.language_model.record import Record

Read = TypeVar("Read")
AGAIN = 2  # further chances for an answer that cannot be used


@dataclass
class Asker:
    """Who answers.

    Attributes:
        record: Kept and pasted answers.
        endpoint: None: people paste.
        open: Questions without an answer yet, in order.
        to_mend: Pasted answers that cannot be used, with the reason.
    """

    record: Record
    endpoint: Endpoint | None = None
    at_once: int = 4
    note: Callable[[str], object] = lambda text: None
    open: list[str] = field(default_factory=list)
    to_mend: dict[str, str] = field(default_factory=dict)

    def all(
        self, asks: Sequence[Ask], readers: Sequence[Callable[[str], Read]], endpoint: Endpoint | None = None
    ) -> list[Read | None]:
        """Answers to several questions, in order; None where nobody has answered.

        Args:
            asks: The questions.
            readers: What turns an answer to each into a value, or raises `Unreadable`.
            endpoint: Another model than the usual one.
        """
        whom = endpoint or self.endpoint
        if whom is None:
            return [self._pasted(ask, read) for ask, read in zip(asks, readers, strict=True)]
        for ask in asks:
            self.record.asked[ask.name] = ask  # in the order of the questions, not of the threads
        with ThreadPoolExecutor(max(self.at_once, 1), "conceptlens-ask") as pool:
            futures = [pool.submit(self._ask, whom, ask, read) for ask, read in zip(asks, readers, strict=True)]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # the first refusal is enough
                raise

    def _pasted(self, ask: Ask, read: Callable[[str], Read]) -> Read | None:
        found = self.record.find(ask)
        if found is None:
            self.open.append(ask.name)
            return None
        try:
            return read(found.text)
        except Unreadable as error:
            self.to_mend[ask.name] = str(error)
            return None

    def _ask(self, endpoint: Endpoint, ask: Ask, read: Callable[[str], Read]) -> Read:
        kept = self.record.find(ask)
        if kept is not None:
            try:
                return read(kept.text)
            except Unreadable as error:
                if kept.model is None:
                    raise UserError(f"{self.record.path}: the pasted answer to {ask.name!r}: {error}.") from None
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ask.prompt}]
        problem = ""
        for _ in range(1 + AGAIN):
            answer = endpoint.ask(messages)
            try:
                found = read(answer)
            except Unreadable as error:
                problem = str(error)
                # Only the problem goes back: a long broken answer would crowd out the question.
                messages = [*messages[:2], {"role": "assistant", "content": answer[:4000]}]
                messages.append({"role": "user", "content": asked_again(problem)})
                continue
            self.record.keep(ask, answer, endpoint.model)
            self.note(f"{ask.name}: answered by {endpoint.model}")
            return found
        raise UserError(
            f"{endpoint.address}: {1 + AGAIN} answers of {endpoint.model!r} to {ask.name!r} could not be used, the "
            f"last because {problem}. Try another model, or paste an answer under that heading of {self.record.path}."
        )
