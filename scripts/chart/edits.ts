/** The places in the manifests of deploy/ where the chart inserts its values. */
import { PARTS } from '../../src/config/parts.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { inline, lines, optional, type Edit, type Path } from './holes.ts';

const NAMESPACE = 'gatehouse-system';

export function editsOf(object: KubeObject): readonly Edit[] {
  const placed = 'subjects' in object ? { ...object, subjects: [] } : object;
  return [labels(), ...namespaces(placed, []), ...(BY_KIND[object.kind ?? '']?.(object) ?? [])];
}

const labels = (): Edit =>
  lines(['metadata', 'labels', 'of-the-release'], 'add', (indent) => [
    `{{- include "gatehouse.labels" . | nindent ${indent} }}`,
  ]);

/** Replaces the namespace everywhere, except in the subjects of bindings. */
function namespaces(value: unknown, path: Path): readonly Edit[] {
  if (value === NAMESPACE) return [inline(path, '{{ .Release.Namespace }}')];
  if (typeof value !== 'object' || value === null) return [];
  const isList = Array.isArray(value);
  return Object.entries(value).flatMap(([key, below]) =>
    namespaces(below, [...path, isList ? Number(key) : key]),
  );
}

const BY_KIND: Readonly<Partial<Record<string, (object: KubeObject) => readonly Edit[]>>> = {
  CustomResourceDefinition: definition,
  ClusterRoleBinding: binding,
  RoleBinding: binding,
  Deployment: (object) => [...deployment(object), ...container(object)],
  CronJob: rehearsal,
  PodDisruptionBudget: (object) =>
    isControllers(object)
      ? []
      : [inline(['spec', 'minAvailable'], '{{ toYaml .Values.podDisruptionBudget.minAvailable }}')],
  NetworkPolicy: (object) => [
    inline(
      ['spec', 'ingress', isControllers(object) ? 0 : 1, 'from'],
      '{{ toJson .Values.networkPolicy.metricsFrom }}',
    ),
  ],
  RestoreDetector: () => [
    lines(['spec', 'namespaces'], 'replace', () => ['namespaces: [{{ .Values.restore.velero.namespace }}]']),
    inline(
      ['spec', 'principals', 0, 'group'],
      'system:serviceaccounts:{{ .Values.restore.velero.namespace }}',
    ),
  ],
  ValidatingAdmissionPolicy: compatibility,
  PodMonitor: monitoringLabels,
  PrometheusRule: monitoringLabels,
};

const isControllers = ({ metadata }: KubeObject): boolean => metadata?.name === 'gatehouse-controllers';

/** The accounts of the base, or the one of `gatehouse serve`, or all during an upgrade. */
function binding(object: KubeObject & { readonly subjects?: readonly { readonly name: string }[] }) {
  // The rehearsal always has its own account.
  if (object.metadata?.name === REHEARSAL)
    return [inline(['subjects', 0, 'namespace'], '{{ .Release.Namespace }}')];
  const names = (object.subjects ?? []).map(({ name }) => JSON.stringify(name));
  return [
    lines(['subjects'], 'replace', (indent) => [
      'subjects:',
      `  {{- include "gatehouse.subjects" (list . ${names.join(' ')}) | nindent ${indent + 2} }}`,
    ]),
  ];
}

function definition(): readonly Edit[] {
  return [
    lines(['metadata', 'annotations'], 'add', () =>
      block('if .Values.crds.keep', 'annotations:', '  helm.sh/resource-policy: keep'),
    ),
  ];
}

/** The components openshift-compat and cert-manager-compat edit these variables. */
function compatibility(policy: KubeObject & { readonly spec?: PolicySpec }): readonly Edit[] {
  const flags = new Map([
    ['openshift', '.Values.compat.openshift'],
    ['certManager', '.Values.compat.certManager'],
  ]);
  return (policy.spec?.variables ?? []).flatMap(({ name }, index) => {
    const value = flags.get(name);
    return value === undefined
      ? []
      : [inline(['spec', 'variables', index, 'expression'], `{{ ${value} | quote }}`)];
  });
}

interface PolicySpec {
  readonly variables?: readonly { readonly name: string }[];
}

function monitoringLabels(): readonly Edit[] {
  return [merged(['metadata', 'labels', 'to-be-selected'], 'monitoring.labels')];
}

/** Adds the entries of a value. */
const merged = (path: Path, value: string): Edit =>
  lines(path, 'add', (indent) => block(`with .Values.${value}`, `{{- toYaml . | nindent ${indent} }}`));

const block = (opening: string, ...inside: readonly string[]): readonly string[] => [
  `{{- ${opening} }}`,
  ...inside,
  '{{- end }}',
];

const REHEARSAL = 'gatehouse-restore-rehearsal';

function rehearsal(): readonly Edit[] {
  const pod: Path = ['spec', 'jobTemplate', ...POD];
  const inside: Path = [...pod, 'containers', 0];
  return [
    inline(['spec', 'schedule'], '{{ .Values.restore.rehearsal.schedule | quote }}'),
    inline([...inside, 'image'], '{{ include "gatehouse.image" . | quote }}'),
    pullPolicy(inside),
    inline([...inside, 'args', 5], '--velero-namespace={{ .Values.restore.velero.namespace }}'),
    optional([...inside, 'resources'], 'replace', 'restore.rehearsal.resources'),
    inline(
      [...pod, 'volumes', 0, 'persistentVolumeClaim', 'claimName'],
      '{{ .Values.restore.rehearsal.claimName }}',
    ),
    optional([...pod, 'imagePullSecrets'], 'add', 'imagePullSecrets'),
    optional([...pod, 'nodeSelector'], 'add', 'nodeSelector'),
    optional([...pod, 'tolerations'], 'add', 'tolerations'),
  ];
}

const POD: Path = ['spec', 'template', 'spec'];

function deployment(object: KubeObject): readonly Edit[] {
  const values = isControllers(object) ? 'controllers.' : '';
  // The pods of `gatehouse serve` have other labels than the defaults select.
  const spread: Path = [...POD, 'topologySpreadConstraints'];
  const isSingle = object.metadata?.name === 'gatehouse';
  return [
    ...replicas(object.metadata?.name ?? '', `.Values.${values}replicas`),
    ...(isControllers(object) ? [] : [optional(['spec', 'strategy'], 'replace', 'strategy')]),
    optional(['spec', 'template', 'metadata', 'annotations'], 'add', 'podAnnotations'),
    merged(['spec', 'template', 'metadata', 'labels', 'of-the-user'], 'podLabels'),
    optional([...POD, 'imagePullSecrets'], 'add', 'imagePullSecrets'),
    lines([...POD, 'priorityClassName'], 'replace', () =>
      block('with .Values.priorityClassName', 'priorityClassName: {{ . | quote }}'),
    ),
    ...(isSingle ? [] : [optional(spread, 'replace', `${values}topologySpreadConstraints`)]),
    optional([...POD, 'nodeSelector'], 'add', 'nodeSelector'),
    optional([...POD, 'tolerations'], 'add', 'tolerations'),
    optional([...POD, 'affinity'], 'add', `${values}affinity`),
    optional([...POD, 'volumes'], 'add', 'extraVolumes'),
  ];
}

/**
 * An upgrade with an unchanged number keeps the number of the cluster: Helm applies on the server side, and another one would
 * conflict with `kubectl scale` and with autoscalers. The annotation records what the values said.
 */
function replicas(deployment: string, value: string): readonly Edit[] {
  const number = `with include "gatehouse.replicas" (list . "${deployment}" ${value})`;
  const recorded = `  gatehouse.dev/chart-replicas: {{ toJson $${value} | quote }}`;
  return [
    lines(['metadata', 'annotations'], 'add', () => block(number, 'annotations:', recorded)),
    lines(['spec', 'replicas'], 'replace', () => block(number, 'replicas: {{ . }}')),
  ];
}

const CONTAINER: Path = [...POD, 'containers', 0];
const pullPolicy = (container: Path): Edit =>
  lines([...container, 'imagePullPolicy'], 'add', () =>
    block('with .Values.image.pullPolicy', 'imagePullPolicy: {{ . }}'),
  );

/** The number of environment variables in the base. The user's variables follow them. */
const OWN_VARIABLES = 2;

function container(object: KubeObject): readonly Edit[] {
  return [
    inline([...CONTAINER, 'image'], '{{ include "gatehouse.image" . | quote }}'),
    pullPolicy(CONTAINER),
    lines([...CONTAINER, 'args', 1], 'add', () => moreArguments(object)),
    merged([...CONTAINER, 'env', OWN_VARIABLES], 'extraEnv'),
    optional(
      [...CONTAINER, 'resources'],
      'replace',
      isControllers(object) ? 'controllers.resources' : 'resources',
    ),
    optional([...CONTAINER, 'volumeMounts'], 'add', 'extraVolumeMounts'),
    unlessOpenshift('runAsUser'),
    unlessOpenshift('runAsGroup'),
  ];
}

/** Each Deployment sets only flags that its process uses. The Deployment `gatehouse` runs both processes. */
function moreArguments({ metadata }: KubeObject): readonly string[] {
  const answers = metadata?.name !== 'gatehouse-controllers';
  const controls = metadata?.name !== 'gatehouse-webhook';
  return [
    ...SHARED_ARGUMENTS,
    ...(controls ? CONTROLLERS_ARGUMENTS : []),
    ...(answers ? ofTheUser('extraArgs') : []),
    ...(controls ? ofTheUser('controllers.extraArgs') : []),
  ];
}

const ofTheUser = (value: string): readonly string[] => block(`range .Values.${value}`, '- {{ . | quote }}');

const SHARED_ARGUMENTS: readonly string[] = [
  ...block('if ne .Values.logLevel "info"', '- --log-level={{ .Values.logLevel }}'),
  ...block('if .Values.compilePolicies', '- --compile-policies'),
  ...PARTS.flatMap((part) => block(`if not .Values.parts.${part}.enabled`, `- --without=${part}`)),
];

const CONTROLLERS_ARGUMENTS: readonly string[] = [
  ...block(
    'if or .Values.compat.openshift .Values.compat.certManager',
    '- --compat={{ include "gatehouse.compat" . }}',
  ),
  ...block('if .Values.statusPage', '- --status-page'),
  ...block('if .Values.policyReports', '- --policy-reports'),
];

/** OpenShift assigns a range of user IDs to each namespace, and rejects pods that request another ID. */
const unlessOpenshift = (key: string): Edit =>
  lines([...CONTAINER, 'securityContext', key], 'replace', () =>
    block('if not .Values.compat.openshift', `${key}: 65532`),
  );
