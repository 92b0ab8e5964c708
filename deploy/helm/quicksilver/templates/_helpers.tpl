{{- define "quicksilver.rm" -}}{{ .Release.Name }}-resourcemanager{{- end }}
{{- define "quicksilver.nm" -}}{{ .Release.Name }}-nodemanager{{- end }}
{{- define "quicksilver.domain" -}}{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}{{- end }}
{{- define "quicksilver.rmHost" -}}
{{ include "quicksilver.rm" . }}-0.{{ include "quicksilver.rm" . }}.{{ include "quicksilver.domain" . }}
{{- end }}
{{- define "quicksilver.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "quicksilver.property" }}
  <property>
    <name>{{ index . 0 }}</name>
    <value>{{ index . 1 | toString | html }}</value>
  </property>
{{- end }}

{{- /* The pod's own name in DNS, by which others reach it. */}}
{{- define "quicksilver.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: QUICKSILVER_NODE
  value: "$(POD_NAME).{{ .service }}.{{ include "quicksilver.domain" .root }}"
{{- end }}

{{- /* Makes the pod's certificate of the CA, and copies tokens, as the user of the daemon that reads them. The CA's key stays here. */}}
{{- define "quicksilver.certificate" -}}
- name: certificate
  image: {{ .image }}
  imagePullPolicy: {{ .root.Values.images.pullPolicy }}
  command: [sh, -ec]
  args:
    - |
      umask 077
      cp /keys/ca.crt /keys/ca.key /work/
      quicksilver certs node --dir /work "$QUICKSILVER_NODE"
      mv "/work/$QUICKSILVER_NODE.crt" /tls/tls.crt
      mv "/work/$QUICKSILVER_NODE.key" /tls/tls.key
      cp /keys/ca.crt /tls/ca.crt
      cp /keys/tokens /tls/tokens
      chmod 0600 /tls/tokens
      rm /work/ca.key
  env:
    {{- include "quicksilver.env" . | nindent 4 }}
  volumeMounts:
    - {name: keys, mountPath: /keys, readOnly: true}
    - {name: work, mountPath: /work}
    - {name: tls, mountPath: /tls}
{{- end }}
{{- define "quicksilver.volumes" -}}
- name: keys
  secret: {secretName: {{ required "quicksilver.keysSecret: name the Secret with tokens, ca.crt and ca.key" .Values.quicksilver.keysSecret }}}
- {name: work, emptyDir: {medium: Memory}}
- {name: tls, emptyDir: {medium: Memory}}
- name: settings
  configMap: {name: {{ .Release.Name }}-quicksilver}
{{- end }}
{{- define "quicksilver.mounts" -}}
- {name: settings, mountPath: /etc/quicksilver, readOnly: true}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
