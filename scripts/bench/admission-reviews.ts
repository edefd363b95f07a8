/** AdmissionReviews as the API server sends them: small and large Servers, all different. */
import { randomBytes, randomUUID } from 'node:crypto';

import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';

export const SIZES = { '3 KB': 3_000, '100 KB': 100_000 } as const;
export type Size = keyof typeof SIZES;

/** The number of different reviews of a kind. Identical JSON would hit caches that real clusters do not have. */
const VARIANTS = 32;

export const datacenterName = (index: number): string => `dc-${index}`;

/** Reviews of Servers that violate no rule and lack the fields that the policy defaults. */
export function createReviews(size: Size, datacenters: number): readonly string[] {
  return Array.from({ length: VARIANTS }, (_, index) => {
    const name = `server-${index}-${randomBytes(4).toString('hex')}`;
    const datacenter = datacenterName((index * 7_919) % datacenters);
    return reviewOf(serverOf(name, datacenter, SIZES[size]));
  });
}

export const SERVER_POLICY = {
  match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'] },
  defaults: [
    { path: 'spec.tier', value: 'standard' },
    { path: 'spec.power.limitWatts', value: 800 },
  ],
  validate: {
    schema: {
      properties: {
        spec: {
          required: ['units', 'rack', 'serial'],
          properties: {
            units: { type: 'integer', minimum: 1, maximum: 48 },
            rack: { properties: { position: { type: 'integer' } } },
            serial: { type: 'string', maxLength: 64 },
            disks: {
              type: 'array',
              maxItems: 4_096,
              items: {
                required: ['name', 'sizeGiB'],
                properties: {
                  name: { type: 'string', minLength: 1, maxLength: 63 },
                  sizeGiB: { type: 'integer', minimum: 1 },
                },
              },
            },
          },
        },
      },
    },
    references: [
      {
        name: 'datacenter',
        path: 'spec.datacenter',
        optional: false,
        target: { apiGroup: 'infra.example.com', resource: 'datacenters' },
      },
    ],
    rules: [
      {
        name: 'rack',
        expression: 'object.spec.units + object.spec.rack.position <= 48',
        message: 'it does not fit into its rack',
      },
    ],
  },
} as const satisfies AdmissionPolicySpec;

function serverOf(name: string, datacenter: string, bytes: number) {
  const server = (disks: readonly object[]) => ({
    apiVersion: 'infra.example.com/v1',
    kind: 'Server',
    metadata: metadataOf(name),
    spec: {
      datacenter,
      units: 2,
      rack: { row: 'b', position: 17 },
      serial: randomBytes(8).toString('hex'),
      power: { feeds: ['a', 'b'] },
      network: { mtu: 9_000, addresses: ['10.20.30.40', '2001:db8::17'], vlan: 204 },
      disks,
    },
  });
  const disks: object[] = [];
  let length = JSON.stringify(server(disks)).length;
  while (length < bytes) {
    const disk = diskOf(disks.length);
    disks.push(disk);
    length += JSON.stringify(disk).length + 1;
  }
  return server(disks);
}

const diskOf = (index: number) => ({
  name: `disk-${index}`,
  class: index % 2 === 0 ? 'nvme' : 'hdd',
  sizeGiB: 960 + index,
  serial: randomBytes(8).toString('hex'),
});

function metadataOf(name: string) {
  return {
    name,
    namespace: 'store',
    uid: randomUUID(),
    creationTimestamp: '2026-11-21T12:00:00Z',
    generation: 1,
    labels: { 'app.kubernetes.io/name': name, 'app.kubernetes.io/part-of': 'fleet', team: 'hardware' },
    annotations: { 'example.com/owner': 'hardware@example.com', 'example.com/ticket': 'HW-10234' },
    managedFields: [
      {
        manager: 'kubectl-client-side-apply',
        operation: 'Update',
        apiVersion: 'infra.example.com/v1',
        time: '2026-11-21T12:00:00Z',
        fieldsType: 'FieldsV1',
        fieldsV1: {
          'f:metadata': { 'f:labels': { '.': {}, 'f:team': {} } },
          'f:spec': { '.': {}, 'f:datacenter': {}, 'f:units': {}, 'f:rack': { '.': {}, 'f:row': {} } },
        },
      },
    ],
  };
}

function reviewOf(object: ReturnType<typeof serverOf>): string {
  const kind = { group: 'infra.example.com', version: 'v1', kind: 'Server' };
  const resource = { group: 'infra.example.com', version: 'v1', resource: 'servers' };
  return JSON.stringify({
    kind: 'AdmissionReview',
    apiVersion: 'admission.k8s.io/v1',
    request: {
      uid: randomUUID(),
      kind,
      resource,
      requestKind: kind,
      requestResource: resource,
      name: object.metadata.name,
      namespace: 'store',
      operation: 'CREATE',
      userInfo: {
        username: 'system:serviceaccount:ci:deployer',
        uid: randomUUID(),
        groups: ['system:serviceaccounts', 'system:serviceaccounts:ci', 'system:authenticated'],
      },
      object,
      oldObject: null,
      dryRun: false,
      options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1', fieldManager: 'kubectl' },
    },
  });
}
