// suite: own-plane, sandbox: no (it serves few of these kinds)
/** The table of immutable fields, tried field by field against an API server. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';

import {
  IMMUTABLE_FIELDS,
  mayOpen,
  writesImmutable,
  type ImmutableFields,
} from '../../src/api/immutable-fields.ts';
import { groupResourceName } from '../../src/json/kube-object.ts';
import { startControlPlane, type ControlPlane } from '../support/control-plane.ts';
import { senderTo, type Send } from '../support/recorded-requests.ts';
import { createTransport, type Transport } from '../support/transport.ts';

type Value = Readonly<Record<string, unknown>>;
type Stored = Value & { readonly metadata: Value };

const DATA = new URL('../data/subresource-objects.yaml', import.meta.url);
const ROLE = { roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' } };
const OBJECTS: Readonly<Record<string, Value>> = {
  ...(parse(readFileSync(DATA, 'utf8'), { merge: true }) as Readonly<Record<string, Value>>),
  configmaps: { data: { a: 'x' }, binaryData: { b: 'eA==' }, immutable: true },
  secrets: { data: { a: 'eA==' }, immutable: true },
  resourcequotas: { spec: { hard: { pods: '1' }, scopes: ['BestEffort'] } },
  controllerrevisions: { data: { a: 'x' }, revision: 1 },
  rolebindings: ROLE,
  clusterrolebindings: ROLE,
  endpointslices: { addressType: 'IPv4', endpoints: [] },
  ingressclasses: { spec: { controller: 'example.com/probe' } },
  priorityclasses: { value: 1 },
  runtimeclasses: { handler: 'probe' },
  storageclasses: { provisioner: 'example.com/probe', parameters: { a: 'x' } },
  csidrivers: { spec: { attachRequired: true, volumeLifecycleModes: ['Persistent'] } },
};
/** What defaults could set in these objects. */
const ABSENT: Readonly<Record<string, Value>> = {
  pods: {
    spec: {
      hostNetwork: true,
      nodeSelector: { a: 'x' },
      shareProcessNamespace: true,
      subdomain: 'a',
      dnsConfig: { nameservers: ['1.1.1.1'] },
      volumes: [{ name: 'a', emptyDir: {} }],
      hostAliases: [{ ip: '1.1.1.1' }],
    },
  },
  persistentvolumeclaims: { spec: { selector: { matchLabels: { a: 'x' } } } },
  persistentvolumes: { spec: { nfs: { server: 'a', path: '/' } } },
  jobs: {
    spec: {
      completions: 2,
      managedBy: 'example.com/a',
      backoffLimitPerIndex: 1,
      podFailurePolicy: { rules: [] },
    },
  },
  statefulsets: { spec: { volumeClaimTemplates: [{ metadata: { name: 'a' }, spec: {} }] } },
};
/** Fields of the same kinds that can change. */
const MUTABLE: Readonly<Record<string, Value>> = {
  pods: { spec: { activeDeadlineSeconds: 60 } },
  persistentvolumes: { spec: { persistentVolumeReclaimPolicy: 'Delete', mountOptions: ['ro'] } },
  services: { spec: { externalName: '', publishNotReadyAddresses: true, sessionAffinity: 'ClientIP' } },
  deployments: { spec: { replicas: 2, paused: true, minReadySeconds: 1 } },
  replicasets: { spec: { replicas: 2, minReadySeconds: 1 } },
  daemonsets: { spec: { minReadySeconds: 1, revisionHistoryLimit: 1 } },
  statefulsets: { spec: { replicas: 2, minReadySeconds: 1, ordinals: { start: 1 } } },
  jobs: { spec: { parallelism: 2, suspend: true, activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 60 } },
  priorityclasses: { description: 'x', globalDefault: true },
  storageclasses: { allowVolumeExpansion: true, mountOptions: ['ro'] },
  csidrivers: { spec: { storageCapacity: true } },
  secrets: { metadata: { annotations: { a: 'x' } } },
};

let plane: ControlPlane;
let transport: Transport;
let send: Send;

beforeAll(async () => {
  // Other controllers would change the objects.
  plane = await startControlPlane({ own: true, onlyControllers: ['namespace-controller'] });
  transport = createTransport(plane.server, plane.ca);
  send = senderTo(transport, plane.token('admin'));
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } };
  await send({ method: 'POST', path: '/api/v1/namespaces/default/serviceaccounts', body: account });
});

afterAll(async () => {
  await transport.stop();
  await plane.stop();
});

/** The paths of the object's URL and the stored object. */
async function stored({ group, resource }: ImmutableFields): Promise<{ path: string; object: Stored }> {
  const apiVersion = group === '' ? 'v1' : `${group}/v1`;
  const root = group === '' ? '/api/v1' : `/apis/${apiVersion}`;
  const list = await ask<{ resources: readonly { name: string; kind: string; namespaced: boolean }[] }>(root);
  const found = list.resources.find(({ name }) => name === resource);
  const collection = `${root}${found?.namespaced === true ? '/namespaces/default' : ''}/${resource}`;
  const body = { apiVersion, kind: found?.kind, metadata: { name: 'probe' }, ...OBJECTS[resource] };
  const made = await send({ method: 'POST', path: collection, body });
  if (made.status >= 300 && made.status !== 409) throw new Error(`${collection}: ${made.text}`);
  return { path: `${collection}/probe`, object: await ask<Stored>(`${collection}/probe`) };
}

async function ask<T>(path: string): Promise<T> {
  return JSON.parse((await send({ method: 'GET', path })).text) as T;
}

/** Quantities, addresses and base64 remain valid. */
const changedText = (text: string): string =>
  text.endsWith('==') ? 'eQ==' : /^\d/.test(text) ? `1${text}` : `${text}x`;

/** The value with one of its parts changed, for each part that the row calls immutable. */
function* variants(row: ImmutableFields, value: unknown, path: readonly string[]): Generator {
  const writes = writesImmutable(path, row);
  if (writes === undefined) return;
  if (typeof value === 'string') yield changedText(value);
  else if (typeof value === 'number') yield value + 1;
  else if (typeof value === 'boolean') yield !value;
  else
    for (const [key, child] of Object.entries(value ?? {}))
      for (const one of variants(row, child, [...path, key]))
        yield Array.isArray(value) ? value.with(Number(key), one) : { ...(value as Value), [key]: one };
}

/** The object with one more field, for each of `added`. */
const withAdded = (object: Stored, added: Value): readonly Stored[] =>
  Object.entries(added).flatMap(([section, fields]) =>
    typeof fields !== 'object' || Array.isArray(fields)
      ? [{ ...object, [section]: fields }]
      : Object.entries(fields as Value).map(([name, value]) => ({
          ...object,
          [section]: { ...(object[section] as Value), [name]: value },
        })),
  );

const put = (path: string, body: unknown) => send({ method: 'PUT', path: `${path}?dryRun=All`, body });

const IMMUTABLE =
  /immutable|cannot change|may not (change|add|remove|update)|updates to|forbidden|must match `clusterIP`/i;
const rows = IMMUTABLE_FIELDS.filter(({ resource }) => !resource.includes('/'));

test.each(rows.map((row) => [groupResourceName(row), row.fields.join(' '), row] as const))(
  'the API server refuses to change immutable fields of %s: %s',
  async (_name, _fields, row) => {
    const { path, object } = await stored(row);
    const added = row.ifMarked ? {} : (ABSENT[row.resource] ?? {});
    const attempts = [...variants(row, object, []), ...withAdded(object, added)];
    expect(attempts.length).toBeGreaterThan(0);
    for (const attempt of attempts) {
      const { status, text } = await put(path, attempt);
      expect([status, text], JSON.stringify(attempt)).toEqual([422, expect.stringMatching(IMMUTABLE)]);
    }
  },
);

test.each(rows.map((row) => [groupResourceName(row), row] as const))(
  'the API server changes other fields of %s',
  async (_name, row) => {
    const { path, object } = await stored(row);
    const labelled = {
      ...object,
      metadata: { ...object.metadata, labels: { a: 'x' }, finalizers: ['a.b/c'] },
    };
    for (const attempt of [labelled, ...withAdded(object, MUTABLE[row.resource] ?? {})]) {
      const { status, text } = await put(path, attempt);
      expect(status, text).toBe(200);
    }
  },
);

test.each<[string, Value, (object: Stored) => Value]>([
  [
    'node selectors of suspended Jobs',
    { suspend: true },
    ({ spec }) => {
      const { template } = spec as { readonly template: { readonly spec: Value } };
      return { template: { ...template, spec: { ...template.spec, nodeSelector: { a: 'x' } } } };
    },
  ],
  [
    'the class of a Service that becomes a load balancer',
    { type: 'ClusterIP' },
    () => ({ type: 'LoadBalancer', loadBalancerClass: 'example.com/a' }),
  ],
])('the API server changes %s', async (_what, before, after) => {
  const resource = 'suspend' in before ? 'jobs' : 'services';
  const [row] = rows.filter((one) => one.resource === resource);
  if (row === undefined) throw new Error(`no row of ${resource}`);
  expect(mayOpen(row)).toBe(true);
  const { path, object } = await stored(row);
  const created = { ...object, spec: { ...(object.spec as Value), ...before } };
  const { status: stopped, text: problem } = await send({ method: 'PUT', path, body: created });
  expect(stopped, problem).toBe(200);
  const now = await ask<Stored>(path);
  const { status, text } = await put(path, { ...now, spec: { ...(now.spec as Value), ...after(now) } });
  expect(status, text).toBe(200);
});
