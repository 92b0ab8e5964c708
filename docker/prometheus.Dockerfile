# Prometheus from Debian's packages. It needs no context: docker build - < docker/prometheus.Dockerfile
ARG BASE=quicksilver/base
FROM ${BASE}
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends prometheus \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && install -d -o prometheus -g prometheus /var/lib/prometheus
USER prometheus
VOLUME /var/lib/prometheus
ENV HEALTH_URL=http://127.0.0.1:9090
HEALTHCHECK --interval=5s --timeout=20s --start-period=120s CMD promtool query instant "$HEALTH_URL" "vector(1)"
ENTRYPOINT ["prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/var/lib/prometheus"]
