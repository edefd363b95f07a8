{{- /* What Helm's tools look for. Selectors have none of it: they cannot change, and versions do. */ -}}
{{- define "gatehouse.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gatehouse.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "gatehouse.compat" -}}
{{- $names := list -}}
{{- if .Values.compat.openshift }}{{ $names = append $names "openshift" }}{{ end -}}
{{- if .Values.compat.certManager }}{{ $names = append $names "cert-manager" }}{{ end -}}
{{ join "," $names }}
{{- end -}}
