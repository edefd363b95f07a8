/** The objects that the load of the chaos suite writes: Machines that refer to Racks, and the policy for Machines. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { definitionOf, resourceOf, versionOf, withSpec } from '../support/definitions.ts';
import { admissionPolicy, referencesRole } from '../support/objects.ts';

const GROUP = 'chaos.example.com';

export const MACHINES = resourceOf(GROUP, 'machines', 'Machine');
export const RACKS = resourceOf(GROUP, 'racks', 'Rack', false);

export const LOAD_NAMESPACES = ['east', 'west'] as const;
/** These Racks exist during the whole run. Each is the rack of a Machine that the load never deletes. */
export const LASTING_RACKS = ['rack-0', 'rack-1', 'rack-2', 'rack-3'] as const;

export interface MachineSpec {
  readonly rack?: string | undefined;
  readonly tier?: string | undefined;
  readonly units?: number | undefined;
  readonly serial?: string | undefined;
  readonly note?: string | undefined;
}

export interface Machine extends KubeObject {
  readonly spec: MachineSpec;
}

export const machine = (namespace: string, name: string, spec: MachineSpec): Machine => ({
  apiVersion: `${GROUP}/v1`,
  kind: MACHINES.kind,
  metadata: { namespace, name },
  spec,
});

export const rack = (name: string): KubeObject => ({
  apiVersion: `${GROUP}/v1`,
  kind: RACKS.kind,
  metadata: { name },
});

export const MOST_UNITS = 64;
export const DEFAULT_TIER = 'standard';
export const STAMP = 'stamp';

export const machinePolicy = (stamp: string, timeoutSeconds = 10): Manifest =>
  admissionPolicy('machines', {
    match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: [MACHINES.resource] },
    timeoutSeconds,
    defaults: [{ path: 'spec.tier', value: DEFAULT_TIER }],
    mutations: [{ name: 'stamp', expression: `{"metadata": {"labels": {"${STAMP}": "${stamp}"}}}` }],
    validate: {
      immutable: ['spec.rack'],
      unique: [{ name: 'serial', paths: ['spec.serial'] }],
      references: [
        {
          name: 'rack',
          path: 'spec.rack',
          optional: false,
          target: { apiGroup: GROUP, resource: RACKS.resource },
          onTargetDelete: 'Restrict',
        },
      ],
      rules: [
        {
          expression: `!has(object.spec.units) || object.spec.units <= ${MOST_UNITS}`,
          message: `a machine has ${MOST_UNITS} units at most`,
          fieldPath: 'spec.units',
        },
      ],
    },
  });

/** A policy with a different scope, so it has its own webhook entry. It accepts everything that the load writes. */
export const rackPolicy: Manifest = admissionPolicy('racks', {
  match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: [RACKS.resource], operations: ['CREATE'] },
  timeoutSeconds: 10,
  validate: {
    rules: [
      { expression: '!object.metadata.name.startsWith("condemned-")', message: 'this rack is condemned' },
    ],
  },
});

export type Manifest = KubeObject & { readonly spec?: object; readonly rules?: readonly object[] };

const definition = (kind: Resource, spec: object): Manifest =>
  definitionOf(kind, { versions: [versionOf('v1', withSpec(spec))] });

const text = { type: 'string' };

export const kindManifests: readonly Manifest[] = [
  definition(RACKS, {}),
  definition(MACHINES, { rack: text, tier: text, units: { type: 'integer' }, serial: text, note: text }),
  referencesRole('chaos', GROUP, [MACHINES.resource, RACKS.resource]),
];
