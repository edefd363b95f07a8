/** For tests: a CustomResourceDefinition whose versions differ, and a compiled policy that converts them. */
import type { ConversionPolicy, ConversionPolicySpec } from '../../../src/api/conversion-policy.ts';
import type { JsonObject } from '../../../src/json/json.ts';
import { compileConversion, type CompiledConversion } from '../../../src/admission/conversion/compile.ts';
import { readDefinition, type Definition } from '../../../src/admission/conversion/definition.ts';

export const GROUP = 'infra.example.com';

const text = { type: 'string' };
const integer = { type: 'integer', format: 'int64' };
const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };

const objectOf = (properties: JsonObject) => ({ type: 'object', properties });

/** `spec.endpoint` is `host:port`; sizes are strings; no tier. */
export const v1Schema = objectOf({
  spec: objectOf({
    endpoint: text,
    rack: text,
    replicas: integer,
    disks: { type: 'array', items: objectOf({ name: text, size: text }) },
    sizes: { type: 'array', items: text },
    extra: anything,
    legacy: objectOf({ mode: text }),
  }),
  status: objectOf({ phase: text }),
});

/** `spec.address` has host and port; sizes are integers; the rack is an annotation. */
export const v2Schema = objectOf({
  spec: objectOf({
    address: objectOf({ host: text, port: integer, zone: text }),
    replicas: integer,
    tier: text,
    disks: { type: 'array', items: objectOf({ name: text, gigabytes: integer, class: text }) },
    sizes: { type: 'array', items: text },
    extra: anything,
    tuning: anything,
  }),
  status: objectOf({ state: text, observed: integer }),
});

/** As v1, but `spec.count` instead of replicas, and no disks. */
export const v3Schema = objectOf({
  spec: objectOf({ endpoint: text, count: integer, extra: anything, note: text }),
  status: objectOf({ phase: text }),
});

export interface VersionFields {
  readonly name: string;
  readonly schema?: object;
  readonly served?: boolean;
  readonly storage?: boolean;
}

export function crd(versions: readonly VersionFields[], spec: object = {}, status: object = {}): object {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `servers.${GROUP}` },
    spec: {
      group: GROUP,
      scope: 'Namespaced',
      names: { kind: 'Server', plural: 'servers', singular: 'server', listKind: 'ServerList' },
      versions: versions.map(({ name, schema, served = true, storage = name === 'v2' }) => ({
        name,
        served,
        storage,
        ...(schema === undefined ? {} : { schema: { openAPIV3Schema: schema } }),
      })),
      ...spec,
    },
    status,
  };
}

export function definitionOf(...fields: Parameters<typeof crd>): Definition {
  const definition = readDefinition(crd(...fields));
  if (definition === undefined) throw new Error('this is not a CustomResourceDefinition');
  return definition;
}

export const threeVersions = (spec: object = {}): Definition =>
  definitionOf(
    [
      { name: 'v1', schema: v1Schema },
      { name: 'v2', schema: v2Schema },
      { name: 'v3', schema: v3Schema },
    ],
    spec,
  );

const HAS_ENDPOINT = 'has(object.spec) && has(object.spec.endpoint)';
const HAS_ADDRESS = 'has(object.spec) && has(object.spec.address) && has(object.spec.address.host)';

const address = [
  {
    set: {
      path: 'spec.address.host',
      when: HAS_ENDPOINT,
      expression: 'object.spec.endpoint.split(":")[0]',
    },
  },
  {
    set: {
      path: 'spec.address.port',
      when: `${HAS_ENDPOINT} && object.spec.endpoint.matches("^[^:]*:[0-9]{1,9}$")`,
      expression: 'int(object.spec.endpoint.split(":")[1])',
    },
  },
  { remove: { path: 'spec.endpoint' } },
];

const endpoint = [
  {
    set: {
      path: 'spec.endpoint',
      when: HAS_ADDRESS,
      expression:
        'object.spec.address.host + (has(object.spec.address.port) ? ":" + string(object.spec.address.port) : "")',
    },
  },
  { remove: { path: 'spec.address' } },
];

/** One policy that uses every kind of conversion step. */
export const serversSpec: ConversionPolicySpec = {
  target: { apiGroup: GROUP, resource: 'servers' },
  hub: 'v2',
  versions: [
    {
      name: 'v1',
      toHub: [
        ...address,
        { move: { from: 'spec.rack', to: 'metadata.annotations["example.com/rack"]' } },
        { move: { from: 'status.phase', to: 'status.state' } },
        { default: { path: 'spec.tier', value: 'standard' } },
        {
          set: {
            path: 'spec.disks[*].gigabytes',
            when: 'has(item.size) && item.size.matches("^[0-9]{1,9}Gi$")',
            expression: 'int(item.size.split("Gi")[0])',
          },
        },
        { remove: { path: 'spec.disks[*].size' } },
      ],
      fromHub: [
        ...endpoint,
        { move: { from: 'metadata.annotations["example.com/rack"]', to: 'spec.rack' } },
        { move: { from: 'status.state', to: 'status.phase' } },
        {
          set: {
            path: 'spec.disks[*].size',
            when: 'has(item.gigabytes)',
            expression: 'string(item.gigabytes) + "Gi"',
          },
        },
        { remove: { path: 'spec.disks[*].gigabytes' } },
      ],
    },
    {
      name: 'v3',
      toHub: [
        ...address,
        { move: { from: 'spec.count', to: 'spec.replicas' } },
        { move: { from: 'status.phase', to: 'status.state' } },
      ],
      fromHub: [
        ...endpoint,
        { move: { from: 'spec.replicas', to: 'spec.count' } },
        { move: { from: 'status.state', to: 'status.phase' } },
      ],
    },
  ],
};

export function policyOf(
  spec: Partial<ConversionPolicySpec> = {},
  name = 'servers',
  generation = 1,
): ConversionPolicy {
  return { metadata: { name, generation }, spec: { ...serversSpec, ...spec } };
}

export function compiled(
  spec: Partial<ConversionPolicySpec> = {},
  definition: Definition = threeVersions(),
): CompiledConversion {
  const { usable, problems } = compileConversion(policyOf(spec), definition);
  if (usable === undefined || problems.length > 0) throw new Error(JSON.stringify(problems, undefined, 1));
  return usable;
}

/** A policy between v1 and v2 only, whose schemas accept any object. */
export const between = (
  toHub: ConversionPolicySpec['versions'][number]['toHub'],
  fromHub?: ConversionPolicySpec['versions'][number]['fromHub'],
  more: Partial<ConversionPolicySpec> = {},
): CompiledConversion =>
  compiled(
    {
      versions: [
        {
          name: 'v1',
          ...(toHub === undefined ? {} : { toHub }),
          ...(fromHub === undefined ? {} : { fromHub }),
        },
      ],
      ...more,
    },
    definitionOf([{ name: 'v1' }, { name: 'v2' }]),
  );

export function server(version: string, fields: JsonObject, metadata: JsonObject = {}): JsonObject {
  return {
    apiVersion: `${GROUP}/${version}`,
    kind: 'Server',
    metadata: { name: 'db', namespace: 'store', uid: 'u-1', ...metadata },
    ...fields,
  };
}
