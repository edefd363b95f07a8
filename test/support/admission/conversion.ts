/** For tests: a CustomResourceDefinition whose versions differ, and a compiled policy that converts them. */
import type { ConversionPolicy, ConversionPolicySpec } from '../../../src/api/conversion-policy.ts';
import type { JsonObject } from '../../../src/json/json.ts';
import { compileConversion, type CompiledConversion } from '../../../src/admission/conversion/compile.ts';
import { readDefinition, type Definition } from '../../../src/admission/conversion/definition.ts';
import { definitionOf as crdOf, resourceOf } from '../definitions.ts';

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

/** Like v1, but with `spec.count` instead of replicas, and without disks. */
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
  const all = versions.map(({ name, schema, served = true, storage = name === 'v2' }) => ({
    name,
    served,
    storage,
    ...(schema === undefined ? {} : { schema: { openAPIV3Schema: schema } }),
  }));
  return { ...crdOf(resourceOf(GROUP, 'servers', 'Server'), { versions: all, ...spec }), status };
}

export function definitionOf(...fields: Parameters<typeof crd>): Definition {
  const definition = readDefinition(crd(...fields));
  if (definition === undefined) throw new Error('this is not a CustomResourceDefinition');
  return definition;
}

export const threeVersions = (spec: object = {}): Definition =>
  definitionOf(
    [v1Schema, v2Schema, v3Schema].map((schema, index) => ({ name: `v${index + 1}`, schema })),
    spec,
  );

const HAS_ENDPOINT = 'has(object.spec) && has(object.spec.endpoint)';
const HAS_ADDRESS = 'has(object.spec) && has(object.spec.address) && has(object.spec.address.host)';

const HAS_PORT = `${HAS_ENDPOINT} && object.spec.endpoint.matches("^[^:]*:[0-9]{1,9}$")`;
const JOINED =
  'object.spec.address.host + (has(object.spec.address.port) ? ":" + string(object.spec.address.port) : "")';
const set = (path: string, when: string, expression: string) => ({ set: { path, when, expression } });

const address = [
  set('spec.address.host', HAS_ENDPOINT, 'object.spec.endpoint.split(":")[0]'),
  set('spec.address.port', HAS_PORT, 'int(object.spec.endpoint.split(":")[1])'),
  { remove: { path: 'spec.endpoint' } },
];
const endpoint = [set('spec.endpoint', HAS_ADDRESS, JOINED), { remove: { path: 'spec.address' } }];
const GIGABYTES = 'has(item.size) && item.size.matches("^[0-9]{1,9}Gi$")';

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
        set('spec.disks[*].gigabytes', GIGABYTES, 'int(item.size.split("Gi")[0])'),
        { remove: { path: 'spec.disks[*].size' } },
      ],
      fromHub: [
        ...endpoint,
        { move: { from: 'metadata.annotations["example.com/rack"]', to: 'spec.rack' } },
        { move: { from: 'status.state', to: 'status.phase' } },
        set('spec.disks[*].size', 'has(item.gigabytes)', 'string(item.gigabytes) + "Gi"'),
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
