// suite: shared-plane, sandbox: long, nightly
/** The type checks of kube-controller-manager and of the imitation warn about the same compiled policies. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { installedOf } from '../../src/admission/native/installed-policy.ts';
import { compileNative } from '../../src/admission/native/native-policy.ts';
import { listIn, valueIn, type JsonObject } from '../../src/json/json.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { mapConcurrent } from '../../src/json/map-concurrent.ts';
import { customResourceDefinitions, validatingAdmissionPolicies } from '../../src/kube/well-known.ts';
import { ofJson } from '../../src/machinery/api-object.ts';
import { DEFINITIONS } from '../../src/machinery/crd/definition.ts';
import { typeWarnings } from '../../src/machinery/policies/type-check.ts';
import { createRegistry } from '../../src/machinery/registry.ts';
import { createStorage } from '../../src/machinery/storage/storage.ts';
import { compileSpec, policyOf } from '../support/admission/policy.ts';
import { established, startCluster, type Cluster } from '../support/cluster.ts';
import { definitionOf, versionOf, withSpec } from '../support/definitions.ts';
import { specFrom } from '../support/native/generated.ts';
import { specOf } from '../support/native/judge.ts';
import { isNightly } from '../support/nightly.ts';
import { eventually } from '../support/processes.ts';
import { createSeeded } from '../support/seeded.ts';
import { COMPARED } from '../support/native/policies.ts';

const OPTIONS = { ownNamespace: 'gatehouse-system', restorers: [], others: [] };

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster();
});

afterAll(() => cluster.stop());

const TYPES = 'typed.example.com';
const text = { type: 'string' };
const integer = { type: 'integer' };

/** A kind with all fields that the policies read: expressions are checked against its schema. */
const TYPED = definitionOf(
  { group: TYPES, version: 'v1', resource: 'servers', kind: 'Server', namespaced: true },
  {
    versions: [
      versionOf(
        'v1',
        withSpec({
          tier: text,
          note: text,
          list: { type: 'array', items: text },
          units: integer,
          in: integer,
          namespace: integer,
          enabled: { type: 'boolean' },
        }),
      ),
    ],
  },
);

test('the type checks warn about what the policies say of their kind, and about nothing else', async () => {
  await cluster.apply(TYPED);
  await established(cluster, TYPED.metadata?.name ?? '');
  const definition = await cluster.admin.get<KubeObject>(customResourceDefinitions, {
    name: TYPED.metadata?.name ?? '',
  });
  const storage = createStorage();
  storage.create(DEFINITIONS, ofJson(definition as unknown as JsonObject));
  const registry = createRegistry([], storage);
  const chance = createSeeded(3);
  const specs = [...COMPARED, ...Array.from({ length: isNightly ? 160 : 40 }, () => specFrom(chance))];
  const policies = specs.flatMap(({ params, match, ...spec }, index) => {
    // A rule with a star is not checked. The schemas of params are empty.
    if (params !== undefined || match?.resources.includes('namespaces') === true) return [];
    const ofType = { ...match, apiGroups: [TYPES], apiVersions: ['v1'], resources: ['servers'] };
    const result = compileSpec({ ...spec, match: ofType }, `typed-${index}`);
    if (result.kind === 'rejected') return [];
    return compileNative(result.policy, OPTIONS).pairs.map((pair): KubeObject => {
      const { policy } = installedOf(pair, { name: result.policy.name, uid: '1' });
      // There is no AdmissionPolicy, and the garbage collector would delete what it owns.
      return { ...policy, metadata: { ...policy.metadata, ownerReferences: [] } };
    });
  });
  await seeTypes();
  await mapConcurrent(policies, 8, (policy) => cluster.admin.create(validatingAdmissionPolicies, policy));
  const stored = await checked('typed-');
  expect(stored).toHaveLength(policies.length);
  const warned = stored.filter((one) => {
    const warnings = listIn(one, 'status', 'typeChecking', 'expressionWarnings');
    expect(warnings, one.metadata?.name).toEqual(typeWarnings(specOf(one), registry));
    return warnings.length > 0;
  });
  expect(warned.length).toBeGreaterThan(0);
  expect(warned.length).toBeLessThan(policies.length / 2);
});

/** The stored policies whose names start so, once their types are checked. */
const checked = (prefix: string): Promise<readonly KubeObject[]> =>
  eventually(
    `the type checks of ${prefix}`,
    async () => {
      const { items } = await cluster.admin.list<KubeObject>(validatingAdmissionPolicies);
      const ours = items.filter(({ metadata }) => metadata?.name?.startsWith(prefix) === true);
      const isChecked = (one: KubeObject) =>
        valueIn(one, 'status', 'observedGeneration') === one.metadata?.generation;
      return ours.every(isChecked) ? ours : undefined;
    },
    { timeoutMs: 60_000, everyMs: 200 },
  );

/** kube-controller-manager learns of new kinds twice a minute. Before, it calls their policies checked, and checks nothing. */
async function seeTypes(): Promise<void> {
  let tries = 0;
  const isWarned = async () => {
    tries += 1;
    const spec = {
      match: { apiGroups: [TYPES], apiVersions: ['v1'], resources: ['servers'] },
      validate: { rules: [{ expression: 'object.spec.absent == 1' }] },
    };
    const [pair] = compileNative(policyOf(spec, `first-${tries}`), OPTIONS).pairs;
    if (pair === undefined) throw new Error('the policy does not compile');
    await cluster.admin.create(validatingAdmissionPolicies, pair.policy);
    const stored = await checked(`first-${tries}.`);
    return stored.some((one) => listIn(one, 'status', 'typeChecking', 'expressionWarnings').length > 0);
  };
  await eventually('warnings about the new kind', isWarned, { timeoutMs: 90_000, everyMs: 2_000 });
}
