/** Rehearsals of restores of Shops and Zones, for tests. */
import type { JsonObject } from '../../src/json/json.ts';
import { toInput, type RehearseFlags, type RehearsalInput } from '../../src/cli/restore/rehearse/input.ts';
import { rehearseRestore, shippedDetector } from '../../src/cli/restore/rehearse/rehearsal.ts';
import { describeOutcome } from '../../src/cli/restore/rehearse/replay.ts';
import { definitionOf, resourceOf } from './definitions.ts';

export const GROUP = 'shop.example.com';

export function definition(kind: string, scope: 'Cluster' | 'Namespaced', more: JsonObject = {}): JsonObject {
  const plain = definitionOf(resourceOf(GROUP, `${kind.toLowerCase()}s`, kind, scope === 'Namespaced'));
  return {
    ...(plain as unknown as JsonObject), // our own object
    metadata: { name: `${kind.toLowerCase()}s.${GROUP}`, ...more },
    status: { conditions: [], acceptedNames: { plural: '', kind: '' }, storedVersions: ['v1'] },
  };
}
export const CRDS = [definition('Shop', 'Namespaced'), definition('Zone', 'Cluster')];

export const object = (
  kind: string,
  name: string,
  spec: JsonObject = {},
  metadata: JsonObject = {},
): JsonObject => ({
  apiVersion: `${GROUP}/v1`,
  kind,
  spec,
  metadata: { name, ...(kind === 'Zone' ? {} : { namespace: 'east' }), ...metadata },
});
export const shop = (name: string, spec: JsonObject = {}, metadata: JsonObject = {}) =>
  object('Shop', name, spec, { uid: 'old', managedFields: [], ...metadata });

export const policy = (spec: JsonObject): JsonObject => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'AdmissionPolicy',
  metadata: { name: 'shops' },
  spec: { match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['shops'] }, ...spec },
});
/** The match of a policy for Namespaces. */
export const NAMESPACES = { apiGroups: [''], apiVersions: ['v1'], resources: ['namespaces'] };
/** The detector of Velero that Gatehouse ships, with other fields in its spec. */
export const detectorOf = (spec: JsonObject = {}): JsonObject => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreDetector',
  metadata: { name: 'velero' },
  spec: { ...(shippedDetector('velero').spec as unknown as JsonObject), ...spec },
});
export const REFERENCE = {
  references: [{ name: 'zone', path: 'spec.zone', target: { apiGroup: GROUP, resource: 'zones' } }],
};

const placed = (objects: readonly JsonObject[]) =>
  objects.map((one) => ({ object: one, place: { file: 'test' } }));

interface Scene {
  readonly backup?: readonly JsonObject[];
  /** Instead of `backup`: as it was read. */
  readonly read?: RehearsalInput['objects'];
  readonly own?: readonly JsonObject[];
  readonly existing?: readonly JsonObject[];
  readonly unread?: RehearsalInput['unread'];
  readonly flags?: Partial<RehearseFlags>;
  readonly dryRun?: NonNullable<RehearsalInput['dryRun']>;
  readonly restore?: readonly JsonObject[];
}

export async function rehearsed({
  backup = [],
  read = placed(backup),
  own = [],
  existing = CRDS,
  unread = [],
  flags = {},
  dryRun = (outcomes) => Promise.resolve({ outcomes, findings: [] }),
  restore = [],
}: Scene) {
  const clusters = { policies: placed(own), existing: placed(existing), restore: placed(restore) };
  const { findings, outcomes, notes } = await rehearseRestore(
    { ...toInput({ objects: read, notes: [], unread }, clusters), dryRun },
    {
      namespaceMappings: [],
      existingResourcePolicy: 'none',
      veleroNamespace: 'velero',
      window: true,
      output: 'table',
      ...(restore.length === 0 ? {} : { restore: ['test'] }),
      ...flags,
    },
    new Date('2026-11-27T12:00:00Z'),
  );
  return {
    notes,
    lines: findings.map(
      ({ severity, reason, object: name, message }) => `${severity} ${reason} ${name}: ${message}`,
    ),
    results: outcomes.map((one) => `${one.result} ${describeOutcome(one)}`),
    restored: outcomes.filter(({ result }) => result === 'restored').map(({ item: { name } }) => name),
  };
}
