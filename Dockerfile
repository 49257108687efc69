# Holdfast in a container: `docker build -t holdfast .`, then `docker run --rm -v "$PWD:/work" holdfast demo`.
# For NVIDIA: `docker build --build-arg JAX=cuda12 -t holdfast:cuda .` and `docker run --gpus all ...` (untested, see docs/install.md).
# `.ci/container.py` runs these very steps where no builder is.
ARG PYTHON=3.12
FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY .ci/build_hook.py .ci/links.py ./.ci/
COPY src ./src
RUN pip install --no-cache-dir "hatchling>=1.26" && python -m hatchling build --target wheel --directory /wheels

FROM python:${PYTHON}-slim
ARG JAX=""
ARG EXTRAS=onnx,video,tune
RUN apt-get update && apt-get install -y --no-install-recommends libegl1 libgl1 libosmesa6 && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/constraints.txt
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt "$(echo /wheels/*.whl)[${EXTRAS}]" ${JAX:+"jax[${JAX}]"}
RUN useradd --create-home --uid 1000 holdfast && mkdir -p /work && chown holdfast /work
USER holdfast
WORKDIR /work
ENV MUJOCO_GL=egl
ENTRYPOINT ["holdfast"]
CMD ["--help"]
