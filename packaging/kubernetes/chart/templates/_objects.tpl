{{/* The objects of a manifest, with the label that kustomize adds. */}}
{{- define "objects" -}}
objects:
{{- range splitList "\n---\n" (.files.Get .file) }}
{{- $o := fromYaml . }}
{{- $_ := set $o.metadata "labels" (mergeOverwrite (dict "app.kubernetes.io/name" "dcm-kubernetes") (default dict $o.metadata.labels)) }}
- {{ toYaml $o | nindent 2 | trim }}
{{- end }}
{{- end }}
