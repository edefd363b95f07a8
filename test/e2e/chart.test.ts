// suite: shared-plane, sandbox: long
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';

import { VERSION } from '../../src/config/version.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { established, startCluster, type Cluster } from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { definitionOf } from '../support/definitions.ts';
import { chartNotes, lintChart, renderChart, type ChartOptions } from '../support/helm.ts';
import { HAS_KUBECTL } from '../support/kubectl.ts';
import { kustomized, dryRunApply, parseManifests } from '../support/kustomization.ts';

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');
const VALUES = join(DEPLOY, 'chart', 'values');
const DETECTORS = 'gatehouse.dev/v1alpha1/RestoreDetector';

/** The value at a path such as `spec.replicas`; undefined ends the path. */
const at = (object: unknown, path: string): unknown =>
  path.split('.').reduce((value, key) => (value as Record<string, unknown> | undefined)?.[key], object);

const nameOf = ({ kind, metadata }: KubeObject) => `${kind} ${metadata?.name}`;
const byName = (objects: readonly KubeObject[]) =>
  Object.fromEntries(objects.map((object) => [nameOf(object), object]));

const OF_HELM =
  /^(helm\.sh\/|gatehouse\.dev\/chart-replicas$|app\.kubernetes\.io\/(instance|managed-by|version)$)/;

/** Removes the labels and annotations that only Helm uses; omits empty maps, like the base. */
function plain(object: KubeObject): KubeObject {
  const { labels, annotations, ...metadata } = object.metadata ?? {};
  const kept = (map: Readonly<Record<string, string>> = {}) =>
    Object.fromEntries(Object.entries(map).filter(([key]) => !OF_HELM.test(key)));
  const some = (key: string, map: Readonly<Record<string, string>>) =>
    Object.keys(map).length === 0 ? {} : { [key]: map };
  return {
    ...object,
    metadata: { ...metadata, ...some('labels', kept(labels)), ...some('annotations', kept(annotations)) },
  };
}

const withoutNamespace = (objects: readonly KubeObject[]) =>
  byName(objects.filter(({ kind }) => kind !== 'Namespace'));

/** Sorts the constraints: kustomize merges lists in its own order, and the order does not matter. */
function inOneOrder(object: KubeObject): KubeObject {
  const constraints = at(object, `${POD}.topologySpreadConstraints`);
  if (Array.isArray(constraints))
    constraints.sort((a, b) => String(at(a, 'topologyKey')).localeCompare(String(at(b, 'topologyKey'))));
  return object;
}

const DEPLOYMENT = 'Deployment gatehouse-webhook';
const CONTROLLERS = 'Deployment gatehouse-controllers';
const SINGLE = 'Deployment gatehouse';
const role = (name: string) => `ClusterRole gatehouse-${name}`;
const POD = 'spec.template.spec';
/** A path may begin with one of these. */
const PLACES: Readonly<Record<string, string>> = {
  pod: POD,
  container: `${POD}.containers.0`,
  'job.pod': `spec.jobTemplate.${POD}`,
  'job.container': `spec.jobTemplate.${POD}.containers.0`,
};
const fullPath = (path: string): string =>
  path.replace(/^(job\.)?(pod|container)(?=\.)/, (place) => PLACES[place] ?? place);
const VELERO = { restore: { velero: { enabled: true, namespace: 'backups' } } };
const DETECTOR = 'RestoreDetector velero';
const JOB = 'CronJob gatehouse-restore-rehearsal';
const REHEARSED = { restore: { rehearsal: { enabled: true } } };
const POLICY_CRD = 'CustomResourceDefinition admissionpolicies.gatehouse.dev';
const monitored = (what: string) => ({ monitoring: { [what]: true } });
const ACCOUNT = { kind: 'ServiceAccount', name: 'gatehouse', namespace: 'gatehouse-system' };
const LARGE = { limits: { memory: '1Gi' } };
const SURGE = { maxSurge: '50%', maxUnavailable: 0 };
const DRAIN = '--drain-delay=20s';
const LIFETIME = '--ca-lifetime=365d';
const IN_ONE = { processes: 'single', extraArgs: [DRAIN] };
const BOTH_COMPAT = ['controllers', '--compat=openshift,cert-manager'];
const TRUSTED = 'restore.velero.namespace';
const VOLUME = 'job.pod.volumes.0.persistentVolumeClaim';
const BUCKET = { claimName: 'bucket', readOnly: true };
const MONITOR = 'PodMonitor gatehouse';
const POD_MONITOR = monitored('podMonitor');
const MOUNT = { name: 'v', mountPath: '/v' };
const DASHBOARD = { 'gatehouse.json': readFileSync(join(DEPLOY, 'monitoring', 'dashboard.json'), 'utf8') };
const taint = [{ key: 'gpu', operator: 'Exists' }];
const affinity = { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } };
const spread = [{ maxSkew: 2, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' }];
const peers = [{ podSelector: {} }];
const DIGEST = `sha256:${'0'.repeat(64)}`;

/** The values of the chart with one more at a path. */
function valuesWith(path: string, value: unknown, others: Readonly<Record<string, unknown>> = {}): object {
  const [key = '', ...below] = path.split('.');
  if (below.length === 0) return { ...others, [key]: value };
  const inner = others[key] as Readonly<Record<string, unknown>> | undefined; // a group of values
  return { ...others, [key]: valuesWith(below.join('.'), value, inner) };
}

/** A value, and what the path of an object then contains (undefined: nothing), with other values. */
type Effect = [
  value: string,
  given: unknown,
  object: string,
  path: string,
  is: unknown,
  others?: Readonly<Record<string, unknown>>,
];

/** Of every value of the chart that does not only add a component. */
const EFFECTS: readonly Effect[] = [
  ['image.repository', 'r.io:5000/g', DEPLOYMENT, 'container.image', 'r.io:5000/g:0.1.0'],
  ['image.tag', '2024', DEPLOYMENT, 'container.image', 'gatehouse:2024'],
  ['image.digest', DIGEST, DEPLOYMENT, 'container.image', `gatehouse@${DIGEST}`, { image: { tag: 'x' } }],
  ['image.pullPolicy', 'Always', DEPLOYMENT, 'container.imagePullPolicy', 'Always'],
  ['imagePullSecrets', [{ name: 's' }], DEPLOYMENT, 'pod.imagePullSecrets', [{ name: 's' }]],
  ['replicas', 5, DEPLOYMENT, 'spec.replicas', 5],
  ['replicas', 0, DEPLOYMENT, 'spec.replicas', 0],
  ['replicas', null, DEPLOYMENT, 'spec.replicas', undefined],
  ['processes', 'single', SINGLE, 'container.args', ['serve']],
  ['processes', 'single', CONTROLLERS, 'kind', undefined],
  ['processes', 'single', 'ClusterRoleBinding gatehouse-controllers', 'subjects', [ACCOUNT]],
  ['controllers.replicas', 3, CONTROLLERS, 'spec.replicas', 3],
  ['controllers.replicas', null, CONTROLLERS, 'spec.replicas', undefined],
  ['controllers.resources', LARGE, CONTROLLERS, 'container.resources.limits', LARGE.limits],
  ['controllers.affinity', affinity, CONTROLLERS, 'pod.affinity', affinity],
  ['controllers.topologySpreadConstraints', spread, CONTROLLERS, 'pod.topologySpreadConstraints', spread],
  ['strategy', { rollingUpdate: { maxSurge: '50%' } }, DEPLOYMENT, 'spec.strategy.rollingUpdate', SURGE],
  ['resources', LARGE, DEPLOYMENT, 'container.resources.limits', LARGE.limits],
  ['priorityClassName', '', DEPLOYMENT, 'pod.priorityClassName', undefined],
  ['nodeSelector', { disk: 'ssd' }, DEPLOYMENT, 'pod.nodeSelector', { disk: 'ssd' }],
  ['tolerations', taint, DEPLOYMENT, 'pod.tolerations', taint],
  ['affinity', affinity, DEPLOYMENT, 'pod.affinity', affinity],
  ['topologySpreadConstraints', spread, DEPLOYMENT, 'pod.topologySpreadConstraints', spread],
  ['podAnnotations', { a: 'true' }, DEPLOYMENT, 'spec.template.metadata.annotations', { a: 'true' }],
  ['podLabels', { team: '7' }, DEPLOYMENT, 'spec.template.metadata.labels.team', '7'],
  ['logLevel', 'debug', DEPLOYMENT, 'container.args', ['webhook', '--log-level=debug']],
  ['extraArgs', [DRAIN], DEPLOYMENT, 'container.args', ['webhook', DRAIN]],
  ['controllers.extraArgs', [LIFETIME], CONTROLLERS, 'container.args', ['controllers', LIFETIME]],
  ['controllers.extraArgs', [LIFETIME], SINGLE, 'container.args', ['serve', DRAIN, LIFETIME], IN_ONE],
  ['extraEnv', [{ name: 'A', value: '1' }], DEPLOYMENT, 'container.env.2', { name: 'A', value: '1' }],
  ['extraVolumes', [{ name: 'v', emptyDir: {} }], DEPLOYMENT, 'pod.volumes', [{ name: 'v', emptyDir: {} }]],
  ['extraVolumeMounts', [MOUNT], DEPLOYMENT, 'container.volumeMounts', [MOUNT]],
  ['compat.openshift', true, DEPLOYMENT, 'container.securityContext.runAsUser', undefined],
  ['compat.openshift', true, role('openshift-compat'), 'rules.0.resources', ['services']],
  ['compat.certManager', true, CONTROLLERS, 'container.args', BOTH_COMPAT, { compat: { openshift: true } }],
  ['compat.certManager', true, role('cert-manager-compat'), 'rules.0.resources', ['certificates']],
  ['distributeBundles', true, role('distribute-bundles'), 'rules.1.verbs', ['create', 'update', 'delete']],
  ['restore.velero.enabled', true, role('detector-velero'), 'rules.0.resources', ['restores'], VELERO],
  [TRUSTED, 'backups', DETECTOR, 'spec.namespaces', ['backups'], VELERO],
  [TRUSTED, 'backups', DETECTOR, 'spec.principals.0.group', 'system:serviceaccounts:backups', VELERO],
  ['restore.rehearsal.schedule', '0 5 * * 0', JOB, 'spec.schedule', '0 5 * * 0', REHEARSED],
  ['restore.rehearsal.claimName', 'bucket', JOB, VOLUME, BUCKET, REHEARSED],
  ['restore.rehearsal.resources', LARGE, JOB, 'job.container.resources.limits.memory', '1Gi', REHEARSED],
  ['podDisruptionBudget.enabled', false, 'PodDisruptionBudget gatehouse', 'kind', undefined],
  ['podDisruptionBudget.minAvailable', '50%', 'PodDisruptionBudget gatehouse', 'spec.minAvailable', '50%'],
  ['backstop.enabled', false, 'ValidatingAdmissionPolicy gatehouse-backstop-secrets', 'kind', undefined],
  ['networkPolicy.enabled', false, 'NetworkPolicy gatehouse', 'kind', undefined],
  ['networkPolicy.metricsFrom', peers, 'NetworkPolicy gatehouse', 'spec.ingress.1.from', peers],
  ['crds.enabled', false, POLICY_CRD, 'kind', undefined],
  ['crds.keep', false, POLICY_CRD, 'metadata.annotations', undefined],
  ['monitoring.labels', { release: 'p' }, MONITOR, 'metadata.labels.release', 'p', POD_MONITOR],
  ['monitoring.podMonitor', true, MONITOR, 'metadata.namespace', 'gatehouse-system'],
  ['monitoring.prometheusRule', true, 'PrometheusRule gatehouse', 'metadata.namespace', 'gatehouse-system'],
  ['monitoring.dashboard', true, 'ConfigMap gatehouse-dashboard', 'data', DASHBOARD],
];

/** The other components are in the default output or in an overlay. */
const WITH_COMPONENT: readonly (readonly [component: string, values: Readonly<Record<string, unknown>>])[] = [
  ['delete-secrets', { deleteSecrets: true }],
  ['restarts', { restarts: true }],
  ['without-certificates', { parts: { certificates: { enabled: false } } }],
  ['without-conversions', { parts: { conversions: { enabled: false } } }],
  ['without-injection', { parts: { injection: { enabled: false } } }],
  ['without-restores', { parts: { restores: { enabled: false } } }],
  ['status-page', { statusPage: true }],
  ['policy-reports', { policyReports: true }],
  ['restore-rehearsal', REHEARSED],
  ['compile-policies', { compilePolicies: true }],
];

/** The paths of all values that are not groups. */
function leaves(values: Readonly<Record<string, unknown>>, schema: unknown, prefix = ''): readonly string[] {
  return Object.keys(values).flatMap((key) => {
    const below = at(schema, `properties.${key}`);
    const value = values[key];
    return at(below, 'properties') === undefined
      ? [`${prefix}${key}`]
      : leaves(value as Record<string, unknown>, below, `${prefix}${key}.`); // the schema says that it is a group
  });
}

test('every value of the chart has a row in the table of effects, or adds a component', () => {
  const chart = (name: string) =>
    parse(readFileSync(join(DEPLOY, 'chart', 'gatehouse', name), 'utf8')) as Record<string, unknown>; // generated file
  const schema = chart('values.schema.json');
  const covered = [
    ...EFFECTS.map(([value]) => value),
    ...WITH_COMPONENT.flatMap(([, values]) => leaves(values, schema)),
  ];
  expect([...new Set(covered)].toSorted()).toEqual(leaves(chart('values.yaml'), schema).toSorted());
});

describe('the chart as Helm renders it', () => {
  let byDefault: Readonly<Record<string, KubeObject>> | undefined;

  test('equals install.yaml without the namespace when no value is set', async () => {
    const installed = parseManifests(readFileSync(join(DEPLOY, 'install.yaml'), 'utf8'));
    const rendered = await renderChart();
    expect(byName(rendered.map(plain))).toEqual(withoutNamespace(installed));
    expect(rendered.length).toBe(installed.length - 1);
    for (const object of rendered)
      expect(at(object, 'metadata.labels'), nameOf(object)).toMatchObject({
        'app.kubernetes.io/managed-by': 'Helm',
        'app.kubernetes.io/version': VERSION,
        'helm.sh/chart': `gatehouse-${VERSION}`,
      });
  });

  test.each<Effect>(EFFECTS)(
    'shows the value %s (%j) in %s at %s',
    async (value, given, object, path, is, others) => {
      const values = valuesWith(value, given, others);
      const found = byName(await renderChart({ values, apiVersions: [DETECTORS] }))[object];
      expect(at(found, fullPath(path))).toEqual(is);
      // The default output must differ, otherwise this row of the table proves nothing.
      byDefault ??= byName(await renderChart({ apiVersions: [DETECTORS] }));
      expect(at(byDefault[object], fullPath(path))).not.toEqual(is);
    },
  );

  test.each(readdirSync(VALUES))('equals the overlay of the same name with values/%s', async (name) => {
    if (!HAS_KUBECTL) return; // kubectl.ts logs that it is missing
    const overlay = await kustomized(`overlays/${name.replace('.yaml', '')}`);
    const rendered = await renderChart({ files: [join(VALUES, name)], apiVersions: [DETECTORS] });
    const expected = overlay.map(inOneOrder);
    expect(byName(rendered.map(plain).map(inOneOrder))).toEqual(withoutNamespace(expected));
  });

  test.each(WITH_COMPONENT)(
    'equals the default with the component when %s is enabled',
    async (name, values) => {
      if (!HAS_KUBECTL) return; // kubectl.ts logs that it is missing
      const composed = await kustomized('overlays/default', { components: [name] });
      expect(byName((await renderChart({ values })).map(plain))).toEqual(withoutNamespace(composed));
    },
  );

  test('keeps the braces in alerts, which Helm must not expand', async () => {
    const [file] = parseManifests(readFileSync(join(DEPLOY, 'monitoring', 'prometheus-rule.yaml'), 'utf8'));
    const rendered = byName(await renderChart({ values: monitored('prometheusRule') }));
    expect(at(rendered['PrometheusRule gatehouse'], 'spec')).toEqual(at(file, 'spec'));
  });

  test('lists in its notes what Helm did not do', async () => {
    expect(await chartNotes()).not.toMatch(/NOT INSTALLED|metadata\.name|drained/);
    expect(await chartNotes({ values: VELERO })).toContain('IS NOT INSTALLED YET');
    expect(await chartNotes({ values: { replicas: 1 } })).toContain('cannot be drained');
    expect(await chartNotes({ values: { replicas: null } })).not.toContain('cannot be drained');
  });

  test('is refused with a value that its schema forbids', async () => {
    await expect(renderChart({ values: { replicas: '2' } })).rejects.toThrow("at '/replicas': got string");
  });
});

/** Every option that can be enabled together with the others. */
const everything = {
  statusPage: true,
  policyReports: true,
  compilePolicies: true,
  compat: { openshift: true, certManager: true },
  deleteSecrets: true,
  restarts: true,
  distributeBundles: true,
  logLevel: 'debug',
  extraArgs: ['--drain-delay=20s'],
  controllers: { extraArgs: ['--ca-lifetime=365d'] },
  extraEnv: [{ name: 'OTEL_SERVICE_NAME', value: 'gatehouse' }],
  extraVolumes: [{ name: 'handlers', emptyDir: {} }],
  extraVolumeMounts: [{ name: 'handlers', mountPath: '/handlers', readOnly: true }],
  imagePullSecrets: [{ name: 'registry' }],
  nodeSelector: { 'kubernetes.io/os': 'linux' },
  tolerations: taint,
  affinity,
  podAnnotations: { 'example.com/a': 'true' },
  podLabels: { team: '7' },
  priorityClassName: '',
  image: { digest: DIGEST, pullPolicy: 'Always' },
  podDisruptionBudget: { minAvailable: '50%' },
  networkPolicy: { metricsFrom: peers },
  restore: { ...VELERO.restore, ...REHEARSED.restore },
  monitoring: { podMonitor: true, prometheusRule: true, dashboard: true, labels: { release: 'p' } },
};

/** The Prometheus operator's kinds, with the fields that a dry run needs. */
const operatorKinds = ['PodMonitor', 'PrometheusRule'].map((kind) =>
  definitionOf({
    group: 'monitoring.coreos.com',
    version: 'v1',
    resource: `${kind.toLowerCase()}s`,
    kind,
    namespaced: true,
  }),
);

const CASES: readonly (readonly [string, ChartOptions])[] = [
  ['as it is', {}],
  ['with everything turned on', { values: everything }],
  [
    'without what can be turned off',
    {
      values: {
        podDisruptionBudget: { enabled: false },
        networkPolicy: { enabled: false },
        crds: { keep: false },
      },
    },
  ],
];

test.each(CASES)('Helm finds nothing to complain about in the chart %s', async (_how, options) => {
  await lintChart(options);
});

describe.skipIf(!HAS_KUBECTL)('the API server accepts the chart', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await startCluster();
    await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'gatehouse-system' } });
    await cluster.applyFolder('base/crds');
    await established(cluster, 'restoredetectors.gatehouse.dev');
    for (const definition of operatorKinds) await cluster.apply(definition);
  });
  afterAll(() => cluster.stop());

  test.each(CASES)('%s', async (_how, options) => {
    const { version } = cluster.plane;
    const kubeVersion = `${version.major}.${version.minor}.0`;
    const all = await renderChart({ ...options, kubeVersion, apiVersions: [DETECTORS] });
    // The sandbox serves no CronJobs.
    const objects = testsSandbox() ? all.filter(({ kind }) => kind !== 'CronJob') : all;
    const said = await dryRunApply(cluster.plane.kubeconfig('admin'), objects);
    expect(said.length).toBe(objects.length);
    expect(said.filter((line) => !line.endsWith('serverside-applied (server dry run)'))).toEqual([]);
  });

  test('and Helm sees there that the kind of the detector exists', async () => {
    const notes = await chartNotes({ values: VELERO }, cluster.plane.kubeconfig('admin'));
    expect(notes).toContain('Gatehouse 0.1.0 runs');
    expect(notes).not.toContain('IS NOT INSTALLED YET');
  });
});
