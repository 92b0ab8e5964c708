# PostgreSQL from Debian's packages: the proxy's store. The context is docker/postgres.
ARG BASE=quicksilver/base
FROM ${BASE}
RUN apt-get update -q \
 && mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o Dpkg::Options::=--force-confold postgresql \
 && ln -s /usr/lib/postgresql/* /opt/postgresql \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data
COPY start-postgres /usr/bin/
USER postgres
VOLUME /var/lib/postgresql/data
ENV PGHOST=127.0.0.1 PGPORT=5432 PGUSER=quicksilver PGDATABASE=quicksilver PGDATA=/var/lib/postgresql/data
HEALTHCHECK --interval=5s --timeout=20s --start-period=120s CMD ["pg_isready", "-q"]
STOPSIGNAL SIGINT
ENTRYPOINT ["start-postgres"]
