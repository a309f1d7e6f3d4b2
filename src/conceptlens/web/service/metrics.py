"""What the service counts, in Prometheus' text format."""

from bisect import bisect_left
from collections import Counter
from threading import Lock

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Histogram:
    """How often a number was at most each bound.

    >>> histogram = Histogram((1, 2))
    >>> histogram.add(2)
    >>> histogram.lines("images", "Images in a batch.")[2:4]
    ['images_bucket{le="1"} 0', 'images_bucket{le="2"} 1']
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, about: str) -> list[str]:
        total, rows = 0, [f"# HELP {name} {about}", f"# TYPE {name} histogram"]
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            rows.append(f'{name}_bucket{{le="{"+Inf" if bound == float("inf") else f"{bound:g}"}"}} {total}')
        return [*rows, f"{name}_sum {self.sum:.9g}", f"{name}_count {total}"]


class ServiceMetrics:
    """Requests, images and batches since the service began."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.requests: Counter[int] = Counter()  # by status
        self.images: Counter[str] = Counter()  # by what became of them
        self.request_seconds, self.batch_seconds = Histogram(SECONDS), Histogram(SECONDS)
        self.batch_images = Histogram(SIZES)

    def request(self, status: int, seconds: float) -> None:
        with self.lock:
            self.requests[status] += 1
            self.request_seconds.add(seconds)

    def batch(self, images: int, seconds: float) -> None:
        with self.lock:
            self.batch_images.add(images)
            self.batch_seconds.add(seconds)

    def image(self, *, failed: bool, unlike: bool) -> None:
        with self.lock:
            self.images["unreadable" if failed else "unlike_training" if unlike else "answered"] += 1

    def text(self, waiting: int) -> str:
        """The page that Prometheus reads.

        Args:
            waiting: Images that wait for the model.
        """
        with self.lock:
            rows = [
                "# HELP conceptlens_requests_total Predictions asked for, by status.",
                "# TYPE conceptlens_requests_total counter",
            ]
            rows += [
                f'conceptlens_requests_total{{status="{status}"}} {count}'
                for status, count in sorted(self.requests.items())
            ]
            rows += [
                "# HELP conceptlens_images_total Images, by what became of them.",
                "# TYPE conceptlens_images_total counter",
            ]
            rows += [
                f'conceptlens_images_total{{result="{result}"}} {count}'
                for result, count in sorted(self.images.items())
            ]
            rows += [
                "# HELP conceptlens_waiting_images Images that wait for the model.",
                "# TYPE conceptlens_waiting_images gauge",
            ]
            rows += [f"conceptlens_waiting_images {waiting}"]
            rows += self.request_seconds.lines("conceptlens_request_seconds", "Time of a request.")
            rows += self.batch_seconds.lines("conceptlens_batch_seconds", "Time of a batch in the model.")
            rows += self.batch_images.lines("conceptlens_batch_images", "Images in a batch.")
        return "\n".join(rows) + "\n"
