// suite: shared-plane, sandbox: long
/**
 * The policies of deploy/examples outlive Gatehouse: the leader hands their checks to the API server, and with all replicas
 * killed, each of these checks still refuses.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { AdmissionPolicyStatus } from '../../src/api/admission-policy.ts';
import { readManifests } from '../../src/cli/deploy-manifests.ts';
import { messageOf } from '../../src/json/error-message.ts';
import { valueIn } from '../../src/json/json.ts';
import { splitApiVersion, type KubeObject } from '../../src/json/kube-object.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import type { Resource } from '../../src/kube/object.ts';
import { validatingAdmissionPolicyBindings } from '../../src/kube/well-known.ts';
import { hasMutatingPolicies } from '../support/backstop.ts';
import {
  ADMISSION_POLICIES,
  applyExamples,
  createNamespace,
  DATACENTERS,
  established,
  SERVERS,
  type Cluster,
} from '../support/cluster.ts';
import { refusal, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { datacenter, server } from '../support/objects.ts';
import {
  compileFolder,
  LIBRARY,
  libraryCases,
  SUITES,
  wordsOf,
  type LibraryCase,
} from '../support/policy-library.ts';
import { eventually } from '../support/processes.ts';

interface Policy extends KubeObject {
  readonly status?: AdmissionPolicyStatus;
}

const UNSERVED_MUTATING =
  'the API server serves no MutatingAdmissionPolicies: it does from Kubernetes 1.36 on';
const CONFIRMED = { timeoutMs: 90_000, everyMs: 500 };
const EXAMPLES = compileFolder(join(LIBRARY, '..'));
const POLICIES = [...EXAMPLES, ...compileFolder(LIBRARY)];
const CHECKS = POLICIES.flatMap(({ name, checks }) =>
  checks.map((one) => ({ ...one, words: wordsOf(name, one.check) })),
);

let cluster: Cluster;
let replica: Replica;
let fillsDefaults: boolean;

/** `failurePolicy: Ignore`: with all replicas killed, only the API server itself can refuse. */
const ignoring = (policy: KubeObject): KubeObject => ({
  ...policy,
  ...{ spec: { ...(policy as { readonly spec?: object }).spec, failurePolicy: 'Ignore' } },
});

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    arrangement: 'both',
    settings: { 'compile-policies': 'true' },
    prepare: (prepared) => prepared.applyFolder('components/compile-policies'),
  }));
  fillsDefaults = hasMutatingPolicies(cluster);
  await applyExamples(cluster);
  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  await createNamespace(cluster, 'racks');
  await cluster.applyFolder('examples/library', ({ kind }) => kind !== 'AdmissionPolicy');
  await established(cluster, 'replicalimits.policies.example.com');
  await cluster.apply(...readManifests(join(SUITES, 'objects')));
  for (const folder of ['..', '.'])
    await cluster.apply(
      ...readManifests(join(LIBRARY, folder))
        .filter(({ kind }) => kind === 'AdmissionPolicy')
        .map(ignoring),
    );
});

afterAll(() => cluster.stop());

const enforcersOf = async (name: string) =>
  (await cluster.admin.get<Policy>(ADMISSION_POLICIES, { name }))?.status?.enforcedBy ?? [];

test('status.enforcedBy says who enforces each check of the library, and why not the API server', async () => {
  for (const { name, checks } of POLICIES) {
    const wanted = checks.map(({ check, ...one }) => {
      if (one.by === 'Webhook') return { check, by: one.by, reason: one.reason };
      return one.part === 'changes' && !fillsDefaults
        ? { check, by: 'Webhook', reason: UNSERVED_MUTATING }
        : { check, by: one.by };
    });
    const isKnown = async () => {
      const found = await enforcersOf(name);
      return (
        JSON.stringify(found.map(({ by }) => by)) === JSON.stringify(wanted.map(({ by }) => by)) &&
        found.length > 0
      );
    };
    await eventually(`the enforcers of ${name}`, isKnown, CONFIRMED).catch(() => undefined);
    expect(await enforcersOf(name), name).toEqual(wanted);
  }
});

/** The kinds of the suites. */
function createKinds() {
  const discovery = createDiscovery(cluster.adminRest, systemClock);
  return async ({ apiVersion = '', kind = '' }: KubeObject): Promise<Resource> => {
    const found = await discovery.resolveKind({ ...splitApiVersion(apiVersion), kind });
    if (found === undefined) throw new Error(`${kind} is not served`);
    return found;
  };
}

const UNKNOWN = 'the API server does not know a field, and left it out';

function hasFieldsOf(sent: unknown, stored: unknown): boolean {
  if (typeof sent !== 'object' || sent === null) return true;
  if (typeof stored !== 'object' || stored === null) return false;
  const found = new Map<string, unknown>(Object.entries(stored));
  return Object.entries(sent).every(([key, value]) => found.has(key) && hasFieldsOf(value, found.get(key)));
}

const placed = (object: KubeObject, { namespaced }: Resource): KubeObject =>
  namespaced ? { ...object, metadata: { namespace: 'shop', ...object.metadata } } : object;

/** Creates what a case changes or deletes. @returns the write of the case, as a dry run */
async function prepare(
  { object, old, operation }: LibraryCase,
  index: number,
  resourceOf: ReturnType<typeof createKinds>,
): Promise<() => Promise<unknown>> {
  const resource = await resourceOf(object);
  const { admin } = cluster;
  const given = placed(object, resource);
  if (operation === undefined && old === undefined)
    return () => admin.create(resource, given, { dryRun: true });
  const before = placed(old ?? object, resource);
  const name = `${before.metadata?.name}-${index}`;
  const stored = await admin.create(resource, { ...before, metadata: { ...before.metadata, name } });
  const { metadata } = stored;
  const ref = { name, namespace: metadata.namespace };
  if (operation === 'DELETE') return () => admin.delete(resource, ref, { dryRun: true });
  const { labels = {} } = given.metadata ?? {};
  return () => admin.replace(resource, { ...given, metadata: { ...metadata, labels } }, { dryRun: true });
}

test('with all replicas killed, each check that compiles refuses in the same words, and the others need a replica', async () => {
  const resourceOf = createKinds();
  const writes = await Promise.all(
    libraryCases()
      .filter(({ expect: { decision } }) => decision === 'deny')
      .map(async (one, index) => ({ ...one, write: await prepare(one, index, resourceOf) })),
  );
  const stored = await cluster.admin.create(SERVERS, server('racks', 'web', 'fra1'));
  replica.program.kill('SIGKILL');
  await replica.program.exited;

  const filled = await cluster.admin.create(SERVERS, server('racks', 'db', 'fra1'), { dryRun: true });
  expect(valueIn(filled, 'spec', 'tier')).toBe(fillsDefaults ? 'standard' : undefined);
  const moved = cluster.admin.replace(SERVERS, { ...stored, ...{ spec: { datacenter: 'muc1' } } });
  const refusals = [(await refusal(moved)).message];
  const refusalOf = (write: () => Promise<unknown>, sent: unknown) =>
    write().then(
      (stored) => (hasFieldsOf(sent, stored) ? 'it was admitted' : UNKNOWN),
      (error: unknown) => messageOf(error),
    );
  const unknown: string[] = [];
  const others: { name: string; write: () => Promise<unknown>; object: KubeObject; message: string }[] = [];
  for (const {
    name,
    object,
    write,
    expect: { message = '' },
  } of writes) {
    const isLeft = CHECKS.some(({ by, words: [check = ''] }) => by === 'Webhook' && message.includes(check));
    if (isLeft) {
      await write();
      continue;
    }
    const said = await refusalOf(write, object);
    if (said === UNKNOWN) {
      unknown.push(name);
      continue;
    }
    expect(said, name).toContain('ValidatingAdmissionPolicy');
    // Of several policies that refuse, the API server names any one.
    if (said.includes(message)) refusals.push(said);
    else others.push({ name, write, object, message });
  }
  // Volumes of images came with Kubernetes 1.31, and are on by default since 1.35.
  const isOlder = cluster.plane.version.minor < 35;
  expect(unknown).toEqual(isOlder ? ['a volume with an image of another registry'] : []);
  for (const { name, write, object, message } of others)
    await eventually(`${name}: ${message}`, async () => {
      const said = await refusalOf(write, object);
      const [, binding] = /with binding '([^']+)'/.exec(said) ?? [];
      if (!said.includes(message) && binding !== undefined)
        await cluster.admin.delete(validatingAdmissionPolicyBindings, { name: binding });
      return said.includes(message) && refusals.push(said) > 0;
    });
  for (const { check, by, words } of CHECKS) {
    if (check === 'defaults') continue; // they refuse nothing
    const found = refusals.filter((said) => words.every((one) => said.includes(one)));
    expect(found.length > 0, `${check} ${words.join(' ')}`).toBe(by === 'APIServer');
  }
});
