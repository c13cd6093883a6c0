# Untested: written without a machine that runs containers. docs/install.md has the commands.
#
# For processors:  docker build -t headtohead .
# For CUDA:        docker build --build-arg BASE=pytorch/pytorch:2.7.1-cuda12.6-cudnn9-runtime -t headtohead:cuda .
#
# Without TORCH_INDEX pip takes its own torch, which on Linux comes with CUDA; PyTorch's page of installation names the
# address of its smaller builds: --build-arg TORCH_INDEX=ADDRESS.
ARG BASE=python:3.12-slim

FROM python:3.12-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY conf conf
RUN pip install --no-cache-dir "hatchling>=1.25" \
 && pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel .

FROM ${BASE}
ARG TORCH_INDEX=""
COPY --from=wheel /wheel /wheel
RUN pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "${TORCH_INDEX}"} /wheel/*.whl && rm -r /wheel
# Runs, caches and W&B's files belong to whoever mounts the folder: docker run --user "$(id -u):$(id -g)" -v "$PWD:/work" ...
ENV HOME=/work PYTHONUNBUFFERED=1
WORKDIR /work
ENTRYPOINT ["h2h"]
CMD ["--help"]
