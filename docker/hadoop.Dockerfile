# Stock Hadoop from Maven's jars. The context is build/docker/hadoop, which `make docker-images` fills: lib/ (jars), etc/, hadoop.
# BASE is a Debian, or an image with Java 8 to 21 in JAVA_HOME, bash and setsid (then set JAVA_PACKAGE to nothing).
ARG BASE=quicksilver/base
FROM ${BASE}
ARG JAVA_PACKAGE=openjdk-17-jre-headless
ARG JAVA=/usr/lib/jvm/java
RUN if [ -n "${JAVA_PACKAGE}" ]; then apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ${JAVA_PACKAGE} \
 && ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /usr/lib/jvm/java \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*; fi
COPY . /opt/hadoop/
# One user for all daemons and for the containers of DefaultContainerExecutor.
RUN ln -s /opt/hadoop/hadoop /usr/bin/hadoop \
 && echo 'yarn:x:10002:10002::/data:/usr/sbin/nologin' >> /etc/passwd && echo 'yarn:x:10002:' >> /etc/group \
 && mkdir /data && chown 10002:10002 /data
ENV JAVA_HOME=${JAVA} HADOOP_CONF_DIR=/etc/hadoop/conf
USER 10002:10002
WORKDIR /data
VOLUME /data
HEALTHCHECK --interval=5s --timeout=20s --start-period=600s CMD ["hadoop", "health"]
ENTRYPOINT ["hadoop"]
CMD ["help"]
