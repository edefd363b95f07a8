/** Records which fields of built-in kinds change through subresources, in src/admission/policy/match: in the oldest or the newest Kubernetes. Needs Go. */
import { readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'yaml';

import { isEqual, pick } from '../src/json/json.ts';
import { startControlPlane } from '../test/support/control-plane.ts';
import { refuseToRecord } from '../test/support/go-programs.ts';
import { senderTo, type Send } from '../test/support/recorded-requests.ts';
import { createTransport } from '../test/support/transport.ts';

type Value = Readonly<Record<string, unknown>>;
type Stored = Value & { readonly metadata: Value };

interface Served {
  /** `pods`, `pods/status`. */
  readonly name: string;
  readonly kind: string;
  readonly group?: string;
  readonly version?: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
}

const DATA = new URL('../test/data/subresource-objects.yaml', import.meta.url);
const TABLE = new URL('../src/admission/policy/match/recorded-subresources.ts', import.meta.url);
const OBJECTS = parse(readFileSync(DATA, 'utf8'), { merge: true }) as Readonly<Record<string, Value>>;
const HEADER = `scripts/record-subresources.ts: do not edit.

/**
 * What requests for the subresources of built-in kinds change: the operation, whether they carry the object's own kind, the
 * fields, and the subresources. \`bindings\` are of Pods.
 */
export const RECORDED_SUBRESOURCES = \`\\`;
/** The fields of the spec that the objects lack. */
const ADDED: Readonly<Record<string, Value>> = {
  pods: { ephemeralContainers: [{ name: 'probe', image: 'probe' }], nodeName: 'probe' },
};
const SENT: Readonly<Record<string, Value>> = {
  Binding: { target: { kind: 'Node', name: 'probe' } },
  TokenRequest: { spec: {} },
};
const METADATA = {
  annotations: { probe: 'x' },
  finalizers: ['example.com/probe'],
  labels: { probe: 'x' },
  ownerReferences: [{ apiVersion: 'v1', kind: 'Probe', name: 'x', uid: 'x' }],
};

let send: Send;
let refusal = '';
/** @returns undefined if the API server refuses the request */
async function ask<T = Stored>(method: string, path: string, body?: Value): Promise<T | undefined> {
  const { status, text } = await send({ method, path, body });
  if (status < 300) return JSON.parse(text) as T;
  refusal = `${method} ${path}: ${text}`;
  return undefined;
}
async function need<T = Stored>(...call: Parameters<typeof ask>): Promise<T> {
  const found = await ask<T>(...call);
  if (found === undefined) throw new Error(refusal);
  return found;
}

/** The value with one of its parts changed or removed, for each part. */
function* variants(value: unknown): Generator {
  if (typeof value === 'string') yield* [`${value}x`, `7${value}`];
  else if (typeof value === 'number') yield value + 1;
  else if (typeof value === 'boolean') yield !value;
  else
    for (const [key, below] of Object.entries(value ?? {})) {
      const list: readonly unknown[] | undefined = Array.isArray(value) ? value : undefined;
      for (const one of variants(below))
        yield list?.with(Number(key), one) ?? { ...(value as Value), [key]: one };
      yield list?.toSpliced(Number(key), 1) ?? { ...(value as Value), [key]: undefined };
    }
}

function* attempts({ metadata, spec, ...rest }: Stored, added: Value = {}): Generator<Stored> {
  for (const [field, value] of Object.entries(METADATA))
    yield { ...rest, spec, metadata: { ...metadata, [field]: value } };
  for (const one of variants(spec)) yield { ...rest, metadata, spec: one };
  for (const [field, value] of Object.entries(added))
    yield { ...rest, metadata, spec: { ...(spec as Value), [field]: value } };
}

/** Paths such as `spec.containers.*.resources`. */
function difference(before: unknown, after: unknown, path: readonly string[] = []): readonly string[] {
  const [left, right] = [before, after].map((one) => (typeof one === 'object' ? (one as Value) : null));
  if (isEqual(before, after)) return [];
  if (!left || !right || path.length === (path[0] === 'metadata' ? 2 : 4)) return [path.join('.')];
  return Object.keys({ ...left, ...right }).flatMap((key) =>
    difference(left[key], right[key], [...path, Array.isArray(left) ? '*' : key]),
  );
}

const DELETION = 'deletionTimestamp';
const seen = ({ metadata, spec }: Stored) => ({
  metadata: pick(metadata, ...Object.keys(METADATA), DELETION),
  spec,
});
const changes = (before: Stored, after: Stored | undefined): readonly string[] =>
  after === undefined ? [`metadata.${DELETION}`] : difference(seen(before), seen(after));

/** What all requests for the subresource change in the object at the path. */
async function fieldsOf(path: string, { name, kind, verbs, ...sub }: Served, main: Served) {
  const at = name === 'bindings' ? path.replace(/pods.*/, name) : `${path}/${name.split('/')[1] ?? ''}`;
  if (verbs.includes('delete') || kind.endsWith('Options') || verbs.join() === 'get') return [];
  const before = await need('GET', path);
  if (verbs.includes('create')) {
    const apiVersion = [sub.group, sub.version].filter(Boolean).join('/');
    const metadata = { ...METADATA, name: before.metadata.name };
    await need('POST', at, { apiVersion, kind, metadata, ...SENT[kind] });
    return changes(before, await ask('GET', path));
  }
  const query = kind === main.kind ? '?dryRun=All' : '';
  const put = async (attempt: Stored): Promise<readonly string[] | undefined> => {
    const old = await need('GET', path);
    const metadata = { ...attempt.metadata, resourceVersion: old.metadata.resourceVersion };
    const answer = await ask('PUT', `${at}${query}`, { ...attempt, metadata });
    if (answer !== undefined) return changes(old, query === '' ? await need('GET', path) : answer);
    return refusal.includes('"code":409') ? await put(attempt) : undefined;
  };
  const found: (readonly string[] | undefined)[] = [];
  for (const attempt of attempts(query === '' ? await need('GET', at) : before, ADDED[main.name]))
    found.push(await put(attempt));
  if (found.every((one) => one === undefined)) throw new Error(`nothing can be written: ${refusal}`);
  return found.flatMap((one) => one ?? []);
}

/** @returns names such as `deployments.apps/scale`, the start of their group in the table, and their fields */
async function* record(root: string) {
  const { resources } = await need<{ readonly resources: readonly Served[] }>('GET', root);
  for (const main of resources) {
    const isOf = ({ name }: Served) =>
      name.startsWith(`${main.name}/`) || (name === 'bindings' && main.name === 'pods');
    const collection = `${root}${main.namespaced ? '/namespaces/default' : ''}/${main.name}`;
    const apiVersion = root.replace(/^\/apis?\//, '');
    for (const sub of resources.filter(isOf)) {
      const { metadata, ...rest } = OBJECTS[main.name] ?? {};
      const named = { name: 'probe', ...(metadata as Value | undefined) };
      const path = `${collection}/${named.name}`;
      if ((await ask('GET', path)) === undefined)
        await need('POST', collection, { apiVersion, kind: main.kind, metadata: named, ...rest });
      const fields = await fieldsOf(path, sub, main);
      const operation = sub.verbs.includes('update') ? 'UPDATE' : 'CREATE';
      const [group = ''] = apiVersion.includes('/') ? [`.${apiVersion.replace(/\/.*/, '')}`] : [];
      const name = sub.name.replace(/^[^/]+/, `$&${group}`);
      yield { name, head: `${operation} ${sub.kind === main.kind ? 'own' : 'other'}`, fields };
      if (operation === 'CREATE') await ask('DELETE', `${path}?gracePeriodSeconds=0`);
    }
  }
}

const found = new Map<string, { readonly head: string; readonly fields: Set<string> }>();

/** @returns the version of Kubernetes */
async function recordFrom(release: 'oldest' | 'newest'): Promise<string> {
  process.env.GATEHOUSE_KUBERNETES = release;
  // Other controllers would change the objects.
  const plane = await startControlPlane({ own: true, onlyControllers: ['namespace-controller'] });
  const transport = createTransport(plane.server, plane.ca);
  send = senderTo(transport, plane.token('admin'));
  try {
    const { gitVersion } = plane.version;
    if (release === 'newest') refuseToRecord(gitVersion);
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } };
    await need('POST', '/api/v1/namespaces/default/serviceaccounts', account);
    const { groups } = await need<{ readonly groups: readonly { preferredVersion: Value }[] }>(
      'GET',
      '/apis',
    );
    const roots = groups.map(({ preferredVersion }) => `/apis/${String(preferredVersion.groupVersion)}`);
    for (const root of ['/api/v1', ...roots])
      for await (const { name, head, fields } of record(root)) {
        const known = found.get(name)?.fields ?? [];
        found.set(name, { head, fields: new Set([...known, ...fields]) });
      }
    return gitVersion;
  } finally {
    await transport.stop();
    await plane.stop();
  }
}

const versions = [await recordFrom('newest'), await recordFrom('oldest')];
const groups = Map.groupBy(found, ([, { head, fields }]) =>
  fields.size === 0 ? 'nothing' : [head, ...[...fields].sort()].join(' '),
);
const table = [...groups].map(([head, all]) => {
  const names = all.map(([name]) => name).join(' ');
  return `${head}:${names.replaceAll(/(.{1,108})(?: |$)/g, '\n  $1')}`;
});
writeFileSync(
  TABLE,
  [
    `// Recorded from Kubernetes ${versions.toReversed().join(' and ')} by ${HEADER}`,
    ...table,
    '`;',
    '',
  ].join('\n'),
);
