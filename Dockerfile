# The web page (`serve`) or another command, as a user without rights.
#   docker build -t conceptlens .                                       torch as PyPI has it: on x86 with CUDA, which runs without a GPU, too
#   docker build -t conceptlens --build-arg TORCH_INDEX=ADDRESS .       another build, as the CPU's, which is 4 GB smaller
# PyTorch's install page has the addresses. torch brings CUDA's libraries in its own wheel: one base image serves all, and
# a host with a GPU needs only NVIDIA's driver and container toolkit (docker run --gpus all).
FROM python:3.12-slim AS build
ARG TORCH_INDEX=
WORKDIR /build
RUN python -m venv /opt/venv && /opt/venv/bin/pip install --no-cache-dir torch torchvision ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
COPY . .
RUN /opt/venv/bin/pip install --no-cache-dir ".[page]"

FROM python:3.12-slim
COPY --from=build /opt/venv /opt/venv
RUN useradd --create-home --uid 10001 conceptlens && mkdir /runs && chown conceptlens /runs
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
VOLUME /runs
EXPOSE 8642
# Any answer below 500 is a server that lives: without the token it answers 401.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8642, timeout=4); c.request('GET', '/'); raise SystemExit(c.getresponse().status >= 500)"]
ENTRYPOINT ["conceptlens"]
CMD ["serve", "/runs", "--host", "0.0.0.0", "--no-open-browser"]
