# The image of every Airflow service in docker-compose.yaml. `make image` builds it: it has the wheels that `make wheel`
# put into dist/, so what runs is what was tested, and no build tool enters the image.
ARG PYTHON=python:3.11.14-slim-bookworm
# uv installs on all cores what pip installs on one. Its folder is mounted where it is used, and is not in the image. It
# trusts the certificates of the system, as pip does: those of a proxy are known there.
FROM ${PYTHON} AS tools
RUN --mount=type=bind,source=locks,target=/build \
    python -m venv /opt/tools \
    && /opt/tools/bin/pip install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r /build/tools.lock

FROM ${PYTHON}
# An empty volume takes owner and mode of the folder that it is mounted on. What only the service may read: 0700.
RUN useradd --uid 50000 --user-group --no-create-home --home-dir /opt/airflow --shell /usr/sbin/nologin airflow \
    && install -d -o airflow -g airflow -m 0755 /opt/airflow /opt/airflow/dags /opt/airflow/include /data \
    && install -d -o airflow -g airflow -m 0750 /data/lake /opt/airflow/logs \
    && install -d -o airflow -g airflow -m 0700 /data/work /data/curator /opt/airflow/data/samples
# Byte code is made by all cores: without it each process would compile Airflow again, for ten seconds. The tests that
# packages bring, a fifth of all code, are never imported.
RUN --mount=type=bind,source=locks,target=/build --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools \
    python -m venv --without-pip /opt/venv \
    && UV_SYSTEM_CERTS=1 /opt/tools/bin/uv pip install --no-cache --python /opt/venv/bin/python --no-deps --require-hashes \
        --only-binary :all: -r /build/production.lock \
    && /opt/venv/bin/python -m compileall -q -j 0 -x '/tests/' /opt/venv
RUN --mount=type=bind,source=dist,target=/build --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools \
    /opt/tools/bin/uv pip install --no-cache --python /opt/venv/bin/python --no-deps --no-index \
        /build/privacy_release-*.whl /build/airflow_privacy_release-*.whl \
    && /opt/tools/bin/uv pip check --python /opt/venv/bin/python \
    && /opt/venv/bin/python -m compileall -q -j 0 -x '/tests/' /opt/venv
COPY --chmod=0755 deploy/initialize.sh /usr/local/bin/initialize
# Compiled functions are in the image. They are kept by the content of their sources, so an old one never runs.
ENV PATH=/opt/venv/bin:$PATH \
    AIRFLOW_HOME=/opt/airflow \
    NUMBA_CACHE_DIR=/opt/airflow/numba \
    MPLCONFIGDIR=/opt/airflow/matplotlib \
    PYTHONUNBUFFERED=1
USER airflow
# For this kind of processor: on another one, a container compiles for itself.
# METHODS names those that releases use, such as "mondrian privbayes"; all of them by default.
ARG METHODS=
RUN privacy-release warm ${METHODS}
WORKDIR /opt/airflow
ENTRYPOINT []
CMD ["airflow", "version"]
