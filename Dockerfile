# `perfjudge serve` from the wheel, which has the models inside: docs/deploying.md
#
#   uv run python .ci/wheel.py && docker build -t perfjudge .
FROM python:3.11-slim
ARG EXTRAS=
RUN --mount=type=bind,source=deploy,target=/deploy --mount=type=bind,source=dist,target=/dist \
    --mount=from=ghcr.io/astral-sh/uv:0.13,source=/uv,target=/usr/local/bin/uv \
    --mount=type=cache,target=/root/.cache/uv \
    /deploy/install.sh "$EXTRAS" /dist/perfjudge-*.whl
ENV PATH=/opt/perfjudge/bin:$PATH HOME=/tmp PERFJUDGE_TOKENS_FILE=/models/tokens
USER 10001:10001
WORKDIR /models
VOLUME /models
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["perfjudge"]
CMD ["serve", "--host=0.0.0.0", "--port=8000"]
